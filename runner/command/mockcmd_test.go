package command

import "testing"

// TestMockScenarioValues: a scenario's value is checked before anything is served.
func TestMockScenarioValues(t *testing.T) {
	t.Parallel()
	for scenario, says := range map[string]string{
		"batch-token-limit=many": `parameter token-limit can't be "many"`,
		"batch-create-lost=some": `parameter lost can't be "some"`,
		"batch-token-limi=5":     "did you mean batch-token-limit?",
	} {
		code, _, errs := world{}.call("mock", "--addr", ":0", "--scenario", scenario)
		want(t, code, errs, exitUsage, says)
	}
	code, _, errs := world{}.call("run", "--provider", "mock", "--mock-scenario", "slow=1ms", prompts(t, 2), "-q")
	want(t, code, errs, exitOK)
}
