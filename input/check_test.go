package input

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// C53: an id that repeats is refused, naming both lines.
func TestDuplicateIDs(t *testing.T) {
	in := strings.Join([]string{`{"id":"a","prompt":"x"}`, `{"id":1,"prompt":"x"}`, "", `{"id":"1","prompt":"x"}`, `{"custom_id":"\u0061","params":{}}`,
		`{"id":1.0,"prompt":"x"}`, `{"id":"` + strings.Repeat("k", 65) + `","prompt":"x"}`, `{"id":"a","messages":[1]}`}, "\n")
	f := open(t, "p.jsonl", in, Options{})
	bad := errorsOf(t, f, CheckFuncs{})
	want := strings.Join([]string{
		`p.jsonl:4:7: duplicate id "1": line 2 has it too`,
		`p.jsonl:5:14: duplicate id "a": line 1 has it too`,
		`p.jsonl:8:7: duplicate id "a": line 1 has it too`,
		`    hint: give each line an id of its own, or none at all`}, "\n")
	if bad == nil || bad.Error() != want || bad.Count != 3 {
		t.Errorf("got %v\nwant %s", bad, want)
	}
	items, err := all(f)
	if err == nil || err.Error() != `p.jsonl:4:7: duplicate id "1": line 2 has it too` || len(items) != 2 {
		t.Errorf("Items: got %d items and error %v", len(items), err)
	}
}

// The file twice over: every line of the second half is a duplicate, and the first
// line of each is found again.
func TestManyDuplicates(t *testing.T) {
	const n = 5000
	for _, o := range []Options{{}, {LetThrough: true}} {
		var b strings.Builder
		for i := range 2 * n {
			fmt.Fprintf(&b, `{"id":"k%d","prompt":"x"}`+"\n", i%n)
		}
		f := open(t, "p.jsonl", b.String(), o)
		found := 0
		bad := errorsOf(t, f, CheckFuncs{Each: func(it *Item, _ uint64) error {
			if it.Bad != nil {
				found++
				if !strings.HasSuffix(it.Bad.Msg, "an earlier line has it too") {
					return fmt.Errorf("item %d: %s", it.Index, it.Bad.Msg)
				}
			}
			return nil
		}})
		if bad != nil {
			found = bad.Count
			for i, l := range bad.First {
				if want := fmt.Sprintf("line %d has it too", i+1); l.Line != n+1+i || !strings.HasSuffix(l.Msg, want) {
					t.Errorf("got %v, want %s", l, want)
				}
			}
		}
		if found != n {
			t.Errorf("%+v: found %d duplicates, want %d", o, found, n)
		}
	}
}

// C29: lines that say the same are items of their own.
func TestContentIDs(t *testing.T) {
	f := open(t, "p.jsonl", strings.Repeat(`{"prompt":"x"}`+"\n", 3)+` {"prompt":"x"} `+"\n"+`{"prompt": "x"}`, Options{})
	items, err := all(f)
	a, b := hex48(contentSum([]byte(`{"prompt":"x"}`))), hex48(contentSum([]byte(`{"prompt": "x"}`)))
	want := fmt.Sprintf("sha256:%s#1 sha256:%[1]s#2 sha256:%[1]s#3 sha256:%[1]s#4 sha256:%s#1", a, b)
	if err != nil || keys(items) != want {
		t.Errorf("got %s and error %v\nwant %s", keys(items), err, want)
	}
}

// C30: a line put in elsewhere changes no other line's id.
func TestContentIDsStay(t *testing.T) {
	body := `{"prompt":"x"}` + "\n" + `{"prompt":"y"}` + "\n" + `{"prompt":"x"}` + "\n"
	before, err := all(open(t, "p.jsonl", body, Options{}))
	if err != nil {
		t.Fatal(err)
	}
	after, err := all(open(t, "p.jsonl", `{"prompt":"new"}`+"\n\n"+strings.Replace(body, "y\"}\n", "y\"}\r\n{\"prompt\":\"z\"}\n", 1), Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := keys([]*Item{after[1], after[2], after[4]}), keys(before); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// An id that looks like a content id is an id like others, and no other line gets it.
func TestIDsLikeContentIDs(t *testing.T) {
	sum := contentSum([]byte(`{"prompt":"x"}`))
	first, second := contentKey(sum, 1), contentKey(sum, 2)
	named := func(id string) string { return `{"id":"` + id + `","prompt":"y"}` + "\n" }
	items, err := all(open(t, "p.jsonl", named(first)+`{"prompt":"x"}`, Options{}))
	if err != nil || keys(items) != first+" "+second {
		t.Errorf("got %s and error %v, want %s %s", keys(items), err, first, second)
	}
	_, err = all(open(t, "p.jsonl", `{"prompt":"x"}`+"\n"+named(first), Options{}))
	if err == nil || !strings.Contains(err.Error(), "p.jsonl:2:7: duplicate id") {
		t.Errorf("got %v, want a duplicate id", err)
	}
}

func TestCheckNamesTheFirstTen(t *testing.T) {
	var b strings.Builder
	for i := range 3000 {
		if i%100 == 50 {
			b.WriteString("{\n")
		} else {
			fmt.Fprintf(&b, `{"id":%d,"prompt":"%s"}`+"\n", i, strings.Repeat("x", 100))
		}
	}
	bad := errorsOf(t, open(t, "p.jsonl", b.String(), Options{}), CheckFuncs{})
	if bad == nil || bad.Count != 30 || len(bad.First) != 10 {
		t.Fatalf("got %v, want 30 bad lines, the first ten named", bad)
	}
	for i, l := range bad.First {
		if l.Line != i*100+51 {
			t.Errorf("bad line %d: got line %d, want %d", i, l.Line, i*100+51)
		}
	}
	text := strings.Split(bad.Error(), "\n")
	if len(text) != 12 || !strings.HasPrefix(text[0], "p.jsonl:51:2: ") || !strings.HasPrefix(text[10], "    hint: ") || text[11] != "… and 20 more" {
		t.Errorf("got %q", text)
	}
}

func TestCheckPrepares(t *testing.T) {
	refuse := errors.New("no model: add --model")
	prepare := func(it *Item) (uint64, error) {
		switch it.Key {
		case "b":
			return 0, refuse
		case "c":
			return 0, &LineError{Col: 2, Msg: "bad body", Hint: "mend it"}
		}
		return uint64(len(it.Key)), nil
	}
	in := `{"id":"a","prompt":"x"}` + "\n" + `{"id":"b","prompt":"x"}` + "\n" + `{"id":"c","messages":[1]}` + "\n" +
		`{"messages":[1],"id":"c","x":1}` + "\n" + `{"n":1,"id":"d","messages":[1]}`
	f := open(t, "p.jsonl", in, Options{})
	var good []string
	each := func(it *Item, hash uint64) error {
		good = append(good, fmt.Sprintf("%d:%s=%d", it.Index, it.Key, hash))
		return nil
	}
	bad := errorsOf(t, f, CheckFuncs{Prepare: prepare, Each: each})
	want := "p.jsonl:2:1: no model: add --model\np.jsonl:3:11: bad body\n    hint: mend it\np.jsonl:4:22: duplicate id \"c\": line 3 has it too\n    hint: give each line an id of its own, or none at all"
	if bad == nil || bad.Error() != want || strings.Join(good, " ") != "0:a=1 4:d=1" {
		t.Errorf("got %v\nand %s\nwant %s", bad, good, want)
	}

	good = nil
	let := open(t, "p.jsonl", in, Options{LetThrough: true})
	bads := 0
	if bad := errorsOf(t, let, CheckFuncs{Prepare: prepare, Each: func(it *Item, hash uint64) error {
		if it.Bad != nil {
			if bads++; !strings.HasPrefix(it.Key, "sha256:") || hash != 0 || it.Body != nil {
				t.Errorf("bad item %+v, hash %d", it, hash)
			}
			return nil
		}
		return each(it, hash)
	}}); bad != nil || bads != 3 || strings.Join(good, " ") != "0:a=1 4:d=1" {
		t.Errorf("let through: got %v, %d bad, good %s", bad, bads, good)
	}
	// Reject gives the same ids as Check gave.
	for it, err := range let.Items() {
		if err != nil {
			t.Fatal(err)
		}
		if it.Key != "b" {
			continue
		}
		let.Reject(it, refuse)
		if want := contentKey(contentSum([]byte(`{"id":"b","prompt":"x"}`)), 1); it.Key != want || it.Prompt != "" || it.Bad.Error() != "p.jsonl:2:1: no model: add --model" {
			t.Errorf("rejected: got %+v, want key %s", it, want)
		}
	}
}

// A line without id that is refused later keeps its content id.
func TestRejectWithoutID(t *testing.T) {
	f := open(t, "p.jsonl", strings.Repeat(`{"prompt":"x"}`+"\n", 2), Options{LetThrough: true})
	items, err := all(f)
	if err != nil {
		t.Fatal(err)
	}
	want := keys(items)
	for _, it := range []*Item{items[1], items[0]} {
		f.Reject(it, errors.New("no model"))
	}
	if got := keys(items); got != want || items[0].Bad == nil || items[0].Index != 0 || items[0].Line != 1 {
		t.Errorf("got %s, want %s", got, want)
	}
	var checked []string
	if bad := errorsOf(t, f, CheckFuncs{Prepare: func(*Item) (uint64, error) { return 0, errors.New("no model") },
		Each: func(it *Item, _ uint64) error { checked = append(checked, it.Key); return nil }}); bad != nil || strings.Join(checked, " ") != want {
		t.Errorf("Check: got %s and %v, want %s", checked, bad, want)
	}
}

func TestCheckEnds(t *testing.T) {
	f := lines(t, 8000, chatLine)
	stop := errors.New("stop")
	n := 0
	err := f.Check(t.Context(), CheckFuncs{Each: func(*Item, uint64) error {
		if n++; n == 500 {
			return stop
		}
		return nil
	}})
	if err != stop || n != 500 {
		t.Errorf("got %v after %d items, want Each's own error after 500", err, n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var calls atomic.Int64
	err = f.Check(ctx, CheckFuncs{Prepare: func(*Item) (uint64, error) {
		if calls.Add(1) == 100 {
			cancel()
		}
		return 0, nil
	}})
	if !errors.Is(err, context.Canceled) || calls.Load() == 8000 {
		t.Errorf("got %v after %d items, want a canceled context", err, calls.Load())
	}
}

// Items and Check see the same items.
func TestItemsAgreeWithCheck(t *testing.T) {
	var b strings.Builder
	for i := range 4000 {
		switch i % 7 {
		case 0:
			b.WriteString("{\n")
		case 1:
			fmt.Fprintf(&b, "{\"prompt\":\"%d\"}\n\n", i%20)
		case 2:
			fmt.Fprintf(&b, `{"id":%d,"prompt":"x"}`+"\r\n", i/9)
		default:
			fmt.Fprintf(&b, `{"id":"s%d","messages":["%s"]}`+"\n", i, strings.Repeat("m", i%900))
		}
	}
	f := open(t, "p.jsonl", b.String(), Options{LetThrough: true})
	var checked []string
	if bad := errorsOf(t, f, CheckFuncs{Each: func(it *Item, _ uint64) error {
		checked = append(checked, fmt.Sprint(it.Index, it.Line, it.Offset, it.Size, describe(it)))
		return nil
	}}); bad != nil {
		t.Fatal(bad)
	}
	ids := map[string]bool{}
	i := 0
	for it, err := range f.Items() {
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(it.Index, it.Line, it.Offset, it.Size, describe(it)); got != checked[i] {
			t.Fatalf("item %d\n got %s\nwant %s", i, got, checked[i])
		}
		if ids[it.Key] {
			t.Errorf("item %d has the id %s of another", i, it.Key)
		}
		ids[it.Key] = true
		i++
	}
	if i != len(checked) || i != 4000 {
		t.Errorf("got %d items, Check %d, want 4000", i, len(checked))
	}
}

// Iterations and reloads at the same time are independent.
func TestConcurrentUse(t *testing.T) {
	f := lines(t, 3000, promptLine)
	items, err := all(f)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			again, err := all(f)
			if err != nil || len(again) != len(items) {
				t.Errorf("got %d items and error %v, want %d", len(again), err, len(items))
			}
		})
	}
	for part := range 3 {
		wg.Go(func() {
			for i := part; i < len(items); i += 3 {
				want := items[i].Prompt
				items[i].Forget()
				if err := f.Reload(items[i]); err != nil || items[i].Prompt != want {
					t.Errorf("item %d: Reload gave %q and error %v", i, items[i].Prompt, err)
				}
			}
		})
	}
	wg.Wait()
}

// Every hash is found again, however far the set has grown, in little more than its own
// eight bytes.
func TestHashes(t *testing.T) {
	var s hashes
	const n = 200_000
	h := func(i uint64) uint64 { return i * 0x9e3779b97f4a7c15 }
	for i := range uint64(n) {
		if !s.add(h(i)) {
			t.Fatalf("%d was there before it was added", i)
		}
	}
	slots := 0
	for i := range s.parts {
		slots += len(s.parts[i].slots)
	}
	for i := range uint64(n) {
		if s.add(h(i)) {
			t.Fatalf("%d is lost", i)
		}
	}
	if per := float64(8*slots) / n; per > 17 {
		t.Errorf("%.1f bytes a hash", per)
	}
}
