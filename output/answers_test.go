package output

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strconv"
	"testing"
)

func hashFor(i int) string {
	sum := sha256.Sum256([]byte(strconv.Itoa(i)))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func TestAnswers(t *testing.T) {
	var one, two []*Result
	for i := range 2000 {
		r := row("a"+strconv.Itoa(i), OK, i)
		if i%10 == 0 {
			r.Status = Failed
		}
		r.RequestHash, r.Text = hashFor(i), "one"
		one = append(one, r)
		again := *r
		again.Status, again.Text = OK, "two"
		two = append(two, &again)
	}
	broken := append(lines(one...), "{\n"...)
	paths := []string{tempFile(t, append(broken, lines(&Result{Key: "x", Status: OK})...)), tempFile(t, lines(two...))}
	told := 0
	a, err := OpenAnswers(paths, func(error) { told++ })
	if err != nil || told != 1 || a.Len() != 1800+2000 {
		t.Fatalf("got %v, %d told, %d answers", err, told, a.Len())
	}
	defer a.Close()
	for i := range 2001 {
		r, file, err := a.Find(hashFor(i))
		switch want := 0; {
		case err != nil:
			t.Fatal(err)
		case i == 2000:
			if r != nil {
				t.Errorf("got %+v for what nobody asked", r)
			}
		default:
			if i%10 == 0 {
				want = 1
			}
			if r == nil || file != paths[want] || r.RequestHash != hashFor(i) || r.Text != []string{"one", "two"}[want] {
				t.Fatalf("%d: got %+v of %s, want it of file %d", i, r, file, want)
			}
		}
	}
	if r, _, err := a.Find(hashFor(1)[:30] + "ffff"); r != nil || err != nil { // the same first bytes
		t.Errorf("got %v, %v for another hash", r, err)
	}
	if r, _, err := new(Answers).Find(hashFor(1)); r != nil || err != nil {
		t.Errorf("got %v, %v without files", r, err)
	}
	if _, err := OpenAnswers([]string{filepath.Join(t.TempDir(), "none")}, nil); err == nil {
		t.Error("got nil for a file that does not exist")
	}
}
