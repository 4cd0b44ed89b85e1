package output

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "rewrite golden files")

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		panic(err)
	}
	return t
}

const someHash = "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// fullRow has every member.
func fullRow() *Result {
	return &Result{
		ID: json.RawMessage(`"q1"`), Key: "q1", Status: OK, RequestHash: someHash, Index: 7,
		Provider: "anthropic", Model: "m", Text: "a <b> & \"c\"\n", PartialText: "a <", StopReason: "end_turn",
		Usage: Usage{InputTokens: 5, OutputTokens: 4, CacheReadTokens: 3, CacheWriteTokens: 2, ReasoningTokens: 1},
		Cost:  0.000015, HasCost: true,
		Metadata: json.RawMessage(`{"k":[1,2.50]}`), Response: json.RawMessage(`{"id":"msg_1"}`),
		Input: json.RawMessage(`{"review":"good","n":7}`), ReusedFrom: "old.jsonl", CopiedFrom: "q0",
		Error:          &Error{Class: "rejected", Status: 400, Type: "t", Code: "c", Message: "no"},
		GiveUpReason:   "item_budget",
		NextAttemptAt:  at("2026-11-30T03:00:00.0000001Z"),
		IdempotencyKey: "salt-abc",
		FirstAttemptAt: at("2026-11-30T01:00:00+02:00"),
		FinishedAt:     at("2026-11-30T02:00:00.1239Z"),
		History:        json.RawMessage(`{"attempt":1,"duration_ms":3,"outcome":"timeout","x":1}`),
		Attempts: []Attempt{{
			Attempt: 2, StartedAt: at("2026-11-30T02:00:00Z"), Duration: 412 * time.Millisecond, Status: 429,
			Outcome: "rate_limited", Error: "e", RequestID: "req_1", RetryAfter: "120", Wait: 2 * time.Second,
			WaitReason: "retry_after", Concurrency: 8, Usage: Usage{InputTokens: 1}, Unsent: true, Worker: "w1", BatchID: "batch_1",
		}},
	}
}

func TestAppendRowGolden(t *testing.T) {
	rows := []*Result{
		fullRow(),
		{ID: json.RawMessage(`9007199254740993`), Key: "9007199254740993", Status: Waiting},
		{ID: json.RawMessage(`"\u00e9"`), Key: "é", Status: Failed, Error: &Error{Class: "rejected"}},
		{Key: "no id", Status: Aborted},
		{ID: json.RawMessage(`1`), Status: OK, HasCost: true},
		{ID: json.RawMessage(`1`), Status: OK, Text: "bad \xff\xfe utf8 \x00\x1b[31m\u2028"},
		{ID: json.RawMessage(`1`), Status: OK, Response: json.RawMessage("{\n \"a\" : 1\n}")},
		{ID: json.RawMessage(`1`), Status: OK, Response: json.RawMessage("{\"a\":\"\xff\"}")},
		{ID: json.RawMessage(`1`), Status: OK, Response: json.RawMessage("<html>\n")},
		{ID: json.RawMessage(`1`), Status: OK, Response: json.RawMessage("{}\n{}")},
	}
	var got []byte
	for _, r := range rows {
		got = AppendRow(got, r)
	}
	if n := bytes.Count(got, []byte("\n")); n != len(rows) {
		t.Errorf("got %d lines, want %d", n, len(rows))
	}
	const golden = "testdata/rows.jsonl"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Every reader takes the row: half a surrogate pair, bytes that are not UTF-8 and what
// ends a line for some are not in it, and nothing nests too deep for jq or Python.
func TestRowsForEveryReader(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	tests := []struct{ response, want string }{
		{`{"t":"a\ud83d b\ude00"}`, `{"t":"a\ufffd b\ufffd"}`},
		{`{"t":"\ud83d\ude00"}`, `{"t":"\ud83d\ude00"}`},
		{"{\"t\":\"\xed\xa0\xbd\"}", "{\"t\":\"\ufffd\ufffd\ufffd\"}"},
		{"{\"t\" : \"a\u2028\u2029\u0085\"}", `{"t":"a\u2028\u2029\u0085"}`},
		{deep(250), deep(250)},
		{`["` + deep(300) + `\"[",` + deep(249) + `]`, `["` + deep(300) + `\"[",` + deep(249) + `]`},
		{deep(251), `"` + deep(251) + `"`},
		{deep(9_999), `"` + deep(9_999) + `"`},
	}
	for _, tt := range tests {
		line := AppendRow(nil, &Result{Key: "a", Status: OK, Response: json.RawMessage(tt.response)})
		if !bytes.Contains(line, []byte(`,"response":`+tt.want+"}")) {
			t.Errorf("got %.200q, want %.200q", line, tt.want)
		}
		if r, err := ParseRow(line); err != nil || string(r.Response) != tt.want {
			t.Errorf("%.100q: read as %v, %v", tt.response, r, err)
		}
	}
	line := AppendRow(nil, &Result{Key: "a", Status: OK, Text: "a\u2028b\u0085c\u2014\xff"})
	if want := `"text":"a\u2028b\u0085c` + "\u2014\ufffd\""; !strings.Contains(string(line), want) {
		t.Errorf("got %s, want %s", line, want)
	}
}

// Times are written as AppendFormat does.
func TestTimes(t *testing.T) {
	for _, when := range []time.Time{
		at("2026-01-02T03:04:05.006Z"), at("2026-12-31T23:59:59.9999999Z"), at("0001-01-01T00:00:01Z"),
		at("2026-07-01T00:30:00+02:00"), time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		if got, want := string(appendTime(nil, "", when)), `"`+when.UTC().Format(timeLayout)+`"`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestParseRowReadsWhatAppendRowWrites(t *testing.T) {
	want := fullRow()
	got, err := ParseRow(AppendRow(nil, want))
	if err != nil {
		t.Fatal(err)
	}
	want.NextAttemptAt = at("2026-11-30T03:00:00.001Z") // never earlier than asked
	want.FirstAttemptAt = want.FirstAttemptAt.UTC()
	want.FinishedAt = at("2026-11-30T02:00:00.123Z")
	want.History = nil
	want.Attempts = append([]Attempt{{Attempt: 1, Duration: 3 * time.Millisecond, Outcome: "timeout"}}, want.Attempts...)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestParseRowIsTolerant(t *testing.T) {
	tests := []struct {
		line string
		key  string
		err  string
	}{
		{line: `{"id":"a","status":"ok"}`, key: "a"},
		{line: ` { "status" : "ok" , "id" : 12.50 } ` + "\r\n", key: "12.50"},
		{line: `{"\u0069d":"\u00e9","status":"\u006fk"}`, key: "é"},
		{line: `{"id":"a","status":"ok","index":"x","usage":[],"error":3,"attempts":{},"text":null,"cost":"1"}`, key: "a"},
		{line: `{"id":"a","status":"ok","attempts":[1,null,{"wait_ms":1e300}]}`, key: "a"},
		{line: `{"id":"x","id":"a","status":"failed","status":"ok"}`, key: "a"},
		{line: `{"id":"a"}`, err: "status"},
		{line: `{"status":"ok"}`, err: "no id"},
		{line: `{"id":null,"status":"ok"}`, err: "no id"},
		{line: `{"id":"a","status":"done"}`, err: "status"},
		{line: `{"id":"a","status":"ok"`, err: "whole JSON object"},
		{line: `{"id":"a","status":"ok"}{}`, err: "whole JSON object"},
		{line: `[]`, err: "whole JSON object"},
		{line: ``, err: "whole JSON object"},
	}
	for _, tt := range tests {
		r, err := ParseRow([]byte(tt.line))
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: got error %v, want one with %q", tt.line, err, tt.err)
			}
			continue
		}
		if err != nil || r.Key != tt.key {
			t.Errorf("%s: got %+v, %v, want key %q", tt.line, r, err, tt.key)
		}
	}
}

// What a row holds may be anything; the line is one line of JSON all the same.
func FuzzAppendRow(f *testing.F) {
	f.Add("a\"\n", []byte(`"q"`), []byte(`{"a": 1}`), []byte(`{},[]`))
	f.Add("\xff\u2028\x00", []byte(`1e5`), []byte("<html>\n"), []byte(`]`))
	f.Add("", []byte(``), []byte(`nul`), []byte("1\n,2"))
	f.Fuzz(func(t *testing.T, s string, id, raw, history []byte) {
		r := &Result{ID: id, Key: s, Status: OK, Text: s, Response: raw, Metadata: raw, History: history,
			Error: &Error{Message: s}, Attempts: []Attempt{{Error: s}}}
		line := AppendRow(nil, r)
		if !json.Valid(line) || !utf8.Valid(line) || bytes.IndexByte(line, '\n') != len(line)-1 {
			t.Fatalf("got %q, want one line of JSON", line)
		}
		got, err := ParseRow(line)
		if err != nil {
			t.Fatalf("got %v for %q", err, line)
		}
		if want := strings.ToValidUTF8(s, "\uFFFD"); !strings.Contains(want, "\uFFFD") && got.Text != want {
			t.Errorf("got text %q, want %q", got.Text, want)
		}
		if again := AppendRow(nil, got); len(history) == 0 && len(id) > 0 && !bytes.Equal(again, line) {
			t.Errorf("written again: got %q, want %q", again, line)
		}
	})
}

func TestNumbersAndStringsShareKeys(t *testing.T) {
	path := tempFile(t, []byte(`{"id":9007199254740993,"status":"ok"}`+"\n"+`{"id":"\u0061\/","status":"ok"}`+"\n"))
	f := mustOpen(t, path, Options{})
	defer f.Close(CloseOptions{})
	for _, key := range []string{"9007199254740993", "a/"} {
		if _, ok := f.Index().Lookup(key); !ok {
			t.Errorf("got nothing for %s, want a row", key)
		}
	}
	if _, ok := f.Index().Lookup("9007199254740992"); ok { // C52
		t.Error("got a row for another number, want none")
	}
}
