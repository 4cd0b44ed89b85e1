package provider

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// want is the part of an Error that the rows below decide.
type want struct {
	class    Class
	scope    Scope
	noRetry  bool
	noShrink bool
	patient  bool
	hint     time.Duration
}

var (
	wantSpent   = want{class: SpendCap, scope: WholeRun}
	wantKey     = want{class: AuthError, scope: WholeRun}
	wantPath    = want{class: Rejected, scope: WholeRun}
	wantModel   = want{class: Rejected, scope: WholeLane}
	wantDaily   = want{class: RateLimited, scope: WholeLane}
	wantItem    = want{class: Rejected, scope: ItemOnly}
	wantThrottl = want{class: RateLimited}
	wantBusy    = want{class: Overloaded}
	wantFailing = want{class: ServerError}
)

type row struct {
	name    string
	status  int
	headers string // "k: v" lines
	body    string
	want
	request string
}

const userRequest = `{"model":"m-large-1","max_tokens":100,"messages":[{"role":"user","content":"Say hello"}]}`

// The rows are the signals that concern an answer, in their order.
var rows = []row{
	// Money: the run ends.
	{name: "1 anthropic tier cap", status: 429, body: `{"type":"error","error":{"type":"rate_limit_error","message":"You have reached your API usage limits: your organization has crossed its monthly API usage threshold.","details":{"error_code":"enforced_spend_limit_reached"}},"request_id":"req_1"}`, want: wantSpent},
	{name: "1 by the code alone, reworded", status: 429, headers: "retry-after: 5\nx-should-retry: true", body: `{"type":"error","error":{"type":"rate_limit_error","message":"Come back later.","details":{"error_code":"enforced_spend_limit_reached"}}}`, want: wantSpent},
	{name: "2 contract limit", status: 429, body: `{"type":"error","error":{"type":"rate_limit_error","message":"m","details":{"error_code":"contract_spend_limit_reached"}}}`, want: wantSpent},
	{name: "2 linked organization", status: 402, body: `{"type":"error","error":{"type":"billing_error","message":"m","details":{"error_code":"linked_organization_spend_limit_reached"}}}`, want: wantSpent},
	{name: "3 specified limit", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."}}`, want: wantSpent},
	{name: "3 specified workspace limit", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified workspace API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."}}`, want: wantSpent},
	{name: "3 without a code", status: 429, body: `{"type":"error","error":{"type":"rate_limit_error","message":"You have reached your API usage limits"}}`, want: wantSpent},
	{name: "4 billing_error at 403", status: 403, body: `{"type":"error","error":{"type":"billing_error","message":"Your account has a billing issue"}}`, want: wantSpent},
	{name: "C08 credit at 400", status: 400, headers: "x-should-retry: false", body: `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}`, want: wantSpent},
	{name: "C07 monthly spend limit with retry-after", status: 429, headers: "retry-after: 600", body: `{"type":"error","error":{"type":"rate_limit_error","message":"Your workspace has hit its monthly spend limit."}}`, want: wantSpent},
	{name: "6 not billable", status: 403, body: `{"type":"error","error":{"type":"permission_error","message":"m","details":{"error_code":"user_profile_not_billable"}}}`, want: wantSpent},
	{name: "6 on hold", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"m","details":{"error_code":"organization_on_hold"}}}`, want: wantKey},
	{name: "6 data retention", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"In order to access this model, your organization or workspace must have data retention enabled."}}`, want: wantKey},
	{name: "C06 insufficient_quota", status: 429, body: `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, want: wantSpent},
	{name: "7 type only, 403", status: 403, body: `{"error":{"message":"m","type":"insufficient_quota","param":null,"code":null}}`, want: wantSpent},
	{name: "8 credit_balance_exhausted", status: 429, body: `{"error":{"message":"m","type":"insufficient_quota","code":"credit_balance_exhausted"}}`, want: wantSpent},
	{name: "8 organization limit", status: 429, body: `{"error":{"message":"m","type":"x","code":"organization_spend_limit_exceeded"}}`, want: wantSpent},
	{name: "8 project limit", status: 429, body: `{"error":{"message":"m","type":"x","code":"project_spend_limit_exceeded"}}`, want: wantSpent},
	{name: "8 usage limit", status: 429, body: `{"error":{"message":"m","type":"x","code":"organization_usage_limit_exceeded"}}`, want: wantSpent},
	{name: "8 hard limit", status: 429, body: `{"error":{"message":"Billing hard limit has been reached","type":"invalid_request_error","code":"billing_hard_limit_reached"}}`, want: wantSpent},
	{name: "8 not active", status: 429, body: `{"error":{"message":"Your account is not active, please check your billing details on our website.","type":"billing_not_active","code":"billing_not_active"}}`, want: wantSpent},
	{name: "9 openrouter 402", status: 402, body: `{"error":{"code":402,"message":"Insufficient credits. Add more.","metadata":{"error_type":"payment_required","limit_source":"openrouter_credits"}}}`, want: wantSpent},
	{name: "10 openrouter budget", status: 403, body: `{"error":{"code":403,"message":"Budget limit exceeded","metadata":{"limit_source":"openrouter_workspace_budget","resets_at":"2026-12-01T00:00:00Z"}}}`, want: wantSpent},
	{name: "10 openrouter key limit", status: 403, body: `{"error":{"code":403,"message":"m","metadata":{"limit_source":"openrouter_key_limit"}}}`, want: wantSpent},
	{name: "11 litellm budget", status: 429, body: `{"error":{"message":"Budget has been exceeded! Current cost: 10.2, Max budget: 10.0","type":"budget_exceeded","param":null,"code":"429"}}`, want: wantSpent},
	{name: "11 litellm budget at 400", status: 400, body: `{"error":{"message":"Budget has been exceeded! Current cost: 10.2","type":"auth_error","param":"None","code":"400"}}`, want: wantSpent},
	{name: "11 litellm crossed budget", status: 429, body: `{"error":{"message":"No deployments available - crossed budget: m","type":"None","code":"429"}}`, want: wantSpent},
	{name: "12 deepseek 402", status: 402, body: `{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}`, want: wantSpent},
	{name: "12 402 without a body", status: 402, want: wantSpent},
	{name: "12 402 with a wait and no marker", status: 402, headers: "retry-after: 3", body: `{"message":"pay"}`, want: wantSpent},
	{name: "13 gemini prepaid", status: 429, body: `[{"error":{"code":429,"message":"Your prepayment credits are depleted. Top up.","status":"RESOURCE_EXHAUSTED"}}]`, want: wantSpent},
	{name: "money in a 200", status: 200, body: `{"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}`, want: wantSpent},
	{name: "money wrapped by a gateway as JSON", status: 500, body: `{"error":{"message":"litellm.APIError: AnthropicException - {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"x\",\"details\":{\"error_code\":\"contract_spend_limit_reached\"}}}","type":null,"param":null,"code":"500"}}`, want: wantSpent},
	{name: "money wrapped as a Python dict", status: 429, body: `{"error":{"message":"Error code: 429 - {'error': {'message': 'x', 'type': 'insufficient_quota'}}","type":"throttling_error","code":"429"}}`, want: wantSpent},
	{name: "xai credits", status: 429, body: `{"code":"Some resource has been exhausted","error":"Your team has either used all available credits or reached its monthly spending limit."}`, want: wantSpent},
	{name: "xai no credits", status: 403, body: `{"code":"The caller does not have permission to execute the specified operation","error":"Your newly created team doesn't have any credits yet."}`, want: wantSpent},
	{name: "fireworks suspended", status: 412, body: `{"error":{"message":"Account x is suspended, possibly due to reaching the monthly spending limit","code":"PRECONDITION_FAILED"}}`, want: wantSpent},
	{name: "money wrapped twice", status: 500, body: `{"error":"upstream {x}: {\"message\":\"{\\\"error\\\":{\\\"type\\\":\\\"insufficient_quota\\\"}}\"}"}`, want: wantSpent},
	{name: "money in plain text", status: 400, body: `Your credit balance is too low to access the API`, want: wantSpent},

	// A lane's end.
	{name: "14 gemini per day", status: 429, body: `[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details. * Quota exceeded for metric: x, limit: 50\nPlease retry in 25.3s.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"25s"}]}}]`, want: wantDaily},
	{name: "14 gemini limit: 0", status: 429, body: `{"error":{"code":429,"message":"You exceeded your current quota. Quota exceeded for metric: generate_content_free_tier_requests, limit: 0, model: x","status":"RESOURCE_EXHAUSTED"}}`, want: wantDaily},
	{name: "C17 free models per day, no reset", status: 429, body: `{"error":{"code":429,"message":"Rate limit exceeded: free-models-per-day. Add credits"}}`, want: wantDaily},
	{name: "49 per day with a header", status: 429, headers: "retry-after: 600", body: `{"error":{"message":"Rate limit reached on requests per day (RPD): Limit 200, Used 200, Requested 1.","type":"requests","code":"rate_limit_exceeded"}}`, want: wantThrottl},
	{name: "15 gemini key", status: 400, body: `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}]`, want: wantKey},
	{name: "15 gemini precondition", status: 400, body: `{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}`, want: wantKey},
	{name: "16 anthropic 401", status: 401, body: `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`, want: wantKey},
	{name: "16 vllm 401", status: 401, body: `{"error":"Unauthorized"}`, want: wantKey},
	{name: "16 401 without a body", status: 401, want: wantKey},
	{name: "16 azure 401", status: 401, body: `{"error":{"code":"401","message":"Access denied due to invalid subscription key or wrong API endpoint."}}`, want: wantKey},
	{name: "16 401 not to be retried", status: 401, headers: "x-should-retry: false", body: `{"error":{"message":"Incorrect API key provided: sk-ab**cd","type":"invalid_request_error","code":"invalid_api_key"}}`, want: wantKey},
	{name: "17 at another status", status: 400, body: `{"error":{"message":"m","type":"token_not_found_in_db","code":"400"}}`, want: wantKey},
	{name: "18 openai model", status: 404, body: `{"error":{"message":"The model 'm-large-1' does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}`, want: wantModel},
	{name: "18 anthropic model", status: 404, body: `{"type":"error","error":{"type":"not_found_error","message":"model: m-large-1"}}`, want: wantModel},
	{name: "18 vllm model", status: 404, body: `{"object":"error","message":"The model does not exist.","type":"NotFoundError","param":null,"code":404}`, want: wantModel},
	{name: "18 ollama model", status: 404, body: `{"error":{"message":"model 'x' not found, try pulling it first","type":"not_found_error","param":null,"code":null}}`, want: wantModel},
	{name: "18 azure deployment", status: 404, body: `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist. If you created the deployment within the last 5 minutes, please wait a moment and try again."}}`, want: wantModel},
	{name: "18 gemini model", status: 404, body: `[{"error":{"code":404,"message":"models/m-large-1 is not found for API version v1main","status":"NOT_FOUND"}}]`, want: wantModel},
	{name: "18 litellm model", status: 400, body: `{"error":{"message":"{'error': '/chat/completions: Invalid model name passed in model=x'}","type":"None","param":"None","code":"400"}}`, want: wantModel},
	{name: "18 deepseek model", status: 400, body: `{"error":{"message":"Model Not Exist","type":"invalid_request_error"}}`, want: wantModel},
	{name: "18 together model", status: 404, body: `{"error":{"message":"Unable to access model x.","type":"invalid_request_error","code":"model_not_available"}}`, want: wantModel},
	{name: "18 mistral model", status: 400, body: `{"object":"error","message":"Invalid model: x","type":"invalid_model","param":null,"code":"1500"}`, want: wantModel},
	{name: "18 groq retired", status: 400, body: `{"error":{"message":"m","type":"invalid_request_error","code":"model_decommissioned"}}`, want: wantModel},
	{name: "19 openai project", status: 403, body: `{"error":{"message":"Project proj_x does not have access to model m","type":"invalid_request_error","code":"model_not_found"}}`, want: wantModel},
	{name: "19 litellm key", status: 401, body: `{"error":{"message":"key not allowed to access model","type":"key_model_access_denied","param":"model","code":"401"}}`, want: wantModel},
	{name: "20 openrouter no endpoints", status: 404, body: `{"error":{"code":404,"message":"No endpoints found for x.","availability":{"code":"no_endpoints","retryable":false}}}`, want: wantModel},
	{name: "20 openrouter model", status: 400, body: `{"error":{"code":400,"message":"x is not a valid model ID","availability":{"code":"model_not_found","retryable":false}}}`, want: wantModel},
	{name: "20 openrouter region", status: 403, body: `{"error":{"code":403,"message":"m","availability":{"code":"region_restricted"}}}`, want: wantModel},
	{name: "20 openrouter deprecated", status: 410, body: `{"error":{"code":410,"message":"m","availability":{"code":"model_deprecated"}}}`, want: wantModel},

	// This item only.
	{name: "21 request too large", status: 429, body: `{"error":{"message":"Request too large for gpt-x in organization org-1 on tokens per min (TPM): Limit 30000, Requested 41234. The input or output tokens must be reduced.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, want: wantItem},
	{name: "21 and to be retried", status: 429, headers: "x-should-retry: true", body: `{"error":{"message":"Request too large for gpt-x on tokens per min (TPM): Limit 30,000, Requested 41,234.","type":"tokens","code":"rate_limit_exceeded"}}`, want: wantItem},
	{name: "21 but it fits", status: 429, body: `{"error":{"message":"Request too large for gpt-x on TPM: Limit 30000, Requested 234.","type":"tokens","code":"rate_limit_exceeded"}}`, want: wantThrottl},
	{name: "22 groq 413", status: 413, headers: "x-should-retry: false", body: `{"error":{"message":"Request too large for model x in organization o service tier on_demand on tokens per minute (TPM): Limit 8000, Requested 32979","type":"tokens","code":"rate_limit_exceeded"}}`, want: wantItem},
	{name: "23 together 403", status: 403, body: `{"error":{"message":"Input tokens + max_new_tokens must be below the context length","type":"invalid_request_error"}}`, want: wantItem},
	{name: "C57 context", status: 400, body: `{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, want: wantItem},
	{name: "24 context, to be retried", status: 400, headers: "x-should-retry: true", body: `{"error":{"message":"m","type":"invalid_request_error","code":"context_length_exceeded"}}`, want: wantItem},
	{name: "24 anthropic prompt", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, want: wantItem},
	{name: "24 llama.cpp context", status: 400, body: `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":4096}}`, want: wantItem},
	{name: "54 llama.cpp old", status: 500, body: `{"error":{"code":500,"message":"input is too large to process. increase the physical batch size","type":"server_error"}}`, want: wantItem},
	{name: "24 vllm context", status: 400, body: `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","type":"BadRequestError","param":null,"code":400}`, want: wantItem},
	{name: "25 cloudflare 413", status: 413, body: "<html><head><title>413 Request Entity Too Large</title></head><body></body></html>", want: wantItem},
	{name: "25 anthropic 413", status: 413, body: `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, want: wantItem},
	{name: "26 azure filter", status: 400, body: `{"error":{"message":"The response was filtered","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}`, want: wantItem},
	{name: "C57 policy", status: 400, body: `{"error":{"message":"m","type":"invalid_request_error","code":"content_policy_violation"}}`, want: wantItem},
	{name: "26 invalid_prompt", status: 400, body: `{"error":{"message":"m","type":"invalid_request_error","code":"invalid_prompt"}}`, want: wantItem},
	{name: "27 openrouter moderation", status: 403, body: `{"error":{"code":403,"message":"Your input was flagged for \"violence\"","metadata":{"reasons":["violence"],"flagged_input":"credit balance is too low","error_type":"permission_denied"}}}`, want: wantItem},
	{name: "27 openrouter refusal", status: 400, body: `{"error":{"code":400,"message":"m","metadata":{"error_type":"refusal"}}}`, want: wantItem},
	{name: "28 openrouter weight", status: 402, body: `{"error":{"code":402,"message":"m","metadata":{"limit_source":"weight_exceeds_budget"}}}`, want: wantItem},
	{name: "28 openrouter in words", status: 402, body: `{"error":{"code":402,"message":"This request requires more credits, or fewer max_tokens. You requested up to 9000 tokens, but can only afford 10"}}`, want: wantItem},
	{name: "29 prefill", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"This model does not support assistant message prefill."}}`, want: wantItem},
	{name: "29 thread conflict", status: 409, body: `{"type":"error","error":{"type":"conflict_error","message":"m","details":{"error_code":"thread_already_continued"}}}`, want: wantItem},
	{name: "30 unsupported", status: 400, body: `{"error":{"message":"Unsupported parameter: 'max_tokens'","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}`, want: wantItem},
	{name: "31 mistral 422", status: 422, body: `{"detail":[{"loc":["body","messages"],"msg":"field required","type":"value_error.missing","input":{"error":{"code":"insufficient_quota"}}}]}`, want: wantItem},

	// Access and paths.
	{name: "32 anthropic permission", status: 403, body: `{"type":"error","error":{"type":"permission_error","message":"Your API key does not have permission to use the specified resource."}}`, want: want{class: AuthError, scope: WholeLane}},
	{name: "32 gemini permission", status: 403, body: `{"error":{"code":403,"message":"m","status":"PERMISSION_DENIED"}}`, want: want{class: AuthError, scope: WholeLane}},
	{name: "33 challenge", status: 403, body: "<!DOCTYPE html><html><head><title>Just a moment...</title></head></html>", want: wantKey},
	{name: "33 firewall text", status: 403, body: "error code: 1020", want: wantKey},
	{name: "33 country", status: 403, body: `{"error":{"message":"Country, region, or territory not supported","type":"request_forbidden","code":"unsupported_country_region_territory"}}`, want: wantKey},
	{name: "34 405", status: 405, body: `{"detail":"Method Not Allowed"}`, want: wantPath},
	{name: "34 404 fastapi", status: 404, body: `{"detail":"Not Found"}`, want: wantPath},
	{name: "34 404 html", status: 404, body: "<html><title>404 Not Found</title></html>", want: wantPath},
	{name: "34 404 text", status: 404, body: "404 page not found", want: wantPath},
	{name: "34 404 empty", status: 404, want: wantPath},
	{name: "34 404 openai", status: 404, body: `{"error":{"message":"Invalid URL (POST /v2/x)","type":"invalid_request_error","code":null}}`, want: wantPath},
	{name: "34 404 azure", status: 404, body: `{"error":{"code":"404","message":"Resource not found"}}`, want: wantPath},
	{name: "34 404 llama.cpp", status: 404, body: `{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}`, want: wantPath},
	{name: "34 415", status: 415, want: wantPath},
	{name: "34 501", status: 501, body: `{"error":{"code":501,"message":"m","type":"not_supported_error"}}`, want: wantPath},
	{name: "37 404 of an item", status: 404, body: `{"error":{"message":"File file_9 was not found","type":"invalid_request_error","code":null}}`, want: wantItem},
	{name: "35 301", status: 301, headers: "location: https://other.example/v1/messages?key=abc", want: wantPath},
	{name: "35 308 relative", status: 308, headers: "location: /v2", body: "<html>moved</html>", want: wantPath},
	{name: "https expected", status: 400, body: "Client sent an HTTP request to an HTTPS server.\n", want: wantPath},

	{name: "33 azure network", status: 403, body: `{"error":{"code":"403","message":"Access denied due to Virtual Network/Firewall rules."}}`, want: wantKey},
	{name: "33 anthropic forbidden", status: 403, body: `{"error":{"type":"forbidden","message":"Request not allowed"}}`, want: wantKey},
	{name: "19 openai sampling", status: 403, body: `{"error":{"message":"You are not allowed to sample from this model","type":"invalid_request_error","code":null}}`, want: wantModel},
	{name: "19 openai verification", status: 400, body: `{"error":{"message":"Your organization must be verified to stream this model.","type":"invalid_request_error","param":"stream","code":"unsupported_value"}}`, want: wantModel},
	{name: "33 a bare forbidden", status: 403, body: `{"message":"Forbidden"}`, want: wantKey},
	{name: "37 403 of an item", status: 403, body: `{"error":{"message":"This image can't be used","type":"invalid_request_error"}}`, want: wantItem},
	{name: "18 named at 400", status: 400, body: `{"error":{"message":"The requested model 'm-large-1' does not exist.","type":"invalid_request_error","code":null}}`, want: wantModel},
	{name: "18 named at 404 in text", status: 404, body: `no model m-large-1 here`, want: wantModel},
	{name: "18 part of a name", status: 404, body: `{"error":{"message":"File xm-large-12 was not found"}}`, want: wantItem},

	// x-should-retry.
	{name: "36 500 no", status: 500, headers: "x-should-retry: false", body: `{"type":"error","error":{"type":"api_error","message":"m"}}`, want: want{class: ServerError, noRetry: true}},
	{name: "36 429 no", status: 429, headers: "x-should-retry: false\nretry-after: 3", want: want{class: RateLimited, noRetry: true}},
	{name: "36 529 no", status: 529, headers: "x-should-retry: false", want: want{class: Overloaded, noRetry: true}},
	{name: "36 409 no", status: 409, headers: "x-should-retry: false", want: want{class: ServerError, scope: ItemOnly, noShrink: true}},
	{name: "36 404 model no", status: 404, headers: "x-should-retry: false", body: `{"error":{"message":"m","code":"model_not_found"}}`, want: wantModel},
	{name: "61 400 yes", status: 400, headers: "x-should-retry: true", body: `{"type":"error","error":{"type":"invalid_request_error","message":"m"}}`, want: want{class: Rejected}},
	{name: "61 401 yes", status: 401, headers: "x-should-retry: true", want: want{class: AuthError}},
	{name: "61 404 model yes", status: 404, headers: "x-should-retry: true", body: `{"error":{"message":"m","code":"model_not_found"}}`, want: want{class: Rejected}},
	{name: "61 maybe is no word of it", status: 400, headers: "x-should-retry: maybe", want: wantItem},
	{name: "37 418", status: 418, body: "I'm a teapot", want: wantItem},

	// Throttled.
	{name: "38 openrouter in flight", status: 402, headers: "retry-after: 2", body: `{"error":{"code":402,"message":"m","metadata":{"error_type":"payment_required","limit_source":"openrouter_in_flight_budget"}}}`, want: wantThrottl},
	{name: "39 with retry-after", status: 429, headers: "retry-after: 2", body: `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 30,000 input tokens per minute"}}`, want: wantThrottl},
	{name: "40 ramp", status: 429, body: `{"type":"error","error":{"type":"rate_limit_error","message":"m","details":{"error_code":"ramp_limit_exceeded"}}}`, want: wantThrottl},
	{name: "41 slow_down", status: 429, body: `{"error":{"message":"m","type":"rate_limit_error","code":"slow_down"}}`, want: wantThrottl},
	{name: "42 try again in 1.574s", status: 429, body: `{"error":{"message":"Rate limit reached for gpt-x in organization org on tokens per min (TPM): Limit 200000, Used 162960, Requested 42288. Please try again in 1.574s. Visit our site","type":"tokens","code":"rate_limit_exceeded"}}`, want: want{class: RateLimited, hint: 1574 * time.Millisecond}},
	{name: "42 try again in 6m0s", status: 429, body: `{"error":{"message":"Please try again in 6m0s.","type":"requests","code":"rate_limit_exceeded"}}`, want: want{class: RateLimited, hint: 6 * time.Minute}},
	{name: "42 try again in 20ms", status: 429, body: `{"error":{"message":"Please try again in 20ms.","type":"requests","code":"rate_limit_exceeded"}}`, want: want{class: RateLimited, hint: 20 * time.Millisecond}},
	{name: "49 groq per day with a wait", status: 429, body: `{"error":{"message":"Rate limit reached for model x on tokens per day (TPD): Limit 500000, Used 499000, Requested 4000. Please try again in 9m38.016s.","type":"tokens","code":"rate_limit_exceeded"}}`, want: want{class: RateLimited, hint: 9*time.Minute + 38016*time.Millisecond}},
	{name: "43 gemini per minute", status: 429, body: `[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details. Quota exceeded for metric: x, limit: 15\nPlease retry in 38.2s.","status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"GenerateRequestsPerMinutePerProject"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"38.200s"}]}}]`, want: want{class: RateLimited, hint: 38200 * time.Millisecond}},
	{name: "43 gemini through a gateway", status: 429, body: `{"error":{"message":"{\n \"error\": {\"code\": 429, \"message\": \"You exceeded your current quota, please check your plan and billing details.\", \"status\": \"RESOURCE_EXHAUSTED\", \"details\": [{\"retryDelay\": \"7s\"}]}}","code":429}}`, want: want{class: RateLimited, hint: 7 * time.Second}},
	{name: "44 azure", status: 429, headers: "retry-after: 37", body: `{"error":{"code":"429","message":"Requests have exceeded token rate limit of your current pricing tier. Please retry after 37 seconds."}}`, want: want{class: RateLimited, hint: 37 * time.Second}},
	{name: "45 azure demand", status: 429, body: `{"error":{"code":"429","message":"The system is currently experiencing high demand and cannot process your request."}}`, want: want{class: RateLimited, patient: true}},
	{name: "45 mistral capacity", status: 429, body: `{"object":"error","message":"Service tier capacity exceeded for this model.","type":"service_tier_capacity_exceeded","param":null,"code":"3505"}`, want: want{class: RateLimited, patient: true}},
	{name: "45 mistral integer code", status: 429, body: `{"object":"error","message":"m","type":"x","code":3505}`, want: want{class: RateLimited, patient: true}},
	{name: "46 openai flex", status: 429, body: `{"error":{"message":"m","type":"x","code":"resource_unavailable"}}`, want: want{class: RateLimited, patient: true}},
	{name: "46 groq 498", status: 498, body: `{"error":{"message":"m","type":"x","code":"capacity_exceeded"}}`, want: want{class: Overloaded, patient: true}},
	{name: "47 litellm", status: 429, headers: "retry-after: 5", body: `{"error":{"message":"No deployments available for selected model, Try again in 5 seconds. Passed model=x","type":"None","code":"429"}}`, want: want{class: RateLimited, hint: 5 * time.Second}},
	{name: "48 bare", status: 429, want: wantThrottl},
	{name: "48 mistral 1300", status: 429, body: `{"object":"error","message":"Requests rate limit exceeded","type":"rate_limited","code":"1300"}`, want: wantThrottl},
	{name: "openrouter availability", status: 429, body: `{"error":{"code":429,"message":"m","availability":{"code":"capacity_exhausted","retryable":true,"retry_after":12}}}`, want: want{class: RateLimited, hint: 12 * time.Second}},
	{name: "problem+json", status: 429, headers: "content-type: application/problem+json", body: `{"type":"https://example.com/probs/rate","title":"Too Many Requests","status":429,"detail":"slow","instance":"urn:req:7","retryable":true}`, want: wantThrottl},

	// Overloaded and failing.
	{name: "50 529", status: 529, body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, want: wantBusy},
	{name: "50 at 500", status: 500, body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, want: wantBusy},
	{name: "52 openai", status: 503, body: `{"error":{"message":"m","type":"service_unavailable_error","code":"server_is_overloaded"}}`, want: wantBusy},
	{name: "52 ollama", status: 503, body: `{"error":"server busy, please try again.  maximum pending requests exceeded"}`, want: wantBusy},
	{name: "52 gemini", status: 503, body: `[{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}]`, want: wantBusy},
	{name: "52 openrouter", status: 503, body: `{"error":{"code":503,"message":"m","metadata":{"error_type":"provider_overloaded"}}}`, want: wantBusy},
	{name: "53 llama.cpp loading", status: 503, body: `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, want: want{class: Overloaded, patient: true, noShrink: true}},
	{name: "54 500", status: 500, body: `{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`, want: wantFailing},
	{name: "54 vllm", status: 500, body: `{"object":"error","message":"EngineCore encountered an issue","type":"InternalServerError","param":null,"code":500}`, want: wantFailing},
	{name: "C60 502 html", status: 502, body: "<html><head><title>api.example.com | 502: Bad gateway</title></head><body>" + strings.Repeat("<p>x</p>", 1000) + "</body></html>", want: wantFailing},
	{name: "C60 cloudflare JSON", status: 524, body: `{"cloudflare_error":true,"status":524,"title":"Error 524: A timeout occurred","detail":"m","error_code":524,"retryable":true,"retry_after":120}`, want: want{class: ServerError, hint: 2 * time.Minute}},
	{name: "55 520", status: 520, body: "<html></html>", want: wantFailing},
	{name: "55 502 with a wait", status: 530, headers: "retry-after: 120", body: "error code: 1033", want: wantFailing},
	{name: "57 525", status: 525, body: "<html><title>SSL handshake failed</title></html>", want: want{class: ServerError, noShrink: true}},
	{name: "60 421", status: 421, want: want{class: ServerError, noShrink: true}},
	{name: "599", status: 599, want: wantFailing},
	{name: "no status known", status: 999, want: wantFailing},
	{name: "56 524 html", status: 524, body: "<html><title>524: A timeout occurred</title></html>", want: wantFailing},
	{name: "56 504", status: 504, body: `{"type":"error","error":{"type":"timeout_error","message":"m"}}`, want: wantFailing},
	{name: "57 526", status: 526, want: want{class: ServerError, noShrink: true}},
	{name: "66 407", status: 407, body: "<html>Proxy Authentication Required</html>", want: want{class: AuthError, scope: WholeRun}},
	{name: "58 408", status: 408, want: want{class: Timeout}},
	{name: "58 425", status: 425, want: want{class: ServerError, noShrink: true}},
	{name: "58 499", status: 499, want: wantFailing},
	{name: "59 409", status: 409, body: `{"type":"error","error":{"type":"conflict_error","message":"m"}}`, want: want{class: ServerError, noShrink: true}},
	{name: "60 424", status: 424, want: want{class: ServerError, noShrink: true}},
	{name: "cmek", status: 503, body: `{"type":"error","error":{"type":"api_error","message":"m","details":{"error_code":"cmek_key_unreachable"}}}`, want: wantBusy},
	{name: "compaction", status: 529, body: `{"type":"error","error":{"type":"overloaded_error","message":"m","details":{"error_code":"compaction_unavailable"}}}`, want: wantBusy},
	{name: "litellm no healthy", status: 400, body: `{"error":{"message":"There are no healthy deployments for this model","type":"None","code":"400"}}`, want: wantFailing},

	// A 2xx.
	{name: "67 cut", status: 200, body: `{"id":"x","choices":[{"message":{"content":"credit balance is too low`, want: want{class: Truncated}},
	{name: "67 empty", status: 200, want: want{class: Truncated}},
	{name: "67 blank lines", status: 200, body: "\n\n\n\n", want: want{class: Truncated}},
	{name: "67 broken", status: 200, body: `{"id":]}`, want: want{class: InvalidResponse}},
	{name: "68 captive portal", status: 200, body: "<html><title>Sign in: insufficient_quota</title></html>", want: want{class: InvalidResponse}},
	{name: "C18 no choices", status: 200, body: `{"id":"x","choices":[],"usage":{}}`, want: want{class: InvalidResponse}},
	{name: "C17 502 inside", status: 200, body: `{"error":{"code":502,"message":"m"}}`, want: wantFailing},
	{name: "C17 504 inside", status: 200, body: `{"error":{"code":"504","message":"m"}}`, want: wantFailing},
	{name: "C17 429 inside", status: 200, body: "\n\n" + `{"error":{"code":429,"message":"m"}}`, want: wantThrottl},
	{name: "C17 daily, with a reset", status: 200, body: `{"error":{"code":429,"message":"Rate limit exceeded: free-models-per-day","metadata":{"headers":{"X-RateLimit-Limit":"50","X-RateLimit-Reset":"1791331260000"}}}}`, want: want{class: RateLimited, hint: time.Minute}},
	{name: "69 choice", status: 200, body: `{"choices":[{"finish_reason":"error","error":{"code":"server_error","message":"m"}}]}`, want: wantFailing},
	{name: "69 4xx inside", status: 200, body: `{"error":{"code":400,"message":"m"}}`, want: wantItem},
	{name: "69 a string", status: 200, body: `{"error":"boom"}`, want: wantFailing},
	{name: "69 a small code", status: 200, body: `{"error":{"code":302,"message":"m"}}`, want: wantFailing},
	{name: "69 error null", status: 200, body: `{"error":null,"choices":[]}`, want: want{class: InvalidResponse}},
	{name: "73 failed", status: 200, body: `{"object":"response","status":"failed","error":{"code":"rate_limit_exceeded","message":"m"}}`, want: wantThrottl},
	{name: "73 failed by policy", status: 200, body: `{"object":"response","status":"failed","error":{"code":"invalid_prompt","message":"m"}}`, want: wantItem},
	{name: "73 failed without a reason", status: 200, body: `{"object":"response","status":"failed","error":null}`, want: wantFailing},
	{name: "71 event stream", status: 200, body: "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"m\"}}\n\n", want: wantBusy},

	// The request's own words.
	{name: "an echo of the request", status: 400, request: `{"model":"m","messages":[{"role":"user","content":"Your Credit Balance Is Too Low, they said"}]}`,
		body: `{"error":{"message":"Invalid content: 'Your credit balance is too low, they said'","type":"invalid_request_error"}}`, want: wantItem},
	{name: "an echo, escaped", status: 400, request: `{"model":"m","messages":[{"role":"user","content":"\u0063redit balance is too low"}]}`,
		body: `{"error":{"message":"Invalid content: 'credit balance is too low'","type":"invalid_request_error"}}`, want: wantItem},
	{name: "an echo of JSON", status: 400, request: `{"model":"m","messages":[{"role":"user","content":"{\"error\":{\"code\":\"insufficient_quota\"}}"}]}`,
		body: `{"error":{"message":"Invalid content: {\"error\":{\"code\":\"insufficient_quota\"}}","type":"invalid_request_error"}}`, want: wantItem},
	{name: "the code itself stays", status: 429, request: `{"model":"m","messages":[{"role":"user","content":"insufficient_quota"}]}`,
		body: `{"error":{"message":"m","type":"insufficient_quota"}}`, want: wantSpent},
	{name: "the model's words", status: 200, body: `{"choices":[{"message":{"content":"Your credit balance is too low","error":{"code":"insufficient_quota"}}}]}`, want: want{class: InvalidResponse}},
}

func (r row) answer() Answer {
	a := Answer{Status: r.status, Header: http.Header{}, Body: []byte(r.body), At: time.UnixMilli(1791331200000)}
	for line := range strings.Lines(r.headers) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), ": ")
		a.Header.Add(k, v)
	}
	return a
}

func TestClassify(t *testing.T) {
	for _, r := range rows {
		request := r.request
		if request == "" {
			request = userRequest
		}
		e := Classify(r.answer(), []byte(request))
		got := want{class: e.Class, scope: e.Scope, noRetry: e.NoRetry, noShrink: e.NoShrink, patient: e.Patient, hint: e.Hint}
		if got != r.want {
			t.Errorf("%s: got %+v, want %+v (%s)", r.name, got, r.want, e.Message)
		}
		if e.Scope >= WholeLane && e.Advice == "" {
			t.Errorf("%s: no advice", r.name)
		}
		if e.Message == "" || len(e.Message) > longestMessage || strings.ContainsAny(e.Message, "\n\x1b") || strings.Contains(e.Message, "<html") {
			t.Errorf("%s: message %q", r.name, e.Message)
		}
		if e.Status == 0 || r.status >= 300 && e.Status != r.status {
			t.Errorf("%s: got status %d, want %d", r.name, e.Status, r.status)
		}
	}
}
