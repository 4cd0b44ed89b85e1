package output

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// exportRows has each kind of ending, out of order and with a superseded row.
func exportRows() []*Result {
	hash := func(r *Result) *Result { r.RequestHash = someHash; return r }
	attempt := func(status int, id string) []Attempt {
		return []Attempt{{Attempt: 1, Status: status, Outcome: "x", RequestID: id}}
	}
	return []*Result{
		hash(&Result{ID: json.RawMessage(`"b"`), Status: Waiting, Index: 1}),
		hash(&Result{ID: json.RawMessage(`9007199254740993`), Status: OK, Index: 2, Text: "one\ntwo, \"three\"", StopReason: "end_turn",
			Provider: "anthropic", Model: "m", Usage: Usage{InputTokens: 5, OutputTokens: 1}, Cost: 0.0001, HasCost: true,
			Metadata: json.RawMessage(`{"k":"v"}`), Response: json.RawMessage(`{"id":"msg","n":1.50}`), Attempts: attempt(200, "req_2"),
			FinishedAt: at("2026-11-30T02:00:00Z")}),
		hash(&Result{ID: json.RawMessage(`"a"`), Status: OK, Index: 0, Text: "=1+1", Response: json.RawMessage(`{}`), Attempts: attempt(201, "")}),
		hash(&Result{ID: json.RawMessage(`"b"`), Status: Failed, Index: 1, Error: &Error{Class: "rejected", Status: 400,
			Type: "invalid_request_error", Code: "too_long", Message: "too long"}, Attempts: attempt(400, "req_1")}),
		hash(&Result{ID: json.RawMessage(`"c"`), Status: GaveUp, Index: 3, GiveUpReason: "item_budget",
			Error: &Error{Class: "rate_limited", Status: 429, Message: "slow down"}, NextAttemptAt: at("2026-11-30T03:00:00Z")}),
		hash(&Result{ID: json.RawMessage(`"d"`), Status: GaveUp, Index: 4, GiveUpReason: "server_said_no",
			Error: &Error{Class: "server_error", Status: 500, Message: "no"}}),
		hash(&Result{ID: json.RawMessage(`"e"`), Status: GaveUp, Index: 5, GiveUpReason: "max_errors", Error: &Error{Class: "connection_error", Message: "reset"}}),
		hash(&Result{ID: json.RawMessage(`"f"`), Status: Aborted, Index: 6, Error: &Error{Class: "spend_cap", Status: 429, Message: "cap"}}),
		{ID: json.RawMessage(`"g"`), Status: Failed, Index: 7, Error: &Error{Class: "rejected", Message: "not JSON"}},
	}
}

func TestExportGolden(t *testing.T) {
	path := tempFile(t, lines(exportRows()...))
	for _, format := range ExportFormats() {
		var got bytes.Buffer
		if err := Export(&got, path, ExportOptions{Format: format, Ordered: true}); err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", "export."+string(format))
		if *update {
			if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s: got\n%s\nwant\n%s", format, &got, want)
		}
	}
}

// Lines in a provider's form have the members that its readers look for.
func TestExportedBatchesReadAsTheProviders(t *testing.T) {
	path := tempFile(t, lines(exportRows()...))
	var openai, anthropic bytes.Buffer
	if err := Export(&openai, path, ExportOptions{Format: OpenAIBatch}); err != nil {
		t.Fatal(err)
	}
	if err := Export(&anthropic, path, ExportOptions{Format: AnthropicBatch}); err != nil {
		t.Fatal(err)
	}
	wantCode := map[string]string{"c": "batch_expired", "e": "max_errors", "f": "aborted", "g": "rejected"}
	for line := range bytes.Lines(openai.Bytes()) {
		var l struct {
			ID       string `json:"id"`
			CustomID string `json:"custom_id"`
			Response *struct {
				StatusCode int             `json:"status_code"`
				Body       json.RawMessage `json:"body"`
			} `json:"response"`
			Error *struct{ Code, Message string } `json:"error"`
		}
		if err := json.Unmarshal(line, &l); err != nil || !strings.HasPrefix(l.ID, "batch_req_") {
			t.Fatalf("got %s, %v", line, err)
		}
		code, failed := wantCode[l.CustomID]
		if failed != (l.Response == nil) || failed != (l.Error != nil) || failed && l.Error.Code != code {
			t.Errorf("got %s, want an error %q or a response", line, code)
		}
	}
	wantType := map[string]string{"9007199254740993": "succeeded", "a": "succeeded", "b": "errored", "c": "expired", "d": "errored",
		"e": "errored", "f": "canceled", "g": "errored"}
	for line := range bytes.Lines(anthropic.Bytes()) {
		var l struct {
			CustomID string                `json:"custom_id"`
			Result   struct{ Type string } `json:"result"`
		}
		if err := json.Unmarshal(line, &l); err != nil || l.Result.Type != wantType[l.CustomID] {
			t.Errorf("got %s, %v, want type %q", line, err, wantType[l.CustomID])
		}
		delete(wantType, l.CustomID)
	}
	if len(wantType) > 0 {
		t.Errorf("got no line for %v", wantType)
	}
}

func TestExportColumnsAndErrors(t *testing.T) {
	path := tempFile(t, lines(row("a", OK, 0)))
	var got bytes.Buffer
	if err := Export(&got, path, ExportOptions{Format: CSV, Columns: []string{"id", "status"}}); err != nil || got.String() != "id,status\na,ok\n" {
		t.Errorf("got %q, %v, want two columns", &got, err)
	}
	broken := tempFile(t, []byte(string(lines(row("a", OK, 0)))+"{\n"+string(lines(row("b", OK, 1)))))
	tests := []struct {
		path string
		o    ExportOptions
		want string
	}{
		{path, ExportOptions{Format: "xml"}, `unknown export format "xml"`},
		{path, ExportOptions{Format: CSV, Columns: []string{"x"}}, `unknown column "x"`},
		{broken, ExportOptions{Format: Text}, ":2: broken row"},
		{filepath.Join(t.TempDir(), "none"), ExportOptions{Format: Text}, "no such file"},
	}
	for _, tt := range tests {
		if err := Export(&got, tt.path, tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %q", tt.o, err, tt.want)
		}
	}
}

// A CSV in, a CSV out: kept columns stand beside the answer, and can be chosen.
func TestExportOfInputColumns(t *testing.T) {
	with := func(id string, i int, in string) *Result {
		r := row(id, OK, i)
		r.Text, r.Input = "t"+id, json.RawMessage(in)
		return r
	}
	path := tempFile(t, lines(with("1", 0, `{"id":"1","review":"good, \"very\"","n":7}`), with("2", 1, `{"text":"T","n":null,"tags":["x"]}`)))
	for _, tt := range []struct {
		columns []string
		want    string
	}{
		{nil, "id,review,n,input.text,tags,text,status,error\n1,\"good, \"\"very\"\"\",7,,,t1,ok,\n2,,,T,\"[\"\"x\"\"]\",t2,ok,\n"},
		{[]string{"review", "input.text", "text", "input.id"}, "review,input.text,text,input.id\n\"good, \"\"very\"\"\",,t1,1\n,T,t2,\n"},
	} {
		var got bytes.Buffer
		if err := Export(&got, path, ExportOptions{Format: CSV, Columns: tt.columns}); err != nil || got.String() != tt.want {
			t.Errorf("got %v, %s, want %s", err, &got, tt.want)
		}
	}
}

// Line k of a text is item k, whatever the answers hold and whichever are missing.
func TestExportTextIsALineAnItem(t *testing.T) {
	r := row("b", OK, 3)
	r.Text = "one\ntwo\r\n"
	path := tempFile(t, lines(r, row("c", Failed, 1), &Result{Key: "far", Status: OK, Text: "end", Index: 1 << 40}, &Result{Key: "a", Status: OK, Index: 0, Text: "x"}))
	var got bytes.Buffer
	want := "x\n\n\none\\ntwo\\r\\n\nend\n"
	if err := Export(&got, path, ExportOptions{Format: Text}); err != nil || got.String() != want {
		t.Errorf("got %v, %q, want %q", err, &got, want)
	}
}

// Rows that are broken or too deep are told and passed over.
func TestExportPassesOverBrokenRows(t *testing.T) {
	deep := `{"id":"d","status":"ok","response":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + "}\n"
	path := tempFile(t, []byte(string(lines(row("a", OK, 1)))+"{\n"+deep+string(lines(row("b", OK, 0)))))
	for _, ordered := range []bool{false, true} {
		for _, format := range []ExportFormat{JSONL, CSV} {
			var got bytes.Buffer
			var told []string
			err := Export(&got, path, ExportOptions{Format: format, Ordered: ordered, Columns: []string{"id"}, Broken: func(err error) { told = append(told, err.Error()) }})
			if err != nil || len(told) != 2 || !strings.Contains(told[0], ":2: broken row") || !strings.Contains(told[1], ":3: broken row: its values nest deeper") {
				t.Errorf("got %v, told %q", err, told)
			}
			want := map[bool]string{false: "id\na\nb\n", true: "id\nb\na\n"}[ordered]
			if format == JSONL {
				want = string(lines(row("a", OK, 1), row("b", OK, 0)))
				if ordered {
					want = string(lines(row("b", OK, 0), row("a", OK, 1)))
				}
			}
			if got.String() != want {
				t.Errorf("got %q, want %q", &got, want)
			}
		}
	}
	var got bytes.Buffer
	all := tempFile(t, []byte("{\n"+deep+"x\n"))
	if err := Export(&got, all, ExportOptions{Format: CSV, Broken: func(error) {}}); err == nil || got.Len() > 0 {
		t.Errorf("got %v and %q of a file of broken rows, want an error and nothing", err, &got)
	}
}

// A filter, and the rows as they stand.
func TestExportOfSomeRows(t *testing.T) {
	unknown := `{"id":"a","status":"ok","request_hash":"","index":0,"new":[1]}` + "\n"
	path := tempFile(t, []byte(unknown+string(lines(row("b", OK, 1)))))
	var got bytes.Buffer
	err := Export(&got, path, ExportOptions{Format: JSONL, Want: func(key string) bool { return key == "a" }})
	if err != nil || got.String() != unknown {
		t.Errorf("got %v, %q, want the row as it stands", err, &got)
	}
}

func TestRowsOfAGrowingFile(t *testing.T) {
	content := lines(row("a", Waiting, 0), row("b", OK, 1), row("a", OK, 0))
	tests := []struct{ content, rows, last string }{
		{string(content), "a:waiting b:ok a:ok", "b:ok a:ok"},
		{string(content[:len(content)-1]), "a:waiting b:ok a:ok", "b:ok a:ok"},
		{string(content[:len(content)-9]), "a:waiting b:ok", "a:waiting b:ok"},
		{"", "", ""},
	}
	for _, tt := range tests {
		path := tempFile(t, []byte(tt.content))
		if got := ids(t, path); got != tt.rows {
			t.Errorf("got rows %q, want %q", got, tt.rows)
		}
		var last []string
		for r, err := range LastRows(path, false) {
			if err != nil {
				t.Fatal(err)
			}
			last = append(last, r.Key+":"+string(r.Status))
		}
		if got := strings.Join(last, " "); got != tt.last {
			t.Errorf("got last rows %q, want %q", got, tt.last)
		}
		for range Rows(path) {
			break
		}
		for range LastRows(path, true) {
			break
		}
	}
	for _, err := range Rows(tempFile(t, []byte("prompt\n"))) {
		if err == nil {
			t.Error("got no error for another file, want one")
		}
	}
}

func TestMerge(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, rows ...*Result) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, lines(rows...), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	finished := func(r *Result, s string) *Result { r.FinishedAt = at(s); return r }
	early, late := "2026-11-30T01:00:00Z", "2026-11-30T02:00:00Z"
	a := file("a.jsonl", row("d", OK, 3), row("a", Waiting, 0), row("b", Failed, 1), finished(row("c", OK, 2), late), row("a", GaveUp, 0))
	b := file("b.jsonl", row("a", Aborted, 0), row("b", OK, 1), finished(row("c", OK, 2), early), row("e", Failed, 4))
	if err := os.Truncate(b, int64(len(read(t, b))-1)); err != nil { // a whole row without its newline
		t.Fatal(err)
	}
	dst := filepath.Join(dir, "all.jsonl")
	for range 2 { // the second keeps what the first made
		n, err := Merge(dst, []string{a, b})
		if got := ids(t, dst); err != nil || n != 5 || got != "a:gave_up b:ok c:ok d:ok e:failed" {
			t.Fatalf("got %d rows, %q, %v", n, got, err)
		}
	}
	if got := read(t, dst); !strings.Contains(got, strings.TrimSuffix(late, "Z")) || strings.Contains(got, strings.TrimSuffix(early, "Z")) {
		t.Errorf("got %s, want the row that finished later", got)
	}
	if read(t, dst+".bak") != read(t, dst) {
		t.Error("got another copy of the old file, want the same")
	}
	if info, _ := os.Stat(dst); info.Mode() != 0o600 {
		t.Errorf("got mode %v, want 0600", info.Mode())
	}

	other := row("a", OK, 0)
	other.RequestHash = "sha256:" + strings.Repeat("f", 64)
	clash := file("clash.jsonl", other)
	broken := file("broken.jsonl", row("a", OK, 0))
	if err := os.WriteFile(broken, []byte("{\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	held := mustOpen(t, file("held.jsonl"), Options{})
	defer held.Close(CloseOptions{})
	fresh := filepath.Join(dir, "fresh.jsonl")
	tests := []struct {
		dst  string
		srcs []string
		want string
	}{
		{fresh, []string{a, clash}, `id "a" was sent with different requests`},
		{fresh, []string{a, broken}, "broken.jsonl:1: broken row"},
		{fresh, []string{a, held.Path()}, "another run is writing"},
		{fresh, []string{a, filepath.Join(dir, "none")}, "no such file"},
		{a, []string{a, b}, "can't be the result"},
		{held.Path(), []string{a}, "another run is writing"},
		{filepath.Join(dir, "no", "x.jsonl"), []string{a}, "does not exist"},
		{fresh + ".gz", []string{a}, "compressed"},
	}
	before := names(t, dst)
	for _, tt := range tests {
		if _, err := Merge(tt.dst, tt.srcs); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: got %v, want %q", tt.srcs, err, tt.want)
		}
		if got := names(t, dst); got != before {
			t.Errorf("%v: got files %q, want %q", tt.srcs, got, before)
		}
	}
}

// The schema names exactly the members that a full row has.
func TestSchemaNamesWhatRowsHave(t *testing.T) {
	type object struct {
		Required   []string                   `json:"required"`
		Properties map[string]json.RawMessage `json:"properties"`
		Enum       []string                   `json:"enum"`
	}
	var root struct {
		object
		Defs map[string]object `json:"$defs"`
	}
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	var errorPart object
	if err := json.Unmarshal(root.Properties["error"], &errorPart); err != nil {
		t.Fatal(err)
	}
	full := fullRow()
	full.History = nil
	full.Attempts[0].Duration = time.Second
	type members map[string]json.RawMessage
	var rowPart, errPart, usagePart members
	var attempts []members
	line := AppendRow(nil, full)
	for _, err := range []error{json.Unmarshal(line, &rowPart), json.Unmarshal(rowPart["error"], &errPart),
		json.Unmarshal(rowPart["usage"], &usagePart), json.Unmarshal(rowPart["attempts"], &attempts)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name   string
		schema object
		row    members
	}{
		{"row", root.object, rowPart}, {"error", errorPart, errPart}, {"usage", root.Defs["usage"], usagePart},
		{"attempt", root.Defs["attempt"], attempts[0]},
	} {
		for name := range tt.schema.Properties {
			if _, ok := tt.row[name]; !ok {
				t.Errorf("%s: the schema has %q, a full row not", tt.name, name)
			}
		}
		for name := range tt.row {
			if _, ok := tt.schema.Properties[name]; !ok {
				t.Errorf("%s: a full row has %q, the schema not", tt.name, name)
			}
		}
	}
	least := members{}
	if err := json.Unmarshal(AppendRow(nil, &Result{Key: "a", Status: OK, Attempts: []Attempt{{}}}), &least); err != nil {
		t.Fatal(err)
	}
	for _, name := range root.Required {
		if _, ok := least[name]; !ok {
			t.Errorf("the schema requires %q, the least row has it not", name)
		}
	}
	if !strings.HasSuffix(string(Schema()), "}\n") {
		t.Error("got no newline at the end of the schema, want one")
	}
}
