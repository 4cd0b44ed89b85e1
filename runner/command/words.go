package command

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"llmbatch/output/plain"
)

// pauseWords says in plain words why nothing is sent; "" where requests only keep to
// a known limit, which is no pause.
func pauseWords(reason string) string {
	switch {
	case strings.Contains(reason, "quota") || strings.Contains(reason, "pace"):
		return ""
	case strings.HasPrefix(reason, "rate limited") && strings.Contains(reason, "asked"):
		return "429: the server asked to wait"
	case strings.HasPrefix(reason, "rate limited"), strings.HasPrefix(reason, "an earlier run"):
		return "429: too many requests"
	case strings.HasPrefix(reason, "overloaded"):
		return "overloaded: the server has too much to do"
	case strings.HasPrefix(reason, "outage"):
		return "outage: the server does not answer"
	case reason == "":
		return "waiting"
	}
	return reason
}

// pacing is what requests keep to where a limit is known.
func (o *options) pacing() string {
	switch {
	case o.rpm > 0:
		return fmt.Sprintf("pacing to %g/min", o.rpm)
	case o.tpm > 0:
		return fmt.Sprintf("pacing to %g tokens/min", o.tpm)
	}
	return "pacing to the server's limit"
}

// outcomeWords are an attempt's outcome in plain words.
func outcomeWords(outcome string) string {
	words := map[string]string{
		"rate_limited": "refused, too many requests", "overloaded": "refused, the server is overloaded", "server_error": "an error of the server",
		"timeout": "no answer in time", "connection_error": "no connection", "truncated": "the answer was cut off", "invalid_response": "no usable answer",
		"rejected": "refused", "spend_cap": "refused, a spending limit is reached", "auth": "refused, the key is not accepted", "canceled": "cancelled",
		"unexpected": "not an answer as --expect wants it",
	}[outcome]
	return orElse(words, outcome)
}

// sentences is the log of -v: of what the runner logs for developers, failures and
// changes of the limit in a sentence each. What it logs for everybody passes.
type sentences struct {
	slog.Handler
	say func(text string)
}

func (s sentences) Enabled(context.Context, slog.Level) bool { return true }

func (s sentences) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo {
		return s.Handler.Handle(ctx, r)
	}
	said := map[string]string{}
	r.Attrs(func(a slog.Attr) bool {
		said[a.Key] = a.Value.String()
		return true
	})
	switch {
	case r.Message == "attempt" && said["outcome"] != "ok":
		s.say(attemptSentence(said))
	case r.Message == "limit" && said["from"] != said["to"]:
		s.say(limitSentence(said))
	}
	return nil
}

func attemptSentence(said map[string]string) string {
	text := fmt.Sprintf("%s, try %s: %s", said["id"], said["attempt"], outcomeWords(said["outcome"]))
	if status := said["status"]; status != "0" && status != "" {
		text += " (" + status + ")"
	}
	if wait := said["retry_after"]; wait != "" {
		text += ", the server asks to wait " + wait
	}
	if why := said["error"]; why != "" {
		text += ": " + plain.Clip(plain.Line(why), 200)
	}
	return text
}

func limitSentence(said map[string]string) string {
	of := ""
	if model, ok := strings.CutPrefix(said["detail"], "model="); ok {
		model, _, _ = strings.Cut(model, " ")
		of = " for " + model
	}
	if len(said["to"]) > len(said["from"]) || len(said["to"]) == len(said["from"]) && said["to"] > said["from"] {
		return fmt.Sprintf("all went well: now up to %s requests at once%s, before %s", said["to"], of, said["from"])
	}
	return fmt.Sprintf("the server refused some: now up to %s requests at once%s, before %s", said["to"], of, said["from"])
}
