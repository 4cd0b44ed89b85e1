package input

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// Options say how a file is read. The zero value reads plain JSONL.
type Options struct {
	// Template is a text/template that makes a prompt of every JSON object or
	// CSV row; "" reads the four JSONL formats.
	Template string
	// TemplateName is what messages call it: "--template" or a file's name.
	TemplateName string
	// IDField is the member or column that holds the id, with Template only.
	// "" takes "id" or "custom_id" where there is one.
	IDField string
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
	o    Options
	file *os.File  // nil for a Stdin that is no *os.File
	pipe io.Reader // nil for a regular file
	kind packing
	csv  bool
	tmpl *renderer

	taken   atomic.Bool              // a pipe's Items were asked for
	checked atomic.Bool              // ids were found to be unique
	header  atomic.Pointer[[]string] // of a CSV file, once read
	ids     atomic.Pointer[registry] // of the Items begun last, for Reject
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
// template that cannot be parsed is an error here.
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
	ext := filepath.Ext(bare)
	if ext == ".gz" || ext == ".zst" {
		bare = strings.TrimSuffix(bare, ext)
	}
	isCSV := filepath.Ext(bare) == ".csv"
	if f.o.Template == "" {
		switch {
		case isCSV:
			return fmt.Errorf("%s: a CSV file needs a template, such as --template '{{.text}}'", f.name)
		case f.o.IDField != "":
			return errors.New("--id-field works with --template only")
		}
	} else {
		t, err := newRenderer(f.o)
		if err != nil {
			return err
		}
		f.tmpl, f.csv = t, isCSV
	}
	if f.pipe != nil {
		f.o.LetThrough = true
		return nil
	}
	var err error
	f.kind, err = packingOf(f.file, ext)
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return nil
}

// Close closes the file. Standard input stays open.
func (f *File) Close() error {
	if f.file == nil || f.name == stdinName {
		return nil
	}
	return f.file.Close()
}

// Name is what messages call the input: the path as it was given, or "stdin".
func (f *File) Name() string { return f.name }

// Pipe tells whether the input can be read once only, so that there is no Check.
func (f *File) Pipe() bool { return f.pipe != nil }

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
