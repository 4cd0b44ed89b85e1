package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"llmbatch/input"
	"llmbatch/output"
)

// bytesPerToken is the rough size of a token of text.
const bytesPerToken = 4

// assumedAnswer is how long an answer is taken to take where only the ceiling of
// requests bounds the run.
const assumedAnswer = 10 * time.Second

// plan is what a run would do. Counts, formats and models are of the items that
// the run is about, sizes and estimates of those that need work. Members are only added.
type plan struct {
	Input   string         `json:"input"`
	Output  string         `json:"output"`
	Exists  bool           `json:"output_exists"`
	Items   int            `json:"items"`
	Invalid int            `json:"invalid"`
	Done    map[string]int `json:"rows"` // of earlier runs, by status
	ToDo    int            `json:"to_do"`
	Formats map[string]int `json:"formats"`
	Models  []*planModel   `json:"models"`

	BodyBytes    sizes   `json:"body_bytes"`
	InputTokens  int64   `json:"estimated_input_tokens"` // body bytes / 4
	OutputTokens int64   `json:"max_output_tokens"`      // the sum of max_tokens
	NoMaxTokens  int     `json:"items_without_max_tokens"`
	Cost         float64 `json:"estimated_cost,omitempty"` // at most, where every item has max_tokens and a price
	HasCost      bool    `json:"has_cost"`

	ItemSeconds float64  `json:"worst_case_item_seconds"` // 0: no bound
	RunSeconds  float64  `json:"expected_run_seconds"`
	BoundBy     string   `json:"expected_bound_by"`
	Filled      string   `json:"filled,omitempty"` // how many lines each flag filled
	Notes       []string `json:"notes,omitempty"`

	lengths []int
}

type planModel struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Items    int    `json:"items"`
	ToDo     int    `json:"to_do"`
}

// sizes are percentiles in bytes.
type sizes struct {
	P50 int `json:"p50"`
	P95 int `json:"p95"`
	Max int `json:"max"`
}

// plan checks the input and adds up.
func (s *session) plan(ctx context.Context) (*plan, error) {
	if err := s.route(); err != nil {
		return nil, err
	}
	if err := s.openForPlan(); err != nil {
		return nil, err
	}
	p := &plan{Input: s.in.Name(), Output: s.out, Exists: s.file != nil, Done: map[string]int{}, Formats: map[string]int{}}
	models := map[string]*planModel{}
	err := s.checkEach(ctx, func(it *input.Item, hash uint64) error {
		items, todo := s.found.items, s.found.todo
		if err := s.compare(it, hash); err != nil || s.found.items == items || it.Bad != nil {
			return err
		}
		return p.add(s, models, it, s.found.todo > todo && (s.o.limit == 0 || s.found.todo <= s.o.limit))
	})
	if err != nil {
		return nil, err
	}
	p.Items, p.Invalid, p.ToDo = s.found.items, s.found.bad, s.found.todo
	if s.o.limit > 0 {
		p.ToDo = min(p.ToDo, s.o.limit)
	}
	for status, n := range s.found.old {
		p.Done[string(status)] = n
	}
	for _, key := range slices.Sorted(maps.Keys(models)) {
		p.Models = append(p.Models, models[key])
	}
	p.estimate(s)
	return p, nil
}

// add counts an item, and what it takes if a run would send it.
func (p *plan) add(s *session, models map[string]*planModel, it *input.Item, send bool) error {
	t, err := s.router.route(it)
	if err != nil {
		return err
	}
	call, err := t.Provider.Encode(it, t.Defaults)
	if err != nil {
		return err
	}
	p.Formats[formatName(it.Format)]++
	key := call.Provider + " " + call.Model
	m := models[key]
	if m == nil {
		m = &planModel{Provider: call.Provider, Model: call.Model}
		models[key] = m
	}
	m.Items++
	if !send {
		return nil
	}
	m.ToDo++
	p.lengths = append(p.lengths, len(call.Body))
	in, out := int64(len(call.Body)/bytesPerToken), int64(call.MaxTokens)
	p.InputTokens += in
	p.OutputTokens += out
	if out == 0 {
		p.NoMaxTokens++
	}
	if price, ok := s.o.price(call.Model); ok && s.o.hasPrices() {
		p.HasCost = true
		p.Cost += (float64(in)*price.Input + float64(out)*price.Output) / 1e6
	} else if s.o.hasPrices() {
		p.note("no price for " + call.Model)
	}
	return nil
}

func (p *plan) note(text string) {
	if !slices.Contains(p.Notes, text) && len(p.Notes) < 20 {
		p.Notes = append(p.Notes, text)
	}
}

func formatName(f input.Format) string {
	return map[input.Format]string{input.Prompt: "prompt", input.Messages: "messages",
		input.OpenAIBatch: "openai batch", input.AnthropicBatch: "anthropic batch", input.Contents: "contents"}[f]
}

// estimate fills in what follows from the sums.
func (p *plan) estimate(s *session) {
	slices.Sort(p.lengths)
	if n := len(p.lengths); n > 0 {
		p.BodyBytes = sizes{p.lengths[(n-1)/2], p.lengths[(n-1)*95/100], p.lengths[n-1]}
	}
	o := s.o
	worst := o.itemBudget
	if o.maxAttempts == 1 && o.attemptTimeout > 0 && (worst == 0 || o.attemptTimeout < worst) {
		worst = o.attemptTimeout
	}
	p.ItemSeconds = worst.Seconds()
	rounds := (len(p.lengths) + o.concurrency - 1) / o.concurrency
	p.bound(float64(rounds)*assumedAnswer.Seconds(), fmt.Sprintf("%d at once, if an answer takes %s (--concurrency)", o.concurrency, assumedAnswer))
	if o.rpm > 0 {
		p.bound(float64(len(p.lengths))/o.rpm*60, fmt.Sprintf("%g requests a minute (--rpm)", o.rpm))
	}
	if o.tpm > 0 {
		p.bound(float64(p.InputTokens+p.OutputTokens)/o.tpm*60, fmt.Sprintf("%g tokens a minute (--tpm)", o.tpm))
	}
	if o.budget > 0 && p.RunSeconds > o.budget.Seconds() {
		p.note("the run's time, " + shortDuration(o.budget) + ", may end first; the next run continues")
	}
	if o.maxCost > 0 && p.Cost > o.maxCost {
		p.note(fmt.Sprintf("the estimate passes --max-cost %g: the run would stop before the end", o.maxCost))
	}
	said, warnings := s.fillNotes()
	if p.Filled = said; said != "" {
		p.note("filled from the flags: " + said)
	}
	for _, w := range warnings {
		p.note(w)
	}
	if p.NoMaxTokens > 0 {
		p.note(plural(p.NoMaxTokens, "item has", "items have") + " no max_tokens: their output is in no estimate")
	}
	for _, m := range p.Models {
		if m.Provider != mockName && s.router.requireKey(m.Provider) != nil {
			p.note("there is no key for " + m.Provider + " yet")
		}
	}
}

func (p *plan) bound(seconds float64, by string) {
	if seconds > p.RunSeconds {
		p.RunSeconds, p.BoundBy = seconds, by
	}
}

// write prints the plan for people.
func (p *plan) write(w io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-13s %s\n", name, printable(fmt.Sprintf(format, args...)))
	}
	valid := "all lines valid"
	if p.Invalid > 0 {
		valid = plural(p.Invalid, "invalid line becomes a failed row", "invalid lines become failed rows")
	}
	line("input", "%s: %s, %s", p.Input, plural(p.Items, "item", "items"), valid)
	line("formats", "%s", counted(p.Formats))
	state := "new"
	if p.Exists {
		state = "has rows: " + counted(p.Done)
	}
	if p.Output == "-" {
		line("output", "standard output")
	} else {
		line("output", "%s (%s)", p.Output, state)
	}
	switch {
	case p.ToDo == p.Items:
		line("to do", "%s", plural(p.ToDo, "item", "items"))
	case p.ToDo == 0:
		line("to do", "nothing: a run would send no request")
	default:
		line("to do", "%s; a run would skip %d", plural(p.ToDo, "item", "items"), p.Items-p.ToDo)
	}
	for _, m := range p.Models {
		line("model", "%s %s: %d to do of %s", m.Provider, m.Model, m.ToDo, plural(m.Items, "item", "items"))
	}
	if len(p.lengths) > 0 {
		line("size", "half of the requests are up to %d bytes, 95 %% up to %d, the largest %d", p.BodyBytes.P50, p.BodyBytes.P95, p.BodyBytes.Max)
		line("tokens", "about %d in (bytes / %d)%s", p.InputTokens, bytesPerToken, p.mostOut())
	}
	if p.HasCost {
		line("cost", "about %.4g, if each answer is as long as its max_tokens", p.Cost)
	}
	switch {
	case p.ToDo == 0:
	case p.ItemSeconds > 0:
		line("one item", "takes %s at most, tries and waits included", shortDuration(seconds(p.ItemSeconds)))
	default:
		line("one item", "may take any time: see --item-budget")
	}
	if p.RunSeconds > 0 {
		line("whole run", "about %s: %s", shortDuration(seconds(p.RunSeconds)), p.BoundBy)
	}
	for _, n := range p.Notes {
		line("note", "%s", n)
	}
}

// mostOut is the bound of the output, where there is one.
func (p *plan) mostOut() string {
	if p.OutputTokens == 0 {
		return ", no bound for the answers"
	}
	return fmt.Sprintf(", at most %d out", p.OutputTokens)
}

func seconds(s float64) time.Duration {
	return time.Duration(min(s, 1e9) * float64(time.Second)).Round(time.Second)
}

// counted is "3 ok, 1 failed", the largest first.
func counted(m map[string]int) string {
	names := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		if m[a] != m[b] {
			return m[b] - m[a]
		}
		return strings.Compare(a, b)
	})
	var parts []string
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%d %s", m[name], name))
	}
	return orElse(strings.Join(parts, ", "), "none")
}

const planDescription = `Reads and checks PROMPTS as run would, with the same flags, and prints what a
run would do: items, models, sizes, tokens, cost, time, what is done already and
where results go. Nothing is sent or written, and no key is needed.`

func planCommand(e *env) *cli.Command {
	o := &options{}
	flags := append(runFlags(o), &cli.BoolFlag{Name: "json", Category: groupSeen, Usage: "print the plan as JSON"})
	return &cli.Command{
		Name: "plan", Usage: "check the file, say what a run would do and cost; sends nothing", ArgsUsage: "PROMPTS",
		Description: planDescription,
		Flags:       flags,
		Action: withSettings(e, o, func(c *cli.Context) error {
			prompts, err := oneArg(c, "PROMPTS")
			if err != nil {
				return err
			}
			return planPrompts(e, o, prompts, c.Bool("json"))
		}),
	}
}

func planPrompts(e *env, o *options, prompts string, asJSON bool) error {
	s, err := newSession(e, o, prompts)
	if err != nil {
		return err
	}
	s.dry = true
	defer s.release()
	if s.in.Pipe() {
		return usagef("plan needs a file: %s can be read only once", s.in.Name())
	}
	ctx, stop, end := listen(e)
	defer end()
	p, err := s.plan(ctx)
	s.leaveOutput()
	if err != nil {
		return s.abandon(ctx, stop, err)
	}
	if asJSON {
		data, err := json.MarshalIndent(p, "", "  ")
		if err != nil {
			return err
		}
		return writeOut(e.stdout, append(data, '\n'))
	}
	var b bytes.Buffer
	p.write(&b)
	if o.batch {
		if err := s.planBatches(&b, p); err != nil {
			return err
		}
	}
	if end, err := runEnd(o, e.start, e.now()); err != nil {
		return err
	} else if !end.IsZero() {
		fmt.Fprintf(&b, "run's end     %s\n", end.Format("2006-01-02 15:04:05 -0700"))
	}
	return writeOut(e.stdout, b.Bytes())
}

// openForPlan reads the index of results that exist, and changes nothing.
func (s *session) openForPlan() error {
	if !s.continues() {
		return nil
	}
	var err error
	if s.file, err = output.Open(s.out, output.Options{ReadOnly: true}); err != nil {
		return outputError(err)
	}
	return nil
}
