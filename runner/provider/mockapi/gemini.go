package mockapi

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"
)

// geminiPath takes the model and the method out of a path of Gemini's own API: /v1beta/models/MODEL:generateContent. It is
// not ok for other paths.
func geminiPath(path string) (model string, stream, ok bool) {
	model, ok = strings.CutPrefix(path, "/v1beta/models/")
	model, method, _ := strings.Cut(model, ":")
	stream = method == "streamGenerateContent"
	return model, stream, ok && model != "" && (stream || method == "generateContent")
}

// The parts of a GenerateContentResponse.
type (
	geminiAnswer struct {
		Candidates     []geminiCandidate `json:"candidates,omitempty"`
		PromptFeedback object            `json:"promptFeedback,omitempty"`
		UsageMetadata  *geminiUsage      `json:"usageMetadata,omitempty"`
		ModelVersion   string            `json:"modelVersion"`
		ResponseID     string            `json:"responseId"`
	}
	geminiCandidate struct {
		Content      geminiContent `json:"content"`
		FinishReason string        `json:"finishReason,omitempty"`
		Index        int           `json:"index"`
	}
	geminiContent struct {
		Parts []geminiPart `json:"parts"`
		Role  string       `json:"role"`
	}
	geminiPart struct {
		Text string `json:"text"`
	}
	geminiUsage struct {
		Prompt     int `json:"promptTokenCount"`
		Candidates int `json:"candidatesTokenCount"`
		Thoughts   int `json:"thoughtsTokenCount"`
		Total      int `json:"totalTokenCount"`
	}
)

// gemini returns an answer, or of a stream the part with a piece of the text; last: it has the finish reason and the usage.
// A blocked prompt has no candidate.
func (c *call) gemini(text string, last bool) []byte {
	in, out := c.p.in(), c.p.out()
	a := geminiAnswer{ModelVersion: c.req.model, ResponseID: "mock_" + hex(c.req.hash)}
	candidate := geminiCandidate{Content: geminiContent{Parts: []geminiPart{{text}}, Role: "model"}}
	if last {
		candidate.FinishReason = cmp.Or(c.p.Stop, "STOP")
		a.UsageMetadata = &geminiUsage{in, out, c.p.Thoughts, in + out + c.p.Thoughts}
	}
	if a.Candidates = []geminiCandidate{candidate}; c.p.Block != "" {
		a.Candidates, a.PromptFeedback = nil, object{"blockReason": c.p.Block}
		a.UsageMetadata = &geminiUsage{Prompt: in, Total: in}
	}
	b, _ := json.Marshal(a) // strings and numbers can always be written
	return b
}

// geminiStatuses are Google's names of the statuses.
var geminiStatuses = map[int]string{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND", 405: "UNIMPLEMENTED",
	413: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 529: "UNAVAILABLE"}

// gemini returns the fault in Google's shape; a wait of more than 0 is told as a RetryInfo.
func (f fault) gemini(wait time.Duration) []byte {
	e := object{"code": f.status, "message": f.openai.message, "status": cmp.Or(geminiStatuses[f.status], "UNKNOWN")}
	if wait > 0 {
		e["details"] = []object{{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": wait.String()}}
	}
	b, _ := json.Marshal(object{"error": e})
	return b
}

// retryInfo takes the wait out of the headers, where Google has none.
func (c *call) retryInfo() time.Duration {
	h := c.w.Header()
	wait, err := time.ParseDuration(h.Get(retryAfterMS) + "ms")
	if err != nil {
		wait, _ = time.ParseDuration(h.Get(retryAfter) + "s") // 0 where there is no header
	}
	h.Del(retryAfter)
	h.Del(retryAfterMS)
	return wait
}
