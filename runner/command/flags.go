package command

import (
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"llmbatch/runner"
)

// The groups of --help, in its order.
const (
	groupFiles  = "Files"
	groupAPI    = "API and keys"
	groupBodies = "Where a line has none of its own"
	groupSpeed  = "Speed"
	groupTime   = "Time and attempts"
	groupMoney  = "Money"
	groupWhich  = "Which items"
	groupSeen   = "What people see"
	groupConfig = "Settings"
)

// options are the settings of a run. Each field is the value of the flag that
// it is named for.
type options struct {
	out, summary                      string
	template, templateFile, idField   string
	provider, endpoint, baseURL       string
	apiKeyFile, apiKeyCommand         string
	apiKeyTTL                         time.Duration
	expect                            string
	reask                             int
	burst                             int
	header                            list
	model, temperature, system        string
	systemFile, params, pricesFile    string
	maxTokens, concurrency            int
	fixed, stream                     bool
	rpm, tpm                          float64
	budget                            time.Duration
	until                             string
	itemBudget, attemptTimeout        time.Duration
	maxAttempts, maxErrors            int
	maxWait                           time.Duration
	retryFailed, fresh                bool
	limit                             int
	maxCost, priceInput, priceOutput  float64
	progress                          string
	quiet, verbose, debug             bool
	rerun, dedupe                     bool
	reuse                             list
	keep, delimiter, filesRoot        string
	connectTimeout, firstTokenTimeout time.Duration
	maxAnswer                         string
	maxAnswerBytes                    int64 // of maxAnswer
	config                            string
	printConfig                       bool
	startConcurrency                  int
	aimdIncrease, aimdDecrease        float64
	idleTimeout, drain                time.Duration
	onLongWait, onCut, continueStyle  string
	onChanged, shard                  string
	ordered, skipInvalid, noFailFast  bool
	onlyIDs, authHeader               string
	idempotencyHeader                 string
	seed                              uint64
	mockScenario                      string
	metricsAddr, metricsTextfile      string
	logFormat                         string
	priceCacheRead, priceCacheWrite   float64

	batchOptions

	// prices are those of the settings file, by model.
	prices map[string]runner.Price
	// from says where each setting came from, by flag name.
	from map[string]string
	// set holds the settings that are no defaults, as their flags' parsers read them.
	set map[string][]string
}

// runFlags are the flags of run in the order of its help; those that only --help-all
// shows are hidden.
func runFlags(o *options) []cli.Flag {
	return slices.Concat(fileFlags(o), apiFlags(o), paceFlags(o), batchFlags(o), otherFlags(o))
}

// fileFlags are about input and output.
func fileFlags(o *options) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Category: groupFiles, Name: "out", Aliases: []string{"o"}, Destination: &o.out, DefaultText: "prompts.results.jsonl beside prompts.jsonl",
			Usage: "`FILE`: results; - writes one final row an item to standard output (no resume)"},
		&cli.StringFlag{Category: groupFiles, Name: "template", Aliases: []string{"t"}, Destination: &o.template,
			Usage: "`TEXT`: makes a prompt of each JSON object or CSV row, such as 'Classify: {{.text}}'"},
		&cli.StringFlag{Category: groupFiles, Name: "template-file", Destination: &o.templateFile, Usage: "`FILE`: such a template"},
		&cli.StringFlag{Category: groupFiles, Name: "id-field", Destination: &o.idField, DefaultText: "id", Usage: "`NAME`: the member or column that is the id, with a template"},
		&cli.StringFlag{Category: groupFiles, Name: "keep", Destination: &o.keep, DefaultText: "all of CSV and TSV, else none", Usage: "`COLUMNS`: with a template: columns or members that travel in the row, with commas between them; all; none"},
		&cli.StringFlag{Category: groupFiles, Name: "delimiter", Destination: &o.delimiter, DefaultText: "found in the header", Usage: "`CHAR`: stands between the cells of a table: , or ; or tab"},
		&cli.StringFlag{Category: groupFiles, Name: "files-root", Destination: &o.filesRoot, DefaultText: "the folder of PROMPTS", Usage: "`DIR`: folder that the paths in a line's files begin in and may not leave"},
		&cli.GenericFlag{Category: groupFiles, Name: "reuse", Value: &o.reuse, Usage: "`RESULTS`: an item with the same request as an ok row there gets its answer, without a request; repeatable"},
		&cli.BoolFlag{Category: groupFiles, Name: "dedupe", Destination: &o.dedupe, Usage: "items with the same request are sent once, the others get a copy of the answer"},
		&cli.BoolFlag{Category: groupFiles, Name: "fresh", Destination: &o.fresh, Usage: "start over; the old results are moved to FILE.bak"},
		&cli.StringFlag{Category: groupFiles, Name: "summary", Destination: &o.summary, Usage: "`FILE`: write the summary there, as JSON"},
		&cli.BoolFlag{Category: groupFiles, Hidden: true, Name: "ordered", Destination: &o.ordered, Usage: "rows in input order when the run ends"},
		&cli.BoolFlag{Category: groupFiles, Hidden: true, Name: "skip-invalid", Destination: &o.skipInvalid, Usage: "a bad line becomes a failed row instead of stopping the run"},
		&cli.StringFlag{Category: groupFiles, Hidden: true, Name: "on-changed", Value: "error", Destination: &o.onChanged, Usage: "`WHAT`: error or rerun, for an item that is done and whose line has changed"},
	}
}

// apiFlags say where requests go and what lines lack.
func apiFlags(o *options) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Category: groupAPI, Name: "provider", Value: "auto", Destination: &o.provider,
			Usage: "`NAME`: anthropic, openai, mock, azure, gemini, bedrock, groq, ollama, …: llmbatch providers lists them; auto: by a line's format, its model, the key that is set"},
		&cli.StringFlag{Category: groupAPI, Name: "endpoint", Value: "chat", Destination: &o.endpoint, Usage: "`NAME`: for openai: chat or responses; a batch line's own url wins"},
		&cli.StringFlag{Category: groupAPI, Name: "base-url", Destination: &o.baseURL, DefaultText: "ANTHROPIC_BASE_URL, OPENAI_BASE_URL, or the provider's",
			Usage: "`URL`: a compatible server or gateway: with /v1 for openai, without for anthropic; no key is then required"},
		&cli.StringFlag{Category: groupAPI, Name: "api-key-file", Destination: &o.apiKeyFile, DefaultText: "ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, OPENAI_API_KEY", Usage: "`FILE`: holds the key"},
		&cli.StringFlag{Category: groupAPI, Name: "api-key-command", Destination: &o.apiKeyCommand, Usage: "`CMD`: prints the key; run at first, by age, and once after a 401"},
		&cli.DurationFlag{Category: groupAPI, Name: "api-key-ttl", Value: 45 * time.Minute, Destination: &o.apiKeyTTL, Usage: "`DURATION`: how long a key that the command printed is used"},
		&cli.StringFlag{Category: groupAPI, Name: "expect", Destination: &o.expect, Usage: "`json|@SCHEMA`: what the answer's text must be, else the try failed"},
		&cli.IntFlag{Category: groupAPI, Name: "reask", Destination: &o.reask, Usage: "`N`: tries after an unexpected answer that say what was wrong with it"},
		&cli.GenericFlag{Category: groupAPI, Name: "header", Value: &o.header, Usage: "`'K: V'`: extra request header, repeatable; 'K: env:NAME' takes its value from the environment"},
		&cli.BoolFlag{Category: groupAPI, Name: "stream", Destination: &o.stream, Usage: "send streaming requests"},
		&cli.StringFlag{Category: groupAPI, Hidden: true, Name: "auth-header", Destination: &o.authHeader, DefaultText: "x-api-key, or Authorization: Bearer", Usage: "`NAME`: header that carries the key, such as api-key or x-goog-api-key"},
		&cli.StringFlag{Category: groupAPI, Hidden: true, Name: "idempotency-header", Value: "Idempotency-Key", Destination: &o.idempotencyHeader, Usage: "`NAME`: header of the key that is the same for all attempts of an item; off: none"},
		&cli.StringFlag{Category: groupAPI, Hidden: true, Name: "on-cut", Value: "restart", Destination: &o.onCut, Usage: "`WHAT`: restart or continue, when a stream is cut"},
		&cli.StringFlag{Category: groupAPI, Hidden: true, Name: "continue-style", Value: "user", Destination: &o.continueStyle, Usage: "`HOW`: user or prefill, to ask for the rest of a cut stream"},
		&cli.StringFlag{Category: groupAPI, Hidden: true, Name: "mock-scenario", Value: "ok", Destination: &o.mockScenario, Usage: "`NAME`: what --provider mock answers; llmbatch mock --help lists them"},

		&cli.StringFlag{Category: groupBodies, Name: "model", Destination: &o.model, Usage: "`MODEL`: the model to ask"},
		&cli.IntFlag{Category: groupBodies, Name: "max-tokens", Destination: &o.maxTokens, DefaultText: "none", Usage: "`N`: most output tokens an answer"},
		&cli.StringFlag{Category: groupBodies, Name: "temperature", Destination: &o.temperature, Usage: "`T`: sampling temperature"},
		&cli.StringFlag{Category: groupBodies, Name: "system", Destination: &o.system, Usage: "`TEXT`: system prompt"},
		&cli.StringFlag{Category: groupBodies, Name: "system-file", Destination: &o.systemFile, Usage: "`FILE`: holds the system prompt"},
		&cli.StringFlag{Category: groupBodies, Name: "params", Destination: &o.params, Usage: "`JSON`: further members of the body, such as '{\"top_p\": 0.9}'; @FILE reads them"},
	}
}

// paceFlags bound speed, time and money.
func paceFlags(o *options) []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Category: groupSpeed, Name: "concurrency", Value: 256, Destination: &o.concurrency, Usage: "`N`: most requests on the wire; how many there are is learned"},
		&cli.BoolFlag{Category: groupSpeed, Name: "fixed", Destination: &o.fixed, Usage: "no adaptation: stay at --concurrency"},
		&cli.Float64Flag{Category: groupSpeed, Name: "rpm", Destination: &o.rpm, DefaultText: "learned", Usage: "`N`: known limit of requests a minute"},
		&cli.IntFlag{Category: groupSpeed, Name: "burst", Hidden: true, Destination: &o.burst, DefaultText: "learned", Usage: "`N`: with --rpm: how many requests at once after a rest"},
		&cli.Float64Flag{Category: groupSpeed, Name: "tpm", Destination: &o.tpm, DefaultText: "learned", Usage: "`N`: known limit of tokens a minute"},
		&cli.IntFlag{Category: groupSpeed, Hidden: true, Name: "start-concurrency", Value: 4, Destination: &o.startConcurrency, Usage: "`N`: requests on the wire to begin with"},
		&cli.Float64Flag{Category: groupSpeed, Hidden: true, Name: "aimd-increase", Value: 0.05, Destination: &o.aimdIncrease, Usage: "`SHARE`: step of a probe upwards, of the limit"},
		&cli.Float64Flag{Category: groupSpeed, Hidden: true, Name: "aimd-decrease", Value: 0.95, Destination: &o.aimdDecrease, Usage: "`SHARE`: limit after a refusal, of what the server held"},

		&cli.DurationFlag{Category: groupTime, Name: "budget", Destination: &o.budget, DefaultText: "none", Usage: "`DURATION`: the run's time from the program's start, such as 6h"},
		&cli.StringFlag{Category: groupTime, Name: "until", Destination: &o.until, DefaultText: "none", Usage: "`TIME`: the run's end, such as 06:00 (the next one), '2026-01-31 06:00' or RFC 3339"},
		&cli.DurationFlag{Category: groupTime, Name: "item-budget", Value: 30 * time.Minute, Destination: &o.itemBudget, Usage: "`DURATION`: one item's time from its first attempt, waits included"},
		&cli.DurationFlag{Category: groupTime, Name: "attempt-timeout", Value: 10 * time.Minute, Destination: &o.attemptTimeout, Usage: "`DURATION`: one request's time"},
		&cli.IntFlag{Category: groupTime, Name: "max-attempts", Destination: &o.maxAttempts, DefaultText: "no count", Usage: "`N`: most requests an item, refusals by rate limit too; 1: never try again"},
		&cli.IntFlag{Category: groupTime, Name: "max-errors", Value: 5, Destination: &o.maxErrors, Usage: "`N`: most attempts of an item that fail for another reason than throttling or an outage"},
		&cli.DurationFlag{Category: groupTime, Name: "max-wait", Destination: &o.maxWait, DefaultText: "bounded by the budgets", Usage: "`DURATION`: longest single wait of an item"},
		&cli.DurationFlag{Category: groupTime, Hidden: true, Name: "connect-timeout", Value: 30 * time.Second, Destination: &o.connectTimeout, Usage: "`DURATION`: to dial, and again for TLS"},
		&cli.DurationFlag{Category: groupTime, Hidden: true, Name: "first-token-timeout", Destination: &o.firstTokenTimeout, DefaultText: "--attempt-timeout", Usage: "`DURATION`: until a stream's first token; --idle-timeout counts from there on"},
		&cli.StringFlag{Category: groupTime, Hidden: true, Name: "max-answer", Value: "64MB", Destination: &o.maxAnswer, Usage: "`SIZE`: longest answer that is read"},
		&cli.DurationFlag{Category: groupTime, Hidden: true, Name: "idle-timeout", Value: 2 * time.Minute, Destination: &o.idleTimeout, Usage: "`DURATION`: longest silence of a stream"},
		&cli.StringFlag{Category: groupTime, Hidden: true, Name: "on-long-wait", Value: "give-up", Destination: &o.onLongWait, Usage: "`WHAT`: give-up, or cap (wait --max-wait, then try), when a wait passes --max-wait"},
		&cli.DurationFlag{Category: groupTime, Hidden: true, Name: "drain", Value: 25 * time.Second, Destination: &o.drain, Usage: "`DURATION`: how long requests on the wire may finish when a run is stopped"},

		&cli.Float64Flag{Category: groupMoney, Name: "max-cost", Destination: &o.maxCost, DefaultText: "none", Usage: "`MONEY`: launch nothing that would pass this, by estimate"},
		&cli.StringFlag{Category: groupMoney, Name: "prices", Destination: &o.pricesFile, Usage: "`FILE`: prices by model: a map like prices in --config, or LiteLLM's JSON as it is"},
		&cli.Float64Flag{Category: groupMoney, Name: "price-input", Destination: &o.priceInput, DefaultText: "none", Usage: "`MONEY`: per million input tokens"},
		&cli.Float64Flag{Category: groupMoney, Name: "price-output", Destination: &o.priceOutput, DefaultText: "none", Usage: "`MONEY`: per million output tokens"},
		&cli.Float64Flag{Category: groupMoney, Hidden: true, Name: "price-cache-read", Destination: &o.priceCacheRead, DefaultText: "--price-input", Usage: "`MONEY`: per million input tokens read from a cache"},
		&cli.Float64Flag{Category: groupMoney, Hidden: true, Name: "price-cache-write", Destination: &o.priceCacheWrite, DefaultText: "--price-input", Usage: "`MONEY`: per million input tokens written to a cache"},
	}
}

// otherFlags choose items and say what people see.
func otherFlags(o *options) []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Category: groupWhich, Name: "limit", Destination: &o.limit, DefaultText: "all", Usage: "`N`: only the first items that need work"},
		&cli.BoolFlag{Category: groupWhich, Name: "retry-failed", Destination: &o.retryFailed, Usage: "also run items whose row says failed"},
		&cli.BoolFlag{Category: groupWhich, Name: "rerun", Destination: &o.rerun, Usage: "with --only-ids: ask for these again although they are done"},
		&cli.StringFlag{Category: groupWhich, Hidden: true, Name: "shard", Destination: &o.shard, Usage: "`I/N`: lines with index % n == i, from 0; auto reads SLURM_ARRAY_… or JOB_COMPLETION_INDEX"},
		&cli.StringFlag{Category: groupWhich, Hidden: true, Name: "only-ids", Destination: &o.onlyIDs, Usage: "`FILE`: one id a line; no other items are run"},
		&cli.BoolFlag{Category: groupWhich, Hidden: true, Name: "no-fail-fast", Destination: &o.noFailFast, Usage: "go on when the first ten items all fail for the same cause"},
		&cli.Uint64Flag{Category: groupWhich, Hidden: true, Name: "seed", Destination: &o.seed, DefaultText: "random", Usage: "`N`: seed of all jitter, to repeat a run"},

		&cli.StringFlag{Category: groupSeen, Name: "progress", Value: "auto", Destination: &o.progress, Usage: "`KIND`: bar, log (a line each 30 s), none; auto: bar on a terminal, else log"},
		&cli.BoolFlag{Category: groupSeen, Name: "quiet", Aliases: []string{"q"}, Destination: &o.quiet, Usage: "print nothing at all on success"},
		&cli.BoolFlag{Category: groupSeen, Name: "verbose", Aliases: []string{"v"}, Destination: &o.verbose, Usage: "log failures and changes of the limit, a sentence each"},
		&cli.BoolFlag{Category: groupSeen, Name: "very-verbose", Aliases: []string{"vv"}, Destination: &o.debug, Usage: "log each attempt and the state of the controller"},
		&cli.StringFlag{Category: groupSeen, Hidden: true, Name: "log-format", Value: "text", Destination: &o.logFormat, Usage: "`KIND`: text or json, for the log"},
		&cli.StringFlag{Category: groupSeen, Hidden: true, Name: "metrics-addr", Destination: &o.metricsAddr, Usage: "`ADDR`: serve Prometheus metrics there, such as 127.0.0.1:9464"},
		&cli.StringFlag{Category: groupSeen, Hidden: true, Name: "metrics-textfile", Destination: &o.metricsTextfile, Usage: "`FILE`: keep the metrics there for node_exporter, rewritten each 15 s and at the end"},

		&cli.StringFlag{Category: groupConfig, Name: "config", Destination: &o.config, Usage: "`FILE`: settings in YAML: flag names and values, and prices by model"},
		&cli.BoolFlag{Category: groupConfig, Name: "print-config", Destination: &o.printConfig, Usage: "show the effective settings and where each came from, keys hidden"},
		&cli.BoolFlag{Category: groupConfig, Name: "help-all", Usage: "show all flags"},
	}
}
