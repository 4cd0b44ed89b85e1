package input

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"
	"unicode/utf8"

	"llmbatch/input/jsonl"
)

// FileRef is a file that a line names: an image, a PDF or text. It is read when it is
// sent; until then only what its content hashes to is known.
type FileRef struct {
	// Path is as the line has it, relative to Options.FilesRoot.
	Path string
	// MediaType is image/png, image/jpeg, image/gif, image/webp, application/pdf or
	// text/plain.
	MediaType string
	// Sum is the SHA-256 of the content, in hex, when the line was read.
	Sum string

	root *folder
	held []byte // the content, of one that another process read
}

// HeldFile is a file whose content another process has read, to be sent from here.
// sum is what the content hashed to when the line was read.
func HeldFile(path, mediaType, sum string, content []byte) FileRef {
	return FileRef{Path: path, MediaType: mediaType, Sum: sum, held: content}
}

// Name is the last element of the path.
func (r FileRef) Name() string { return path.Base(filepath.ToSlash(r.Path)) }

// Text reports whether the content is text, and not bytes for base64.
func (r FileRef) Text() bool { return r.MediaType == textPlain }

// Read returns the content. One that has changed since the line was read is an error: the
// row's request_hash would not be that of what was sent. It may be called concurrently.
func (r FileRef) Read() ([]byte, error) {
	b := r.held
	if r.root != nil {
		f, err := r.root.open(r.Path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if b, err = io.ReadAll(io.LimitReader(f, maxFile+1)); err != nil {
			return nil, fmt.Errorf("reading file %.80q: %w", r.Path, err)
		}
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != r.Sum {
		return nil, fmt.Errorf("file %.80q has changed since the run began", r.Path)
	}
	return b, nil
}

const (
	textPlain = "text/plain"
	maxFile   = 512 << 20 // more than any API takes
	mostFiles = 1000      // of a line
	mostSums  = 4096      // that are remembered
)

// folder is where the files of lines are; nothing outside of it can be opened, whatever
// links there are. It is opened when it is first needed.
type folder struct {
	path string

	mu   sync.Mutex
	root *os.Root
	sums map[string]summed
}

// summed is what a file was when it was hashed: lines often name the same one.
type summed struct {
	size int64
	at   time.Time
	ref  FileRef
}

func (d *folder) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.root != nil {
		d.root.Close()
	}
}

func (d *folder) open(name string) (*os.File, error) {
	d.mu.Lock()
	if d.root == nil {
		root, err := os.OpenRoot(d.path)
		if err != nil {
			d.mu.Unlock()
			return nil, fmt.Errorf("the folder of files: %w", err)
		}
		d.root = root
	}
	root := d.root
	d.mu.Unlock()
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		if inner, ok := errors.AsType[*os.PathError](err); ok {
			err = inner.Err
		}
		return nil, fmt.Errorf("file %.80q: %w (below %s)", name, err, d.path)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("file %.80q is no regular file", name)
	case info.Size() > maxFile:
		err = fmt.Errorf("file %.80q is larger than %d MiB", name, maxFile>>20)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ref looks at the file: its type and its content's hash.
func (d *folder) ref(name string) (FileRef, error) {
	f, err := d.open(name)
	if err != nil {
		return FileRef{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return FileRef{}, err
	}
	d.mu.Lock()
	known, ok := d.sums[name]
	d.mu.Unlock()
	if ok && known.size == info.Size() && known.at.Equal(info.ModTime()) {
		return known.ref, nil
	}
	h, head := sha256.New(), make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return FileRef{}, fmt.Errorf("reading file %.80q: %w", name, err)
	}
	text := &validText{}
	if _, err := io.Copy(io.MultiWriter(h, text), io.MultiReader(bytes.NewReader(head[:n]), f)); err != nil {
		return FileRef{}, fmt.Errorf("reading file %.80q: %w", name, err)
	}
	r := FileRef{Path: name, Sum: hex.EncodeToString(h.Sum(nil)), root: d, MediaType: mediaType(head[:n], text.valid())}
	if r.MediaType == "" {
		return r, fmt.Errorf("file %.80q is no PNG, JPEG, GIF or WebP image, no PDF and no UTF-8 text", name)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sums == nil || len(d.sums) >= mostSums {
		d.sums = map[string]summed{}
	}
	d.sums[name] = summed{info.Size(), info.ModTime(), r}
	return r, nil
}

// mediaType is what the content is, whatever its name says; "" for what no API takes.
func mediaType(head []byte, text bool) string {
	kind, _, _ := mime.ParseMediaType(http.DetectContentType(head))
	switch kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf":
		return kind
	}
	if text {
		return textPlain
	}
	return ""
}

// files reads the line's "files".
func (p *parser) files(it *Item) *LineError {
	v, bad := p.typed(kFiles, '[')
	if v == nil || bad != nil {
		return bad
	}
	m, _ := p.member(kFiles)
	for w := jsonl.Elements(v); w.Next(); {
		at := m.start + w.At
		if w.Value[0] != '"' {
			return badAt(at, `"files" holds %s, want paths`, jsonl.Kind(w.Value))
		}
		if len(it.Files) == mostFiles {
			return badAt(at, `"files" has more than %d paths`, mostFiles)
		}
		r, err := p.f.root.ref(jsonl.Text(w.Value))
		if err != nil {
			bad := badAt(at, "%v", err)
			bad.Hint = "paths are relative to the folder of the prompts file or --files-root, and stay inside it"
			return bad
		}
		it.Files = append(it.Files, r)
	}
	return nil
}

// validText tells whether what is written to it is UTF-8 without NUL bytes.
type validText struct {
	rest []byte // of a character that is not whole yet
	bad  bool
}

func (t *validText) Write(b []byte) (int, error) {
	if t.bad {
		return len(b), nil
	}
	all := append(t.rest, b...)
	whole := len(all)
	for k := 1; k <= 3 && k <= len(all); k++ { // a character may go on in the next piece
		if c := all[len(all)-k]; c >= 0xc0 {
			whole = len(all) - k
			break
		}
	}
	t.bad = !validUTF8(all[:whole])
	t.rest = bytes.Clone(all[whole:])
	return len(b), nil
}

func (t *validText) valid() bool { return !t.bad && validUTF8(t.rest) }

func validUTF8(b []byte) bool {
	return bytes.IndexByte(b, 0) < 0 && utf8.Valid(b)
}
