package provider

// A rule says what an answer means if it has one of the statuses and shows one
// of the signs. Words are compared with the answer's codes and types, phrases
// are looked for in its messages; all are in lower case.
type rule struct {
	statuses []int    // none: any
	words    []string // a trailing * stands for any end
	phrases  []string
	whole    []string // the message and nothing else
	named    bool     // only if the message names the request's model
	plain    bool     // only if the body is not JSON: it comes from something before the API
	unhinted bool     // only if nothing asks for a wait
	unless   []string // words or phrases that rule it out
	also     []string // words of which one is needed beside the sign
	verdict
}

// A verdict is the part of an Error that a rule decides.
type verdict struct {
	class    Class
	scope    Scope
	patient  bool
	noShrink bool
	dead     bool
	advice   string
}

// What users can do next.
const (
	adviseMoney  = "raise the limit or add credit, then run the same command again"
	adviseKey    = "check the key (and that it belongs to this base URL), then run the same command again"
	advisePath   = "check --base-url: Anthropic's has no /v1 at its end, OpenAI's and its kin's have"
	adviseModel  = "check the model's name and that the key may use it, then run the same command again"
	adviseDaily  = "wait for the quota's next day or raise it, then run the same command again"
	adviseSettle = "settle this in the provider's console, then run the same command again"
	adviseWall   = "something in front of the API refused this machine: check the key, try another network or ask its operator"
	adviseProxy  = "put the proxy's user name and password into HTTPS_PROXY or HTTP_PROXY"
	adviseStream = "long answers come through with --stream"
)

var (
	spent    = verdict{class: SpendCap, scope: WholeRun, advice: adviseMoney}
	badKey   = verdict{class: AuthError, scope: WholeRun, advice: adviseKey}
	account  = verdict{class: AuthError, scope: WholeRun, advice: adviseSettle}
	badPath  = verdict{class: Rejected, scope: WholeRun, advice: advisePath}
	walled   = verdict{class: AuthError, scope: WholeRun, advice: adviseWall}
	noModel  = verdict{class: Rejected, scope: WholeLane, advice: adviseModel}
	hopeless = verdict{class: Rejected, scope: ItemOnly}
	throttle = verdict{class: RateLimited}
	busy     = verdict{class: Overloaded}
	failing  = verdict{class: ServerError}
)

// exceptions look like money but stop nothing else.
var exceptions = []rule{
	// DashScope says a throttle in OpenAI's words for an empty account.
	{words: []string{"throttling", "throttling.*"}, phrases: []string{"error-code#token-limit", "error-code#rate-limit", "allocated quota exceeded"}, verdict: throttle},
	{also: []string{"insufficient_quota", "quota_exceeded", "exceeded_current_quota_error"},
		phrases: []string{"per minute", "per second", "(tpm)", "(rpm)", "(rps)", "rate limit", "too many requests", "slow down"},
		unless:  []string{"credit", "balance", "spend", "budget", "recharge", "top up"}, verdict: throttle},
	{words: []string{"openrouter_in_flight_budget", "in_flight_budget"}, verdict: throttle},
	{words: []string{"weight_exceeds_budget"},
		phrases: []string{"requires more credits, or fewer", "can only afford"}, verdict: hopeless},
}

// money: the account can't pay, whatever the status. Its words are looked for in
// messages too, since gateways put a provider's error into a string of their own.
var money = []rule{
	{words: moneyWords, phrases: moneyWords, verdict: spent},
	{words: []string{"arrearage", "insufficient_balance", "insufficient_credits", "insufficient_credit", "insufficient_funds",
		"insufficient_user_quota", "insufficient_account_balance", "balance_insufficient", "not_enough_balance", "not_enough_credits",
		"balance_not_enough", "no_credits", "out_of_credits", "credits_exhausted", "credit_exhausted", "balance_exhausted", "account_overdue*",
		"accountoverdue*", "overdue", "overdue_payment", "payment_overdue", "payment_failed", "exceeded_current_quota_error",
		"spend_limit*", "spending_limit*", "usage_limit_exceeded_for_billing", "pre_consume_token_quota_failed",
		"minimax_1008", "1113"}, verdict: spent},
	{statuses: []int{400, 402, 403}, words: []string{"30001"}, verdict: spent}, // SiliconFlow
	{words: []string{"payment_required", "linked_organization_*", "user_profile_billing*", "user_profile_not_billable"},
		verdict: spent},
	{phrases: []string{
		"reached your api usage limits",
		"reached your specified api usage limits",
		"reached your specified workspace api usage limits",
		"credit balance is too low",
		"insufficient balance", "insufficient account balance", "balance is insufficient", "balance insufficient", "balance not enough",
		"balance is not enough", "not enough balance", "not enough credit", "insufficient funds", "insufficient credit",
		"credit balance exhausted", "balance exhausted", "balance is exhausted", "credits exhausted", "credits are exhausted", "credit exhausted",
		"credits have been exhausted", "out of credits", "ran out of credit", "run out of credit", "no credits left", "no credits remaining",
		"no remaining credits", "zero balance", "negative balance", "balance is zero", "balance is negative", "user quota is not enough",
		"account is in good standing", "overdue payment", "payment is overdue", "unpaid invoice", "outstanding invoice", "in arrears",
		"please recharge", "recharge your account", "top up your", "please top up", "add funds", "add more credits", "purchase more credits",
		"used all available credits", "have any credits",
		"prepayment credits are depleted",
		"monthly spend limit", "monthly spending limit", "spend limit", "spending limit", "spend cap", "spending cap",
		"billing hard limit",
		"check your billing details",
		"budget has been exceeded", "crossed budget", "budget limit exceeded", "exceededbudget", "over budget",
	}, verdict: spent},
	{phrases: []string{"using a trial key"}, unless: []string{"minute"}, verdict: spent}, // Cohere: 1000 calls a month
	{phrases: otherTongues, verdict: spent},
	{phrases: []string{"check your plan and billing"}, also: []string{"exceeded_current_quota_error", "insufficient_quota"}, verdict: spent},
	// Gemini says the same of a quota per minute.
	{phrases: []string{"exceeded your current quota"},
		unless: []string{"resource_exhausted", "quota exceeded for metric", "rate_limit_exceeded"}, verdict: spent},
	{statuses: []int{402}, verdict: spent},
}

// otherTongues say that there is no money left.
var otherTongues = []string{
	"余额不足", "余额已用尽", "欠费", "请充值", "額度不足", "额度不足", "额度已用", "餘額不足", "账户余额", "资源包已用尽", // Chinese
	"残高不足", "残高が不足", "クレジットが不足", "クレジット不足", "利用上限額", // Japanese
	"잔액이 부족", "잔액 부족", "크레딧이 부족", "크레딧 부족", // Korean
	"guthaben reicht nicht", "nicht genügend guthaben", "unzureichendes guthaben", "guthaben aufgebraucht", "guthaben ist aufgebraucht",
	"solde insuffisant", "crédit insuffisant", "crédits insuffisants", "crédit épuisé", "crédits épuisés",
	"saldo insuficiente", "saldo insuficient", "créditos insuficientes", "créditos esgotados", "créditos agotados", "fondos insuficientes",
	"credito insufficiente", "saldo insufficiente", "crediti insufficienti", "credito esaurito",
	"недостаточно средств", "недостаточный баланс", "баланс исчерпан", "пополните баланс",
	"yetersiz bakiye", "bakiye yetersiz", "niewystarczające środki", "brak środków", "onvoldoende saldo", "onvoldoende tegoed",
	"số dư không đủ", "saldo tidak cukup", "saldo tidak mencukupi",
}

var moneyWords = []string{
	"enforced_spend_limit_reached", "contract_spend_limit_reached",
	"billing_error",
	"insufficient_quota", "credit_balance_exhausted",
	"organization_spend_limit_exceeded", "project_spend_limit_exceeded", "organization_usage_limit_exceeded",
	"billing_hard_limit_reached", "billing_not_active",
	"openrouter_guardrail_budget", "openrouter_workspace_budget", "openrouter_key_limit", "openrouter_credits",
	"budget_exceeded",
}

// never: this item can't pass as it stands, and says nothing about others.
var never = []rule{
	{words: []string{"request_too_large_for_limit"}, verdict: hopeless},
	{words: []string{
		"context_length_exceeded", "exceed_context_size_error", "string_above_max_length",
		"request_too_large", "request_body_too_large_after_decoding", "image_dimensions_too_large",
		"content_filter", "responsibleaipolicyviolation", "content_policy_violation", "invalid_prompt",
		"bio_policy", "cyber_policy", "misalignment_policy_violation", "data_residency_mismatch", "refusal",
		"image_*", "invalid_image*", "invalid_base64_image", "unsupported_image*", "empty_image_file", "failed_to_download_image",
		"file_*", "invalid_file*", "unsupported_file*", "data_inspection_failed", "datainspectionfailed", "sensitive_content", "1301",
		"minimax_1026", "minimax_1027", "minimax_2013", "baidu_336003",
		"request_body_encoding_*", "tool_name_conflict", "tool_reference_unresolved", "available_tools_limit_exceeded",
		"thread_*", "skill_read_blocked_undecryptable", "previous_response_not_found",
	}, verdict: hopeless},
	{phrases: []string{
		"prompt is too long", "input is too long", "maximum context length", "exceeds the context window",
		"exceeds the available context size", "too large to process", "reduce the length of the messages",
		"input token count exceeds the maximum", "input is too long for requested model", "maximum tokens you requested exceed",
	}, unless: []string{"rate_limit_error", "rate_limit_exceeded"}, verdict: hopeless},
	{statuses: []int{403}, phrases: []string{
		"context length", "context window", "input tokens", "tokens exceed", "token count",
		"flagged", "moderation", "guardrail", "content policy",
	}, verdict: hopeless},
	{statuses: []int{413}, verdict: hopeless},
}

// reach: answers that concern the lane or the run. The specific come before the
// bare statuses.
var reach = []rule{
	{words: []string{"key_model_access_denied", "team_model_access_denied", "user_model_access_denied",
		"org_model_access_denied", "project_model_access_denied"}, verdict: noModel},
	{words: []string{"invalid_api_key", "authentication_error", "authentication", "expired_key", "token_not_found_in_db",
		"auth_error", "unauthenticated", "api_key_invalid", "api_key_expired", "account_deactivated",
		"unrecognizedclientexception", "invalidsignatureexception", "expiredtokenexception", "expiredtoken", "missingauthenticationtokenexception",
		"access_token_expired", "incompletesignature", "incompletesignatureexception", "minimax_1004", "minimax_2049", "baidu_110", "baidu_111"},
		phrases: []string{"incorrect api key", "api key not valid"}, verdict: badKey},
	{words: []string{"organization_on_hold", "claude_code_*", "user_profile_required", "cmek_key_disabled",
		"cmek_key_network_blocked", "unsupported_country_region_territory", "service_disabled", "consumer_suspended",
		"consumer_invalid", "api_key_service_blocked", "api_key_ip_address_blocked", "api_key_http_referrer_blocked"},
		phrases: []string{"must have data retention enabled", "country, region, or territory not supported",
			"disabled organization", "organization has been disabled"}, verdict: account},
	{statuses: []int{400}, words: []string{"failed_precondition"}, verdict: account},
	{statuses: []int{400, 497}, phrases: []string{"http request to an https server", "plain http request was sent to https port"},
		verdict: verdict{class: Rejected, scope: WholeRun, advice: "write https:// in --base-url"}},

	{words: []string{"model_not_found", "deploymentnotfound", "resourcenotfoundexception", "operationnotsupported", "no_endpoints", "model_deprecated", "model_decommissioned",
		"region_restricted", "model_not_available", "invalid_model", "model_permission_blocked_*"},
		phrases: []string{"not found, try pulling it first", "is not a valid model id", "does not have access to model",
			"model not exist", "invalid model name", "no endpoints found", "not allowed to sample from this model", "must be verified to",
			"on-demand throughput isn", "provided model identifier is invalid", "isn't supported on this route", "publisher model"}, verdict: noModel},
	{statuses: []int{404}, words: []string{"notfounderror"}, unless: []string{"file not found"}, verdict: noModel},
	{statuses: []int{404}, phrases: []string{"model:", "does not exist or you do not have access"}, verdict: noModel},
	{statuses: []int{404}, named: true, verdict: noModel},
	{statuses: []int{400, 403}, named: true, phrases: []string{"does not exist", "not found", "unknown model"}, verdict: noModel},
	{statuses: []int{403}, words: []string{"accessdeniedexception"}, verdict: verdict{class: AuthError, scope: WholeLane, advice: adviseModel}},
	{words: []string{"quota_per_day", "quota_of_zero", "baidu_17", "baidu_19"},
		verdict: verdict{class: RateLimited, scope: WholeLane, advice: adviseDaily}},
	{statuses: []int{429}, phrases: []string{"per-day", "per day", "daily request limit", "daily limit", "daily quota"}, unhinted: true,
		verdict: verdict{class: RateLimited, scope: WholeLane, advice: adviseDaily}},

	{statuses: []int{407}, verdict: verdict{class: AuthError, scope: WholeRun, advice: adviseProxy}},
	{statuses: []int{401}, verdict: badKey},
	{statuses: []int{403}, words: []string{"permission_error", "permission_denied", "permissiondenied"},
		verdict: verdict{class: AuthError, scope: WholeLane, advice: adviseModel}},
	{statuses: []int{403}, plain: true, verdict: walled},
	{statuses: []int{403}, words: []string{"forbidden", "request_forbidden"},
		phrases: []string{"firewall rules", "virtual network"}, verdict: walled},
	{statuses: []int{403}, whole: []string{"", "forbidden", "access denied"}, verdict: walled},
	{statuses: []int{404}, plain: true, verdict: badPath},
	{statuses: []int{404}, whole: []string{"", "not found", "file not found", "resource not found", "404 not found"}, verdict: badPath},
	{statuses: []int{404}, phrases: []string{"invalid url", "unknown request url", "unrecognized request url",
		"page not found", "no route", "cannot post"}, verdict: badPath},
	{statuses: []int{405, 406, 415, 426, 501}, verdict: badPath},
}

// passing: worth another try.
var passing = []rule{
	{words: []string{"service_tier_capacity_exceeded", "3505", "resource_unavailable", "capacity_exceeded"},
		phrases: []string{"high demand"}, statuses: []int{429},
		verdict: verdict{class: RateLimited, patient: true}},
	{words: []string{"servicequotaexceededexception"}, verdict: verdict{class: RateLimited, patient: true}},
	{words: []string{"modelnotreadyexception"}, verdict: verdict{class: Overloaded, patient: true, noShrink: true}},
	{words: []string{"serviceunavailableexception"}, verdict: busy},
	{words: []string{"modeltimeoutexception", "modelerrorexception", "modelstreamerrorexception", "internalserverexception"}, verdict: failing},
	{statuses: []int{503}, phrases: []string{"high demand"}, verdict: verdict{class: Overloaded, patient: true}},
	{statuses: []int{503}, words: []string{"unavailable_error"}, phrases: []string{"loading model"},
		verdict: verdict{class: Overloaded, patient: true, noShrink: true}},
	{words: []string{"overloaded_error", "server_is_overloaded", "provider_overloaded", "engine_overloaded", "engine_overloaded_error"}, verdict: busy},
	{words: []string{"rate_limit_error", "rate_limit_exceeded", "throttling_error", "throttlingexception", "slow_down",
		"ramp_limit_exceeded", "capacity_exhausted", "too_many_requests", "too_many_requests_exception", "rate_limit_reached_error", "rate_limited",
		"max_parallel_requests", "concurrency_limit_exceeded", "minimax_1002", "minimax_1039", "minimax_1041", "baidu_4", "baidu_18"}, verdict: throttle},
	{phrases: []string{"no healthy deployments"}, statuses: []int{400, 404}, verdict: failing},
	{statuses: []int{429}, verdict: throttle},
	{statuses: []int{498}, verdict: verdict{class: Overloaded, patient: true}},
	{statuses: []int{503, 529}, verdict: busy},
	{statuses: []int{408}, verdict: verdict{class: Timeout}},
	{statuses: []int{409, 421, 424, 425}, verdict: verdict{class: ServerError, noShrink: true}},
	{statuses: []int{499}, verdict: failing},
	{statuses: []int{504, 524}, verdict: verdict{class: ServerError, advice: adviseStream}},
	{statuses: []int{525, 526}, verdict: verdict{class: ServerError, noShrink: true, dead: true}},
}

// concurrent tells a refusal for too many at once from one for too many in a time.
var concurrent = rule{
	words: []string{"max_parallel_requests", "concurrency_limit_exceeded", "concurrent_requests_limit_exceeded", "too_many_concurrent_requests",
		"concurrency_exceeded", "minimax_1041", "1302", "limit_concurrency"},
	phrases: []string{"max_parallel_requests", "parallel request", "concurrent", "concurrency", "simultaneous", "too many connections",
		"in flight", "in-flight", "at the same time", "at once", "并发"},
}

// statuses are those that a code or type names, for errors that come without one of
// their own: in a 200, in a stream.
var statuses = []struct {
	status int
	words  []string
}{
	{400, []string{"invalid_request_error", "invalid_request", "badrequesterror", "bad_request", "invalid_argument", "failed_precondition",
		"context_length_exceeded", "exceed_context_size_error", "content_policy_violation", "content_filter", "invalid_prompt", "refusal",
		"validationexception", "minimax_1026", "minimax_1027", "minimax_2013", "baidu_336003"}},
	{401, []string{"authentication_error", "authentication", "invalid_api_key", "unauthenticated", "auth_error", "unauthorized",
		"minimax_1004", "minimax_2049", "baidu_110", "baidu_111"}},
	{402, []string{"billing_error", "payment_required", "minimax_1008"}},
	{403, []string{"permission_error", "permission_denied", "region_restricted", "accessdeniedexception", "baidu_6"}},
	{404, []string{"not_found_error", "not_found", "notfounderror", "model_not_found", "no_endpoints"}},
	{409, []string{"conflict_error"}},
	{413, []string{"request_too_large"}},
	{429, []string{"rate_limit_error", "rate_limit_exceeded", "resource_exhausted", "slow_down", "insufficient_quota", "capacity_exhausted",
		"too_many_requests", "throttling_error", "throttlingexception", "throttling", "ramp_limit_exceeded", "resource_unavailable", "rate_limited",
		"minimax_1002", "minimax_1039", "minimax_1041", "baidu_4", "baidu_17", "baidu_18", "baidu_19"}},
	{499, []string{"cancelled"}},
	{500, []string{"api_error", "server_error", "internal_server_error", "internalservererror", "internal", "server", "unmapped",
		"internal_error", "internalserverexception"}},
	{501, []string{"not_supported_error"}},
	{502, []string{"provider_unavailable", "bad_gateway"}},
	{503, []string{"unavailable", "unavailable_error", "service_unavailable_error", "service_unavailable", "server_is_overloaded",
		"provider_overloaded", "temporarily_unavailable", "serviceunavailableexception"}},
	{504, []string{"timeout", "timeout_error", "deadline_exceeded", "vector_store_timeout", "minimax_1001"}},
	{529, []string{"overloaded_error"}},
}

// statusOf is the status that a code or type names, 0 for none.
func statusOf(word string) int {
	short := squash(word)
	for _, s := range statuses {
		for _, w := range s.words {
			if squash(w) == short {
				return s.status
			}
		}
	}
	return 0
}
