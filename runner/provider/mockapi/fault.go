package mockapi

import "strings"

// fault is an error as each of the two vendors words it.
type fault struct {
	status            int
	anthropic, openai errorBody
}

// errorBody is the inside of an error; an empty code is none.
type errorBody struct{ typ, code, message string }

// The errors of the scenarios. Types and codes are the vendors' own; the messages are this server's unless a client must
// recognize them.
var (
	faultRate = fault{429,
		errorBody{typ: "rate_limit_error", message: "This request would exceed the rate limit of your organization."},
		errorBody{typ: "requests", code: "rate_limit_exceeded", message: "Rate limit reached for requests."}}
	faultTokens = fault{429,
		errorBody{typ: "rate_limit_error", message: "This request would exceed the token rate limit of your organization."},
		errorBody{typ: "tokens", code: "rate_limit_exceeded", message: "Rate limit reached for tokens per min (TPM)."}}
	faultTooLarge = fault{429,
		errorBody{typ: "rate_limit_error", message: "This request alone exceeds the token rate limit of your organization."},
		errorBody{typ: "tokens", code: "rate_limit_exceeded", message: "Request too large for the tokens per min (TPM) limit."}}
	faultCap = fault{429,
		errorBody{typ: "rate_limit_error", message: "You have reached your API usage limits"},
		errorBody{typ: "rate_limit_error", message: "You have reached your API usage limits"}}
	faultSpend = fault{429,
		errorBody{"rate_limit_error", "enforced_spend_limit_reached", "You have reached your API usage limits: your organization has crossed its monthly API usage threshold."},
		errorBody{"insufficient_quota", "insufficient_quota", "You exceeded your current quota, please check your plan and billing details."}}
	fault400 = fault{400,
		errorBody{typ: "invalid_request_error", message: "The mock refuses this request: it is invalid."},
		errorBody{typ: "invalid_request_error", message: "The mock refuses this request: it is invalid."}}
	fault401 = fault{401,
		errorBody{typ: "authentication_error", message: "invalid x-api-key"},
		errorBody{"invalid_request_error", "invalid_api_key", "Incorrect API key provided."}}
	fault413 = fault{413,
		errorBody{typ: "request_too_large", message: "Request exceeds the maximum size"},
		errorBody{typ: "invalid_request_error", code: "request_too_large", message: "Request exceeds the maximum size"}}
	fault500 = fault{500,
		errorBody{typ: "api_error", message: "Internal server error"},
		errorBody{typ: "server_error", message: "The server had an error while processing your request."}}
	fault503 = fault{503,
		errorBody{typ: "api_error", message: "Service unavailable"},
		errorBody{"service_unavailable_error", "server_is_overloaded", "The server is currently overloaded."}}
	fault529 = fault{529,
		errorBody{typ: "overloaded_error", message: "Overloaded"},
		errorBody{"overloaded_error", "server_is_overloaded", "The server is currently overloaded."}}
)

// invalid is a refusal of a malformed request.
func invalid(status int, message string) fault {
	b := errorBody{typ: "invalid_request_error", message: message}
	return fault{status, b, b}
}

// notFound is the answer to a path that is no API's. Where only /v1 is missing it says so.
func (c *call) notFound() fault {
	where, hint := c.r.Method+" "+prefix(c.r.URL.Path, 200), ""
	_, path := c.server.route(c.r)
	if a := apiOf("/v1"+path, nil); a > unknownAnthropic || isBatch("/v1"+path) {
		hint = "; add /v1: --base-url http://" + c.r.Host + prefix(strings.TrimSuffix(c.r.URL.Path, path), 200) + "/v1"
		if a.anthropic() {
			hint = "; the path is /v1" + path
		}
	}
	return fault{404, errorBody{typ: "not_found_error", message: "Not found: " + where + hint},
		errorBody{typ: "invalid_request_error", code: "unknown_url", message: "Invalid URL (" + where + ")" + hint}}
}

// body returns the error as the API would send it.
func (f fault) body(a api) []byte {
	if a.anthropic() {
		e := ordered{"type", f.anthropic.typ, "message", f.anthropic.message}
		if f.anthropic.code != "" {
			e = append(e, "details", ordered{"error_code", f.anthropic.code})
		}
		return marshal(ordered{"type", "error", "error", e, "request_id", "req_mock"})
	}
	var code any
	if f.openai.code != "" {
		code = f.openai.code
	}
	return marshal(ordered{"error", ordered{"message", f.openai.message, "type", f.openai.typ, "param", nil, "code", code}})
}
