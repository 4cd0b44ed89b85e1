package provider

// errorIn finds the error in a 2xx answer: in the places of the known APIs first, then
// in the envelopes that vendors put around their answers; nil if there is none. What is
// returned has nothing in it that a model wrote.
func errorIn(top map[string]any) map[string]any {
	found := []any{top["error"]}
	if r, ok := top["response"].(map[string]any); ok {
		found = append(found, r["error"])
	}
	choices, _ := top["choices"].([]any)
	for _, c := range choices[:min(len(choices), mostMembers)] {
		if c, ok := c.(map[string]any); ok {
			found = append(found, c["error"])
		}
	}
	for i, f := range found {
		if !isError(f) {
			continue
		}
		e := map[string]any{"error": f}
		if _, ok := f.(string); ok && i == 0 {
			e["code"] = top["code"]
		}
		return e
	}
	m := squashed(top)
	if base, ok := m["baseresp"].(map[string]any); ok && isCode(base["status_code"]) {
		return base
	}
	answered := hasContent(m)
	said := isCode(m["errorcode"]) || isCode(m["errcode"]) || isCode(m["errno"]) || m["success"] == false || m["success"] == "false" ||
		!answered && isError(m["errors"])
	if !said && !answered {
		said = isCode(m["code"]) || m["success"] == nil && (text(m["detail"]) != "" || text(m["errormsg"]) != "" || text(m["errmsg"]) != "")
	}
	if !said {
		return nil
	}
	e := map[string]any{}
	for _, names := range [...][]string{codeNames, messageNames, containerNames} {
		for _, name := range names {
			e[name] = m[name]
		}
	}
	return e
}

// isError: some servers send "error": null with every answer.
func isError(v any) bool {
	switch v := v.(type) {
	case string:
		return v != "" && v != "null"
	case map[string]any:
		return len(v) > 0
	case []any:
		return len(v) > 0
	}
	return false
}

// isCode says that a code is one of an error: 0 and 200 say that all is well.
func isCode(v any) bool {
	switch c := text(v); c {
	case "", "0", "200", "ok", "OK", "success", "Success", "null":
		return false
	}
	return true
}

func hasMessage(m map[string]any) bool {
	for _, name := range messageNames {
		if text, ok := m[name].(string); ok && text != "" {
			return true
		}
	}
	return false
}

// hasContent says that an answer has something beside its envelope.
func hasContent(m map[string]any) bool {
	for _, name := range [...]string{"choices", "content", "output", "candidates", "data", "embeddings", "result", "results", "text", "response"} {
		switch v := m[name].(type) {
		case string:
			if v != "" {
				return true
			}
		case []any:
			if len(v) > 0 {
				return true
			}
		case map[string]any:
			if len(v) > 0 {
				return true
			}
		}
	}
	_, turn := m["message"].(map[string]any) // Ollama's answer
	return turn
}

// vendorOf names the vendor whose numbers an object's codes are, "" if it is not known.
func vendorOf(m map[string]any) string {
	switch {
	case m["statusmsg"] != nil && m["statuscode"] != nil:
		return "minimax_"
	case m["errormsg"] != nil && m["errorcode"] != nil:
		return "baidu_"
	}
	return ""
}
