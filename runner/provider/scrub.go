package provider

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"html"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

const (
	// shortSecret: a shorter value may be part of a word, so it is replaced only where
	// it stands alone.
	shortSecret = 8
	// hidden is what stands in a secret's place.
	hidden = "***"
)

// Scrubber replaces known secrets by "***", in whatever way they are written: what is
// compared is the text with its escapes resolved (of JSON, URLs and HTML, also one
// inside the other), without invisible characters, in lower case; base64 and hex too.
// The zero value knows none. Safe for concurrent use; a key that renews itself is
// added while others hide.
//
// A value of fewer than 8 bytes is replaced only where no letter or digit is
// beside it, and one that is also all letters (EMPTY, ollama) not at all: local
// servers take such words for a key, and answers are full of them.
type Scrubber struct {
	known atomic.Pointer[secrets]
	mu    sync.Mutex // held by Add
}

// secrets are what a Scrubber knows. They are never changed.
type secrets struct {
	list    []secret
	longest int
}

func (s *Scrubber) secrets() *secrets {
	if k := s.known.Load(); k != nil {
		return k
	}
	return &secrets{}
}

type secret struct {
	value []byte // folded
	alone bool   // replaced only where it stands alone
}

// NewScrubber makes a Scrubber of keys, header values, passwords and the secrets
// of a URL. Of "Bearer x" both the whole and x are known. Empty ones are left out.
func NewScrubber(values ...string) *Scrubber {
	s := &Scrubber{}
	s.Add(values...)
	return s
}

// Add makes more secrets known.
func (s *Scrubber) Add(values ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.secrets()
	next := &secrets{list: slices.Clone(known.list), longest: known.longest}
	next.add(values)
	s.known.Store(next)
}

func (s *secrets) add(values []string) {
	add := func(v string, alone bool) {
		value, _ := fold([]byte(v), nil)
		value, _ = fold(value, nil)
		if len(value) > 0 {
			s.list = append(s.list, secret{value, alone})
			s.longest = max(s.longest, len(value))
		}
	}
	for _, v := range values {
		values := []string{strings.TrimSpace(v)}
		if scheme, rest, ok := strings.Cut(values[0], " "); ok && (strings.EqualFold(scheme, "Bearer") || strings.EqualFold(scheme, "Basic")) {
			values = append(values, strings.TrimSpace(rest))
		}
		for _, v := range values {
			if !worthHiding(v) {
				continue
			}
			add(v, len(v) < shortSecret)
			if len(v) >= shortSecret {
				add(hex.EncodeToString([]byte(v)), false)
				for _, form := range base64Forms(v) {
					add(form, false)
				}
			}
		}
	}
	// The longer first: a secret may be part of another.
	slices.SortStableFunc(s.list, func(a, b secret) int { return len(b.value) - len(a.value) })
	s.list = slices.CompactFunc(s.list, func(a, b secret) bool { return bytes.Equal(a.value, b.value) })
}

// worthHiding leaves out what can't be a secret.
func worthHiding(v string) bool {
	if len(v) >= shortSecret {
		return true
	}
	return len(v) >= 4 && strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsLetter(r) })
}

// base64Forms are v in base64, wherever in a longer text it may stand there: only the
// digits that depend on v alone.
func base64Forms(v string) (forms []string) {
	for before := range 3 {
		all := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), v...))
		first := (before*8 + 5) / 6
		last := (before + len(v)) * 8 / 6
		if form := all[first:min(last, len(all))]; len(form) >= shortSecret {
			forms = append(forms, form, strings.NewReplacer("+", "-", "/", "_").Replace(form))
		}
	}
	return forms
}

// String returns v without the secrets.
func (s *Scrubber) String(v string) string {
	b := []byte(v)
	if out := s.Bytes(b); !bytes.Equal(out, b) {
		return string(out)
	}
	return v
}

// window is how much is looked at in one go.
const window = 32 << 10

// Bytes returns b without the secrets: b itself where there are none, a copy
// otherwise. A secret of which only the beginning is left before an ellipsis goes too.
func (s *Scrubber) Bytes(b []byte) []byte { return s.secrets().hide(b) }

func (s *secrets) hide(b []byte) []byte {
	if len(s.list) == 0 {
		return b
	}
	var out []byte
	kept := 0 // what is in out of b
	buf := make([]byte, 0, min(len(b), window)+16)
	for from := 0; from < len(b); {
		end := min(len(b), from+window)
		piece := b[from:end]
		if cut, found := s.find(piece, buf); found { // rare: now with the places
			out = append(append(out, b[kept:from+cut[0]]...), hidden...)
			kept = from + cut[1]
			from = kept
			continue
		}
		if end == len(b) {
			break
		}
		from = end - min(24*s.longest, window/2) // one may stand across the end
	}
	if out == nil {
		return b
	}
	return append(out, b[kept:]...)
}

// find returns the place of the first secret in b.
func (s *secrets) find(b, buf []byte) (at [2]int, found bool) {
	folded, again := fold(b, buf)
	if again {
		folded, _ = fold(folded, nil)
	}
	if s.match(folded) < 0 {
		return at, false
	}
	// Each folded byte's place in b.
	text, places, _ := foldAt(b, identity(len(b)))
	text, places, _ = foldAt(text, places)
	i := s.match(text)
	if i < 0 {
		return at, false
	}
	first, n := len(text), 0
	for k := range s.list {
		if j, l := s.list[k].in(text); j >= 0 && (j < first || j == first && l > n) {
			first, n = j, l
		}
	}
	return [2]int{places[first][0], places[first+n-1][1]}, true
}

// match returns a place where any secret is, -1 if there is none.
func (s *secrets) match(folded []byte) int {
	for i := range s.list {
		if at, _ := s.list[i].in(folded); at >= 0 {
			return at
		}
	}
	return -1
}

// in returns the first place of the secret in a folded text, and its length there; -1
// if it is not in it.
func (x *secret) in(folded []byte) (at, n int) {
	for from := 0; ; {
		i := bytes.Index(folded[from:], x.value)
		if i < 0 {
			break
		}
		i += from
		end := i + len(x.value)
		if x.alone && (i > 0 && wordByte(folded[i-1]) || end < len(folded) && wordByte(folded[end])) {
			from = i + 1
			continue
		}
		return i, len(x.value)
	}
	for text := folded; !x.alone; { // a message that was clipped inside the secret
		dots := bytes.LastIndex(text, []byte("…"))
		if dots < 0 {
			break
		}
		text = text[:dots]
		for n := min(len(x.value)-1, len(text)); n >= shortSecret; n-- {
			if bytes.HasSuffix(text, x.value[:n]) {
				return len(text) - n, n
			}
		}
	}
	return -1, 0
}

func identity(n int) [][2]int {
	places := make([][2]int, n)
	for i := range places {
		places[i] = [2]int{i, i + 1}
	}
	return places
}

// fold appends what b says to buf[:0], as it is compared. again says that there may be
// escapes inside what was escaped.
func fold(b, buf []byte) (out []byte, again bool) {
	out = buf[:0]
	for i := 0; i < len(b); {
		if c := b[i]; c >= ' ' && c < 0x7f && c != '\\' && c != '%' && c != '&' {
			if c >= 'A' && c <= 'Z' {
				c += 'a' - 'A'
			}
			out = append(out, c)
			i++
			continue
		}
		r, n := unit(b[i:])
		again = again || b[i] < 0x80
		if r >= 0 {
			out = utf8.AppendRune(out, r)
		}
		i += n
	}
	return out, again
}

// foldAt is fold with the place in the first text of each byte.
func foldAt(b []byte, from [][2]int) (out []byte, places [][2]int, again bool) {
	for i := 0; i < len(b); {
		r, n := unit(b[i:])
		if r >= 0 {
			before := len(out)
			out = utf8.AppendRune(out, r)
			for range len(out) - before {
				places = append(places, [2]int{from[i][0], from[i+n-1][1]})
			}
		}
		i += n
	}
	return out, places, true
}

// unit reads what stands for one character: the character in lower case, -1 for one
// that nobody sees, and the length of what stands for it.
func unit(b []byte) (r rune, n int) {
	switch b[0] {
	case '\\':
		r, n = backslash(b)
	case '%':
		r, n = '%', 1
		if v, ok := digits16(b[1:], 2); ok {
			r, n = v, 3
		}
	case '&':
		r, n = '&', 1
		if end := bytes.IndexByte(b[:min(len(b), 12)], ';'); end > 0 {
			entity := string(b[:end+1])
			if v := html.UnescapeString(entity); v != entity && utf8.RuneCountInString(v) == 1 {
				r, _ = utf8.DecodeRuneInString(v)
				n = end + 1
			}
		}
	default:
		r, n = utf8.DecodeRune(b)
	}
	switch {
	case r == '\t' || r == '\n' || r == '\r':
		return ' ', n
	case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r >= 0xfe00 && r <= 0xfe0f, r == 0x34f:
		return -1, n
	}
	return unicode.ToLower(r), n
}

// backslash reads a run of them and what it escapes: JSON inside JSON doubles them.
func backslash(b []byte) (r rune, n int) {
	n = len(b) - len(bytes.TrimLeft(b, `\`))
	if n == len(b) {
		return '\\', n
	}
	switch rest := b[n+1:]; b[n] {
	case 'u':
		if v, ok := digits16(rest, 4); ok {
			return v, n + 5
		}
	case 'x':
		if v, ok := digits16(rest, 2); ok {
			return v, n + 3
		}
	case '/', '"', '\'':
		return rune(b[n]), n + 1
	case 'b', 'f', 'n', 'r', 't':
		return ' ', n + 1
	}
	return '\\', n
}

// digits16 reads n hexadecimal digits.
func digits16(b []byte, n int) (rune, bool) {
	if len(b) < n {
		return 0, false
	}
	v, err := strconv.ParseUint(string(b[:n]), 16, 32)
	return rune(v), err == nil
}

func wordByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
