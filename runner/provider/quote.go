package provider

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// aboutOutput says that a message, in lower case, speaks of what a model wrote: what it
// quotes then are the model's words.
func aboutOutput(m string) bool {
	for _, sign := range [...]string{
		"tool call", "tool_call", "toolcall", "function call", "function_call", "tool use", "tool_use", "arguments",
		"raw=", "raw output", "raw response", "model output", "model's", "model response", "model returned", "model said", "model wrote",
		"generated", "failed_generation", "so far", "partial", "received:", "got:",
		"parse", "parsing", "unmarshal", "decode", "decoding", "deserializ", "serializ", "invalid json", "valid json", "end of json", "unterminated",
		"json_validate", "schema", "structured output",
	} {
		if strings.Contains(m, sign) {
			return true
		}
	}
	return false
}

// ownWords is a message, in lower case, without what it quotes: objects that are not
// an error's and, where it speaks of a model's output, all that stands in quotes or
// behind a name for it. quoting says that it speaks of such output and quotes it.
//
//	error parsing tool call: raw='{"reply":"insufficient balance"', err=end of json
//	→ error parsing tool call: raw= , err=end of json
func ownWords(m string) (own string, quoting bool) {
	about := aboutOutput(m)
	var b strings.Builder
	for i := 0; i < len(m); {
		r, n := utf8.DecodeRuneInString(m[i:])
		end := 0 // of what is quoted from i on
		switch {
		case r == '{':
			if piece := braced(m[i:]); about || !errorKeys(m[i:i+piece]) {
				end = i + piece
			} else { // an error in a message is the provider's own
				b.WriteString(m[i : i+piece])
				i += piece
				continue
			}
		case about && strings.ContainsRune("'\"`“‘«", r) && !afterWord(m[:i]):
			end = i + n + quotation(m[i+n:], r)
		case about && isLead(m[:i]):
			end = len(m)
		}
		if end == 0 {
			b.WriteString(m[i : i+n])
			i += n
			continue
		}
		quoting = quoting || about
		b.WriteByte(' ')
		i = end
	}
	return b.String(), quoting
}

// afterWord says that what follows is an apostrophe rather than a quote.
func afterWord(before string) bool {
	r, _ := utf8.DecodeLastRuneInString(before)
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

// isLead says that a message so far ends in a name for the output that follows bare.
func isLead(before string) bool {
	for _, lead := range [...]string{"so far: ", "output: ", "raw: ", "raw=", "arguments: ", "generated: ", "completion: ", "received: ", "got: ", "text: ", "content: "} {
		if strings.HasSuffix(before, lead) {
			return true
		}
	}
	return false
}

// quotation is the length of a quotation that open began, its closing mark included; all
// that follows where there is none.
func quotation(v string, open rune) int {
	end := map[rune]rune{'“': '”', '‘': '’', '«': '»'}[open]
	if end == 0 {
		end = open
	}
	for i, r := range v {
		if r != end {
			continue
		}
		after := v[i+utf8.RuneLen(r):]
		next, _ := utf8.DecodeRuneInString(after)
		if after == "" || !unicode.IsLetter(next) && !unicode.IsDigit(next) && !strings.HasPrefix(after, ":") {
			return i + utf8.RuneLen(r)
		}
	}
	return len(v)
}

// braced is the length of the object that v begins with, all of v where it has no end.
func braced(v string) int {
	depth := 0
	for i := range len(v) {
		switch v[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(v)
}

var (
	errorKey   = late(`["']errors?["'] ?:`)
	messageKey = late(`["'](?:message|msg|detail)["'] ?:`)
	codeKey    = late(`["'](?:code|type|status|error_code|error_type)["'] ?:`)
)

// errorKeys says that an object in a message, whole or cut, is an error's by its names.
func errorKeys(v string) bool {
	v = strings.ReplaceAll(v, `\`, "")
	has := func(find func() *regexp.Regexp) bool { return find().MatchString(v) }
	return has(errorKey) || has(messageKey) && has(codeKey)
}

// errorShaped says that JSON in a message is an error's by its names. What a model wrote
// has others.
func errorShaped(v any) bool {
	object, ok := v.(map[string]any)
	if !ok {
		return false
	}
	m := squashed(object)
	if m["error"] != nil || m["errors"] != nil || m["baseresp"] != nil || m["type"] == "error" {
		return true
	}
	if !hasMessage(m) {
		return false
	}
	if m["code"] != nil || m["type"] != nil || m["status"] != nil || m["errorcode"] != nil || m["errortype"] != nil {
		return true
	}
	return len(m) == 1
}
