package provider

import (
	"encoding/json"
	"strings"
	"testing"
)

// money-other-words, throttle-in-billing-words, vendor-envelope-200: what vendors say in
// words and places of their own.
var vendorRows = []row{
	{name: "DashScope Arrearage", status: 400, body: `{"error":{"code":"Arrearage","message":"Access denied, please make sure your account is in good standing.","type":"Arrearage"}}`, want: wantSpent},
	{name: "DashScope Arrearage, flat", status: 400, body: `{"request_id":"r","code":"Arrearage","message":"m"}`, want: wantSpent},
	{name: "SiliconFlow 30001", status: 403, body: `{"code":30001,"message":"Sorry, your account balance is insufficient","data":null}`, want: wantSpent},
	{name: "SiliconFlow 30001, reworded", status: 403, body: `{"code":30001,"message":"m","data":null}`, want: wantSpent},
	{name: "sub2api", status: 403, body: `{"code":"INSUFFICIENT_BALANCE","message":"Insufficient account balance"}`, want: wantSpent},
	{name: "in camel case", status: 400, body: `{"error":{"code":"InsufficientBalance","message":"m"}}`, want: wantSpent},
	{name: "Zhipu 1113", status: 429, body: `{"error":{"code":"1113","message":"余额不足或无可用资源包,请充值。"}}`, want: wantSpent},
	{name: "Zhipu's words alone", status: 400, body: `{"error":{"message":"您的账户已欠费"}}`, want: wantSpent},
	{name: "Moonshot", status: 429, body: `{"error":{"message":"Your account is suspended, please check your plan and billing details","type":"exceeded_current_quota_error"}}`, want: wantSpent},
	{name: "Volcengine", status: 403, body: `{"error":{"code":"AccountOverdueError","message":"The request failed because your account has an overdue balance."}}`, want: wantSpent},
	{name: "one-api", status: 403, body: `{"error":{"message":"user quota is not enough","type":"new_api_error","code":"insufficient_user_quota"}}`, want: wantSpent},
	{name: "no code at all", status: 429, body: `{"error":{"message":"Credit balance exhausted"}}`, want: wantSpent},
	{name: "Japanese", status: 402, body: `{"message":"残高が不足しています"}`, want: wantSpent},
	{name: "Korean", status: 400, body: `{"message":"크레딧이 부족합니다"}`, want: wantSpent},
	{name: "French", status: 403, body: `{"detail":"Crédits insuffisants"}`, want: wantSpent},
	{name: "German", status: 400, body: `{"errors":["Ihr Guthaben ist aufgebraucht"]}`, want: wantSpent},
	{name: "Russian in plain text", status: 403, body: `Недостаточно средств на счёте`, want: wantSpent},
	{name: "Cohere a month", status: 429, body: `{"message":"You are using a Trial key, which is limited to 1000 API calls / month."}`, want: wantSpent},
	{name: "Cohere a minute", status: 429, body: `{"message":"You are using a Trial key, which is limited to 20 API calls / minute."}`, want: wantThrottl},

	{name: "DashScope's throttle with a link", status: 429, body: `{"error":{"message":"You exceeded your current quota, please check your plan and billing details. For details, see: https://help.aliyun.com/zh/model-studio/error-code#token-limit","type":"insufficient_quota","param":"insufficient_quota","code":"insufficient_quota"}}`, want: wantThrottl},
	{name: "DashScope's throttle by type", status: 429, body: `{"error":{"message":"Allocated quota exceeded, please increase your quota limit.","type":"Throttling.AllocationQuota","code":"insufficient_quota"}}`, want: wantThrottl},
	{name: "DashScope's throttle by type alone", status: 429, body: `{"error":{"message":"m","type":"Throttling.RateQuota","code":"insufficient_quota"}}`, want: wantThrottl},
	{name: "a rate in billing words", status: 429, body: `{"error":{"message":"Quota exceeded: 60 requests per minute","code":"insufficient_quota"}}`, want: wantThrottl},
	{name: "a rate and a balance", status: 429, body: `{"error":{"message":"rate limit is 0 as the balance is used up","code":"insufficient_quota"}}`, want: wantSpent},
	{name: "OpenAI's own", status: 429, body: `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}`, want: wantSpent},

	{name: "MiniMax 1008", status: 200, body: `{"id":"x","choices":null,"base_resp":{"status_code":1008,"status_msg":"no"}}`, want: wantSpent},
	{name: "MiniMax 1002", status: 200, body: `{"id":"x","choices":null,"base_resp":{"status_code":1002,"status_msg":"rate limit exceeded(RPM)"}}`, want: wantThrottl},
	{name: "MiniMax 1004", status: 200, body: `{"base_resp":{"status_code":"1004","status_msg":"login fail"}}`, want: wantKey},
	{name: "MiniMax 1026", status: 200, body: `{"choices":[],"base_resp":{"status_code":1026,"status_msg":"input new_sensitive"}}`, want: wantItem},
	{name: "MiniMax 1013", status: 200, body: `{"choices":[],"base_resp":{"status_code":1013,"status_msg":"internal"}}`, want: wantFailing},
	{name: "MiniMax well", status: 200, body: `{"id":"x","base_resp":{"status_code":0,"status_msg":"success"}}`, want: want{class: InvalidResponse}},
	{name: "Baidu a day", status: 200, body: `{"error_code":17,"error_msg":"Open api daily request limit reached"}`, want: wantDaily},
	{name: "Baidu a second", status: 200, body: `{"error_code":18,"error_msg":"Open api qps request limit reached"}`, want: wantThrottl},
	{name: "Baidu's key", status: 200, body: `{"error_code":"110","error_msg":"Access token invalid"}`, want: wantKey},
	{name: "success false", status: 200, body: `{"success":false,"errors":[{"code":10000,"message":"Authentication error"}],"result":null}`, want: wantFailing},
	{name: "success false with a status", status: 200, body: `{"success":"false","code":"429","msg":"slow down"}`, want: wantThrottl},
	{name: "success false and money", status: 200, body: `{"success":false,"message":"Insufficient balance"}`, want: wantSpent},
	{name: "a number and words", status: 200, body: `{"code":401,"msg":"bad token","data":null}`, want: wantKey},
	{name: "nested", status: 200, body: `{"header":{"code":503,"message":"down"},"code":503}`, want: wantBusy},
	{name: "camel case", status: 200, body: `{"errorCode":"RateLimitExceeded","errorMessage":"slow"}`, want: wantThrottl},
	{name: "a string", status: 200, body: `{"error":"insufficient credits"}`, want: wantSpent},
	{name: "a string and a code", status: 200, body: `{"error":"no","code":"rate_limit_exceeded"}`, want: wantThrottl},
	{name: "an array of strings", status: 429, body: `["Insufficient balance"]`, want: wantSpent},
	{name: "errors as an array", status: 400, body: `{"errors":[{"message":"prompt is too long"}]}`, want: wantItem},

	{name: "AWS throttling", status: 429, headers: "X-Amzn-Errortype: ThrottlingException:http://internal.amazon.com/x", body: `{"message":"Too many tokens, please wait before trying again."}`, want: wantThrottl},
	{name: "AWS throttling at 400", status: 400, headers: "X-Amzn-Errortype: ThrottlingException", body: `{"message":"m"}`, want: wantThrottl},
	{name: "AWS a day", status: 429, headers: "X-Amzn-Errortype: ThrottlingException", body: `{"message":"Too many tokens per day, please wait before trying again."}`, want: wantDaily},
	{name: "AWS quota", status: 400, headers: "X-Amzn-Errortype: ServiceQuotaExceededException", body: `{"message":"m"}`, want: want{class: RateLimited, patient: true}},
	{name: "AWS not ready", status: 429, headers: "X-Amzn-Errortype: ModelNotReadyException", body: `{"message":"m"}`, want: want{class: Overloaded, patient: true, noShrink: true}},
	{name: "AWS model error", status: 424, headers: "X-Amzn-Errortype: ModelErrorException", body: `{"message":"m"}`, want: wantFailing},
	{name: "AWS unavailable", status: 503, headers: "X-Amzn-Errortype: ServiceUnavailableException", body: `{"message":"m"}`, want: wantBusy},
	{name: "AWS access", status: 403, headers: "X-Amzn-Errortype: AccessDeniedException", body: `{"message":"You don't have access to the model with the specified model ID."}`, want: want{class: AuthError, scope: WholeLane}},
	{name: "AWS key", status: 403, headers: "X-Amzn-Errortype: UnrecognizedClientException", body: `{"message":"The security token included in the request is invalid."}`, want: wantKey},
	{name: "AWS key in the body", status: 400, body: `{"__type":"com.amazon.coral.service#ExpiredTokenException","message":"m"}`, want: wantKey},
	{name: "AWS model", status: 404, headers: "X-Amzn-Errortype: ResourceNotFoundException", body: `{"message":"m"}`, want: wantModel},
	{name: "AWS inference profile", status: 400, headers: "X-Amzn-Errortype: ValidationException", body: `{"message":"Invocation of model ID x with on-demand throughput isn’t supported. Retry your request with the ID or ARN of an inference profile"}`, want: wantModel},
	{name: "AWS too long", status: 400, headers: "X-Amzn-Errortype: ValidationException", body: `{"message":"Input is too long for requested model."}`, want: wantItem},
	{name: "AWS other", status: 400, headers: "X-Amzn-Errortype: ValidationException", body: `{"message":"messages.0: x is required"}`, want: wantItem},
	{name: "Vertex token", status: 401, body: `{"error":{"code":401,"message":"m","status":"UNAUTHENTICATED","details":[{"reason":"ACCESS_TOKEN_EXPIRED"}]}}`, want: wantKey},
	{name: "Vertex model", status: 404, body: `{"error":{"code":404,"message":"Publisher Model projects/p/x was not found or your project does not have access to it","status":"NOT_FOUND"}}`, want: wantModel},
	{name: "Azure's management", status: 429, body: `{"statusCode":429,"message":"Rate limit is exceeded. Try again in 37 seconds."}`, want: want{class: RateLimited, hint: 37e9}},
	{name: "Azure's management in a 200", status: 200, body: `{"statusCode":429,"message":"Rate limit is exceeded.","code":429}`, want: wantThrottl},
	{name: "Azure's operation", status: 400, body: `{"error":{"code":"OperationNotSupported","message":"The chatCompletion operation does not work with the specified model"}}`, want: wantModel},

	// Responses failures that are the item's.
	{name: "an image", status: 200, body: `{"status":"failed","error":{"code":"invalid_image_format","message":"m"},"output":[]}`, want: wantItem},
	{name: "an image that can't be had", status: 200, body: `{"status":"failed","error":{"code":"failed_to_download_image","message":"m"}}`, want: wantItem},
	{name: "an image at 500", status: 500, body: `{"error":{"code":"image_parse_error","message":"m"}}`, want: wantItem},
	{name: "the server", status: 200, body: `{"status":"failed","error":{"code":"server_error","message":"m"}}`, want: wantFailing},
	{name: "the rate", status: 200, body: `{"status":"failed","error":{"code":"rate_limit_exceeded","message":"m"}}`, want: wantThrottl},
}

func TestVendorsOwn(t *testing.T) {
	for _, r := range vendorRows {
		e := Classify(r.answer(), []byte(userRequest))
		got := want{class: e.Class, scope: e.Scope, noRetry: e.NoRetry, noShrink: e.NoShrink, patient: e.Patient, hint: e.Hint}
		if got != r.want {
			t.Errorf("%s: got %+v, want %+v (status %d, type %s, code %s: %s)", r.name, got, r.want, e.Status, e.Type, e.Code, e.Message)
		}
	}
}

// model-output-in-error: a model's words, quoted in an error, are nobody's code, and the
// failure is not the server's.
func TestModelOutputInError(t *testing.T) {
	wrap := func(message string) string {
		q, _ := json.Marshal(message)
		return `{"error":{"message":` + string(q) + `,"type":"api_error","code":null}}`
	}
	for name, message := range map[string]string{
		"cut JSON":             `error parsing tool call: raw='{"category":"insufficient balance","reply":"please check your billing details', err=unexpected end of JSON input`,
		"whole JSON":           `failed to parse model output {"code":"insufficient_quota","message":"check your billing details"}`,
		"an error's shape":     `tool call arguments are invalid: {"error":{"type":"billing_error","message":"spend limit"}}`,
		"JSON is the message":  `{"category":"insufficient balance","reply":"please check your billing details"}`,
		"quoted":               `could not decode the model's answer "Your credit balance is too low"`,
		"typographic quotes":   `invalid JSON: “insufficient credits”`,
		"unclosed":             `unterminated string in tool call: 'insufficient credits`,
		"bare":                 `stream aborted. Output so far: insufficient credits, please recharge`,
		"a Python dict":        `Error parsing arguments: {'category': 'insufficient_quota', 'type': 'billing_error'}`,
		"apostrophes stand in": `the model's tool call can't be parsed: 'insufficient credits'`,
	} {
		e := Classify(Answer{Status: 500, Body: []byte(wrap(message))}, []byte(userRequest))
		if e.Class != ServerError || e.Scope != Passing || !strings.Contains(e.Message, message[:10]) {
			t.Errorf("%s: got %s, scope %d, %q, want a server_error with the whole message", name, e.Class, e.Scope, e.Message)
		}
		if !e.Content && name != "JSON is the message" {
			t.Errorf("%s: got an error of the server, want one of the item's content", name)
		}
	}
	for name, message := range map[string]string{
		"a gateway's JSON": `upstream said: {"error":{"type":"insufficient_quota","message":"m"}}`,
		"a gateway's dict": `Error code: 429 - {'error': {'message': 'x', 'code': 'insufficient_quota'}}`,
		"cut":              `upstream said {"error":{"type":"insufficient_quota","mess`,
		"an apostrophe":    `You don't have enough: insufficient credits on the team's account`,
	} {
		if e := Classify(Answer{Status: 500, Body: []byte(wrap(message))}, []byte(userRequest)); e.Class != SpendCap || e.Content {
			t.Errorf("%s: got %s (content: %v), want spend_cap", name, e.Class, e.Content)
		}
	}
}

// The request's own words count for nothing, in whatever way they are written there.
func TestEchoInAnotherTongue(t *testing.T) {
	body := []byte(`{"error":{"message":"unsafe: 余额不足"}}`)
	for _, request := range []string{`{"m":"余额不足"}`, `{"m":"\u4f59\u989d\u4E0D\u8db3"}`} {
		if e := Classify(Answer{Status: 400, Body: body}, []byte(request)); e.Class != Rejected || e.Scope != ItemOnly {
			t.Errorf("%s: got %s, scope %d, want the item rejected", request, e.Class, e.Scope)
		}
	}
}

func TestConcurrent(t *testing.T) {
	for body, want := range map[string]bool{
		`{"error":{"message":"Max parallel request limit reached. Hit limit for key: x. max_parallel_requests: 4","code":"429"}}`: true,
		`{"error":{"message":"Too many concurrent requests","type":"rate_limit_error"}}`:                                          true,
		`{"error":{"code":"1302","message":"您当前使用该API的并发数过高"}}`:                                                                   true,
		`{"base_resp":{"status_code":1041,"status_msg":"conn limit"}}`:                                                            true,
		`{"error":{"message":"Rate limit reached for tokens per minute","code":"rate_limit_exceeded"}}`:                           false,
		`{"error":{"message":"Concurrent budget: insufficient credits"}}`:                                                         false,
	} {
		if e := Classify(Answer{Status: 429, Body: []byte(body)}, nil); e.Concurrent != want {
			t.Errorf("%s: got concurrent %v (%s), want %v", body, e.Concurrent, e.Class, want)
		}
	}
}
