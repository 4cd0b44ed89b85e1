package command

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestCodeOf(t *testing.T) {
	for line, want := range map[string][2]uintptr{
		"00400000-010b9000 r-xp 00000000 fe:00 10200196                           /usr/bin/a program": {0x400000, 0x10b9000},
		"00400000-010b9000 r-xp 00000000 fe:00 10200196                           /usr/lib/another":   {},
		"010b9000-01db1000 r--p 00cb9000 fe:00 10200196                           /usr/bin/program":   {},
		"01db1000-01e4e000 rw-p 019b1000 fe:00 10200196                           /usr/bin/program":   {},
		"7ffd3d5fe000-7ffd3d600000 r-xp 00000000 00:00 0                          [vdso]":             {},
		"7ffd3d5fe000-7ffd3d600000 r-xp 00000000 00:00 0 ":                                            {},
		"x-y r-xp 00000000 fe:00 1 /usr/bin/a program":                                                {},
		"": {},
	} {
		if from, to, ok := codeOf(line, "/usr/bin/a program"); ok != (want[1] != 0) || ok && want != [2]uintptr{from, to} {
			t.Errorf("%q: got %x, %x, %v, want %x", line, from, to, ok, want)
		}
	}
}

// What was dropped is there again when it is called.
func TestDropStartup(t *testing.T) {
	before := rssOfCode(t)
	DropStartup()
	if after := rssOfCode(t); after >= before {
		t.Errorf("%d KB of code are mapped after, %d before", after, before)
	}
}

// rssOfCode is how much of this program's code is mapped, in KB.
func rssOfCode(t *testing.T) (kb int) {
	b, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Skip(err)
	}
	code := false
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		switch f := strings.Fields(line); {
		case strings.Contains(f[0], "-"):
			_, _, code = codeOf(line, program)
		case code && f[0] == "Rss:":
			n, _ := strconv.Atoi(f[1])
			kb += n
		}
	}
	return kb
}
