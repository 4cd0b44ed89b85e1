package input

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Options say how a file is read. The zero value reads plain JSONL.
type Options struct {
	// Template is a text/template that makes a prompt of every JSON object or
	// CSV row; "" reads the four JSONL formats.
	Template string
	// TemplateName is what messages call it: "--template" or a file's name.
	TemplateName string
	// System and Params are the values of --system and --params. With a Template they
	// may hold its fields, and are then rendered into each item (see Rendered); without
	// one, "{{" in System is an error.
	System, Params string
	// IDField is the member or column that holds the id, with Template only.
	// "" takes "id" or "custom_id" where there is one.
	IDField string
	// Keep are the columns or members, with Template only, that travel in Item.Input:
	// names with commas between them, "all" or "none". "" is all for CSV, else none.
	Keep string
	// Delimiter stands between the cells of a CSV file, one character or "tab"; "" finds
	// it in the header. With a Template it makes CSV of any input, standard input too.
	Delimiter string
	// FilesRoot is the folder that the paths of a line's files are relative to and may
	// not leave; "" is the folder of the input, of a pipe the current one.
	FilesRoot string
	// LetThrough makes bad lines items with Bad set, under their content id
	// (--skip-invalid). A pipe always does so: it cannot be checked beforehand.
	LetThrough bool
	// Stdin is what "-" reads; nil means os.Stdin.
	Stdin io.Reader
	// MaxLine is the longest line in bytes; 0 means 256 MiB. A longer one is a
	// bad line.
	MaxLine int64
}

// File is an open input. Its methods may be called concurrently, but for Close.
type File struct {
	name string
	ext  string // lower case, without .gz and .zst
	o    Options
	file *os.File  // nil for a Stdin that is no *os.File
	pipe io.Reader // nil for a regular file
	kind packing
	csv  bool
	tmpl *renderer
	keep []string // names; nil: none, or all with keepAll
	all  bool     // everything is kept
	root *folder

	taken   atomic.Bool              // a pipe's Items were asked for
	checked atomic.Bool              // ids were found to be unique
	header  atomic.Pointer[[]string] // of a CSV file, once read
	comma   atomic.Int32             // of a CSV file
	blank   atomic.Int64             // rows without content in the last pass
	ids     atomic.Pointer[ids]      // of the Items begun last, for Reject
	unnamed atomic.Bool              // a line without an id was seen
	from    place                    // where Items begins
}

// place is where an item's line is; the zero place is the beginning.
type place struct {
	index, line int
	off         int64
}

const (
	defaultMaxLine = 256 << 20
	stdinName      = "stdin"
)

// Open opens the file at path for reading; "-" is Options.Stdin. Gzip and
// zstd are known by their first bytes, CSV by its name and a Template. A
// template that cannot be parsed, or that uses no field, is an error here.
func Open(path string, o Options) (*File, error) {
	f := &File{name: path, o: o}
	if f.o.MaxLine <= 0 {
		f.o.MaxLine = defaultMaxLine
	}
	if err := f.open(path); err != nil {
		return nil, err
	}
	if err := f.prepare(path); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *File) open(path string) error {
	if path == "-" {
		f.name = stdinName
		f.pipe = f.o.Stdin
		if f.pipe == nil {
			f.pipe = os.Stdin
		}
		f.file, _ = f.pipe.(*os.File)
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a folder, not a file of prompts", path)
	}
	if err != nil {
		file.Close()
		return err
	}
	f.file = file
	if !info.Mode().IsRegular() {
		f.pipe = file
	}
	return nil
}

func (f *File) prepare(path string) error {
	bare := strings.ToLower(filepath.Base(path))
	packed := filepath.Ext(bare)
	if packed == ".gz" || packed == ".zst" {
		bare = strings.TrimSuffix(bare, packed)
	}
	f.ext = filepath.Ext(bare)
	f.root = &folder{path: f.o.FilesRoot}
	if f.root.path == "" {
		f.root.path = filepath.Dir(path)
	}
	f.csv = f.ext == ".csv" || f.ext == ".tsv" || f.o.Delimiter != ""
	var err error
	if f.o.Delimiter != "" {
		if f.o.Delimiter, err = checkDelimiter(f.o.Delimiter); err != nil {
			return err
		}
	}
	if f.pipe != nil {
		f.o.LetThrough = true
	} else if f.kind, err = packingOf(f.file, packed); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	if f.o.Template == "" {
		return f.withoutTemplate()
	}
	f.setKeep()
	f.tmpl, err = newRenderer(f)
	return err
}

// withoutTemplate refuses what only a template gives a meaning.
func (f *File) withoutTemplate() error {
	switch {
	case f.csv:
		return fmt.Errorf("%s: a %s file needs a template, such as --template '{{.text}}'", f.name, strings.ToUpper(strings.TrimPrefix(f.ext, ".")))
	case f.o.IDField != "":
		return errors.New("--id-field works with --template only")
	case f.o.Keep != "" && f.o.Keep != "none":
		return errors.New("--keep works with --template only; in other lines \"metadata\" travels to the result")
	case strings.Contains(f.o.System, "{{"):
		return errors.New("--system has {{ in it, but fields can be filled in only with --template")
	}
	return nil
}

func (f *File) setKeep() {
	switch f.o.Keep {
	case "":
		f.all = f.csv
	case "all", "none":
		f.all = f.o.Keep == "all"
	default:
		for name := range strings.SplitSeq(f.o.Keep, ",") {
			f.keep = append(f.keep, strings.TrimSpace(name))
		}
	}
}

// Close closes the file. Standard input stays open.
func (f *File) Close() error {
	f.root.close()
	if f.file == nil || f.name == stdinName {
		return nil
	}
	return f.file.Close()
}

// Name is what messages call the input: the path as it was given, or "stdin".
func (f *File) Name() string { return f.name }

// Pipe tells whether the input can be read once only, so that there is no Check.
func (f *File) Pipe() bool { return f.pipe != nil }

// Blank is how many rows of a CSV file the last Check or Items passed over because all
// their cells are empty.
func (f *File) Blank() int64 { return f.blank.Load() }

// Stat describes the file behind the input, to compare it with the output. It
// is false where there is none.
func (f *File) Stat() (os.FileInfo, bool) {
	if f.file == nil {
		return nil, false
	}
	info, err := f.file.Stat()
	return info, err == nil
}

// CanReload tells whether Reload works: the input is a plain file. Where it is
// false, Forget must not be called.
func (f *File) CanReload() bool { return f.pipe == nil && f.kind == plain }

func (f *File) columns() []string {
	if h := f.header.Load(); h != nil {
		return *h
	}
	return nil
}

// packing is how a file is compressed.
type packing uint8

const (
	plain packing = iota
	gzipped
	zstandard
)

// packingOf tells the packing by the first bytes, which no JSON or CSV text has.
// A name that ends otherwise is an error, or a cut file would pass as text.
func packingOf(r io.ReaderAt, ext string) (packing, error) {
	head := make([]byte, 4)
	n, err := r.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return plain, err
	}
	kind := packed(head[:n])
	if ext == ".gz" && kind != gzipped || ext == ".zst" && kind != zstandard {
		return plain, fmt.Errorf("the name ends in %s, but the content is not compressed so", ext)
	}
	return kind, nil
}

func packed(head []byte) packing {
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return gzipped
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return zstandard
	}
	return plain
}

// archive is a compressed stream whose end before its time is an error.
type archive struct {
	r    io.Reader
	what string
}

func (a archive) Read(b []byte) (int, error) {
	n, err := a.r.Read(b)
	if err != nil && err != io.EOF {
		err = a.wrap(err)
	}
	return n, err
}

func (a archive) wrap(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF {
		return fmt.Errorf("the %s data is cut off: %w", a.what, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("the %s data is corrupt or unreadable: %w", a.what, err)
}

// unpack returns the decompressed stream, and a function that ends it.
func unpack(r io.Reader, kind packing) (io.Reader, func(), error) {
	switch kind {
	case gzipped:
		a := archive{what: "gzip"}
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, nil, a.wrap(err)
		}
		a.r = z
		return a, func() { z.Close() }, nil
	case zstandard:
		a := archive{what: "zstd"}
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, nil, a.wrap(err)
		}
		a.r = z
		return a, z.Close, nil
	}
	return r, func() {}, nil
}

// source opens the input at the place, which is the beginning but in a plain file of
// lines. The function ends it.
func (f *File) source(at place) (source, func(), error) {
	r, done, err := f.stream(at.off)
	if err != nil {
		return nil, nil, err
	}
	b := bufio.NewReaderSize(r, chunkSize)
	if at.off == 0 {
		if bad := f.notLines(b); bad != nil {
			done()
			return nil, nil, bad
		}
	}
	if f.csv {
		src, err := newCSVSource(f, b)
		return src, done, err
	}
	return &lineSource{r: b, max: int(min(f.o.MaxLine, math.MaxInt-1)), line: at.line, off: at.off, big: make(chan struct{}, 2)}, done, nil
}

func (f *File) stream(off int64) (io.Reader, func(), error) {
	if f.pipe == nil {
		return unpack(io.NewSectionReader(f.file, off, math.MaxInt64-off), f.kind)
	}
	if f.taken.Swap(true) {
		return nil, nil, errors.New("a pipe cannot be read twice")
	}
	b := bufio.NewReaderSize(f.pipe, chunkSize)
	head, err := b.Peek(4)
	if err != nil && err != io.EOF {
		return nil, nil, err
	}
	return unpack(b, packed(head))
}
