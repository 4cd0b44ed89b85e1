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
	{words: []string{"openrouter_in_flight_budget", "in_flight_budget"}, verdict: throttle},
	{words: []string{"weight_exceeds_budget"},
		phrases: []string{"requires more credits, or fewer", "can only afford"}, verdict: hopeless},
}

// money: the account can't pay, whatever the status. Its words are looked for in
// messages too, since gateways put a provider's error into a string of their own.
var money = []rule{
	{words: moneyWords, phrases: moneyWords, verdict: spent},
	{words: []string{"payment_required", "linked_organization_*", "user_profile_billing*", "user_profile_not_billable"},
		verdict: spent},
	{phrases: []string{
		"reached your api usage limits",
		"reached your specified api usage limits",
		"reached your specified workspace api usage limits",
		"credit balance is too low",
		"insufficient balance",
		"insufficient credits", "used all available credits", "have any credits",
		"prepayment credits are depleted",
		"monthly spend limit", "monthly spending limit", "spend limit", "spending limit", "spend cap", "spending cap",
		"billing hard limit",
		"check your billing details",
		"budget has been exceeded", "crossed budget", "budget limit exceeded", "exceededbudget", "over budget",
	}, verdict: spent},
	// Gemini says the same of a quota per minute.
	{phrases: []string{"exceeded your current quota"},
		unless: []string{"resource_exhausted", "quota exceeded for metric", "rate_limit_exceeded"}, verdict: spent},
	{statuses: []int{402}, verdict: spent},
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
		"request_body_encoding_*", "tool_name_conflict", "tool_reference_unresolved", "available_tools_limit_exceeded",
		"thread_*", "skill_read_blocked_undecryptable", "previous_response_not_found",
	}, verdict: hopeless},
	{phrases: []string{
		"prompt is too long", "input is too long", "maximum context length", "exceeds the context window",
		"exceeds the available context size", "too large to process", "reduce the length of the messages",
		"input token count exceeds the maximum",
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
		"auth_error", "unauthenticated", "api_key_invalid", "api_key_expired", "account_deactivated"},
		phrases: []string{"incorrect api key", "api key not valid"}, verdict: badKey},
	{words: []string{"organization_on_hold", "claude_code_*", "user_profile_required", "cmek_key_disabled",
		"cmek_key_network_blocked", "unsupported_country_region_territory", "service_disabled", "consumer_suspended",
		"consumer_invalid", "api_key_service_blocked", "api_key_ip_address_blocked", "api_key_http_referrer_blocked"},
		phrases: []string{"must have data retention enabled", "country, region, or territory not supported",
			"disabled organization", "organization has been disabled"}, verdict: account},
	{statuses: []int{400}, words: []string{"failed_precondition"}, verdict: account},
	{statuses: []int{400, 497}, phrases: []string{"http request to an https server", "plain http request was sent to https port"},
		verdict: verdict{class: Rejected, scope: WholeRun, advice: "write https:// in --base-url"}},

	{words: []string{"model_not_found", "deploymentnotfound", "no_endpoints", "model_deprecated", "model_decommissioned",
		"region_restricted", "model_not_available", "invalid_model", "model_permission_blocked_*"},
		phrases: []string{"not found, try pulling it first", "is not a valid model id", "does not have access to model",
			"model not exist", "invalid model name", "no endpoints found", "not allowed to sample from this model", "must be verified to"}, verdict: noModel},
	{statuses: []int{404}, words: []string{"notfounderror"}, verdict: noModel},
	{statuses: []int{404}, phrases: []string{"model:", "does not exist or you do not have access"}, verdict: noModel},
	{statuses: []int{404}, named: true, verdict: noModel},
	{statuses: []int{400, 403}, named: true, phrases: []string{"does not exist", "not found", "unknown model"}, verdict: noModel},
	{words: []string{"quota_per_day", "quota_of_zero"},
		verdict: verdict{class: RateLimited, scope: WholeLane, advice: adviseDaily}},
	{statuses: []int{429}, phrases: []string{"per-day", "per day"}, unhinted: true,
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
	{statuses: []int{503}, phrases: []string{"high demand"}, verdict: verdict{class: Overloaded, patient: true}},
	{statuses: []int{503}, words: []string{"unavailable_error"}, phrases: []string{"loading model"},
		verdict: verdict{class: Overloaded, patient: true, noShrink: true}},
	{words: []string{"overloaded_error", "server_is_overloaded", "provider_overloaded", "engine_overloaded"}, verdict: busy},
	{words: []string{"rate_limit_error", "rate_limit_exceeded", "throttling_error", "throttlingexception", "slow_down",
		"ramp_limit_exceeded", "capacity_exhausted", "too_many_requests"}, verdict: throttle},
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

// statusOf is the status that a code or type names, for errors that come without
// one of their own: in a 200, in a stream. 0: none.
func statusOf(word string) int {
	switch word {
	case "invalid_request_error", "invalid_request", "badrequesterror", "invalid_argument", "failed_precondition",
		"context_length_exceeded", "exceed_context_size_error", "content_policy_violation", "content_filter",
		"invalid_prompt", "refusal":
		return 400
	case "authentication_error", "authentication", "invalid_api_key", "unauthenticated", "auth_error":
		return 401
	case "billing_error", "payment_required":
		return 402
	case "permission_error", "permission_denied", "region_restricted":
		return 403
	case "not_found_error", "not_found", "notfounderror", "model_not_found", "no_endpoints":
		return 404
	case "conflict_error":
		return 409
	case "request_too_large":
		return 413
	case "rate_limit_error", "rate_limit_exceeded", "resource_exhausted", "slow_down", "insufficient_quota",
		"capacity_exhausted", "too_many_requests", "throttling_error", "ramp_limit_exceeded", "resource_unavailable":
		return 429
	case "cancelled":
		return 499
	case "api_error", "server_error", "internal_server_error", "internalservererror", "internal", "server", "unmapped",
		"internal_error":
		return 500
	case "not_supported_error":
		return 501
	case "provider_unavailable":
		return 502
	case "unavailable", "unavailable_error", "service_unavailable_error", "server_is_overloaded", "provider_overloaded",
		"temporarily_unavailable":
		return 503
	case "timeout", "timeout_error", "deadline_exceeded", "vector_store_timeout":
		return 504
	case "overloaded_error":
		return 529
	}
	return 0
}
