package command

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/runner"
	"llmbatch/runner/provider"
)

// session is one run, from its files to its exit code.
type session struct {
	e *env
	o *options

	prompts, out string // out "-" is standard output
	shard        shard
	ids          map[string]bool // nil: all

	in     *input.File
	file   *output.File   // nil for standard output
	stream *output.Stream // nil for a file
	mock   *mockServer    // nil but for --provider mock
	router *router
	found  found
	fault  firstFault // of the settings, seen at a line
	fills  fills      // what the flags gave to lines
	dry    bool       // nothing will be sent: no key is needed
	// elsewhere, if not nil, has the run's requests made by other processes.
	elsewhere func(*runner.Config)
}

// newSession opens the input and finds out where everything goes. Nothing is
// created or changed.
func newSession(e *env, o *options, prompts string) (*session, error) {
	s := &session{e: e, o: o, prompts: prompts}
	var err error
	if s.shard, err = parseShard(o.shard, e.getenv); err != nil {
		return nil, err
	}
	if s.ids, err = readIDs(o.onlyIDs); err != nil {
		return nil, err
	}
	if s.out, err = outputName(o, prompts, s.shard); err != nil {
		return nil, err
	}
	if err := s.openInput(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *session) openInput() error {
	io := input.Options{
		Template: s.o.template, TemplateName: "--template", IDField: s.o.idField, System: s.o.system, Params: s.o.params,
		Keep: s.o.keep, Delimiter: s.o.delimiter, FilesRoot: s.o.filesRoot,
		LetThrough: s.o.skipInvalid, Stdin: s.e.stdin,
	}
	if s.o.templateFile != "" {
		text, err := os.ReadFile(s.o.templateFile)
		if err != nil {
			return usagef("--template-file: %w", err)
		}
		io.Template, io.TemplateName = string(text), s.o.templateFile
	}
	var err error
	if s.in, err = input.Open(s.prompts, io); err != nil {
		f := usagef("%w", err)
		if errors.Is(err, fs.ErrNotExist) {
			f.hint("the file is looked for in the folder that you are in")
		}
		return f
	}
	return nil
}

// route starts the mock, if asked for, and finds keys and addresses.
func (s *session) route() error {
	if s.o.provider == mockName {
		var err error
		if s.mock, err = startMock(s.o, s.dry); err != nil {
			return err
		}
	}
	var err error
	if s.router, err = newRouter(s.o, s.e, s.mock.url()); err != nil {
		return err
	}
	s.router.pipe = s.in.Pipe()
	return nil
}

// openOutput opens the results: a file is locked, repaired and indexed.
func (s *session) openOutput() error {
	if s.out == "-" {
		s.stream = output.NewStream(s.e.stdout)
		return nil
	}
	var err error
	if s.file, err = output.Open(s.out, output.Options{Fresh: s.o.fresh, Elsewhere: s.foldersElsewhere()}); err != nil {
		return outputError(err)
	}
	return nil
}

// foldersElsewhere are where rows go that can't be kept beside the results.
func (s *session) foldersElsewhere() []string {
	if s.in.Pipe() {
		return nil
	}
	return []string{filepath.Dir(s.prompts)}
}

// outputError says what to do about a results file that can't be opened.
func outputError(err error) error {
	f := usagef("%w", err)
	if _, ok := errors.AsType[*output.LockedError](err); ok {
		return f.hint("wait until it ends, or choose another file with -o FILE")
	}
	if _, ok := errors.AsType[*output.BrokenRowError](err); ok {
		return f.hint("mend or remove that line, or start over with --fresh (the file is then moved to ….bak)")
	}
	if _, ok := errors.AsType[*output.ForeignError](err); ok {
		return f.hint("choose another file with -o FILE")
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return f.hint("choose another place with -o FILE")
	}
	return f
}

// prepare does all that comes before the first request. A results file that
// exists is opened before the input is checked, so that the check can compare; a
// new one is made only after it, so that a refused input leaves nothing behind.
func (s *session) prepare(ctx context.Context) error {
	if err := s.route(); err != nil {
		return err
	}
	if s.continues() {
		if err := s.openOutput(); err != nil {
			return err
		}
	}
	if s.in.Pipe() {
		if err := s.router.requireAnyKey(); err != nil {
			return err
		}
	} else if err := s.check(ctx); err != nil {
		return err
	}
	if s.file == nil {
		return s.openOutput()
	}
	return nil
}

// continues says whether there are results to continue from.
func (s *session) continues() bool {
	if s.out == "-" || s.o.fresh {
		return false
	}
	_, err := os.Stat(s.out)
	return err == nil
}

// release closes what an early end leaves open.
func (s *session) release() {
	if s.in != nil {
		s.in.Close()
	}
	s.mock.close()
}

// leaveOutput gives the results file back as it is.
func (s *session) leaveOutput() {
	if s.file != nil {
		// Nothing was written: an error has nothing to tell.
		_ = s.file.Close(output.CloseOptions{})
	}
}

// wants says whether an item is one of the shard and of --only-ids.
func (s *session) wants(it *input.Item) bool {
	return s.shard.has(it.Index) && (s.ids == nil || s.ids[it.Key])
}

// items are those of the input that the run is about.
func (s *session) items() iter.Seq2[*input.Item, error] {
	return func(yield func(*input.Item, error) bool) {
		for it, err := range s.in.Items() {
			if err == nil && !s.wants(it) {
				continue
			}
			if !yield(it, err) {
				return
			}
		}
	}
}

// old is the row that an earlier run left for an item.
func (s *session) old(key string) (output.Row, bool) {
	if s.file == nil {
		return output.Row{}, false
	}
	return s.file.Index().Lookup(key)
}

// hash is what an item would be sent as. An error is about the line; what is
// wrong with the settings is kept for check.
func (s *session) hash(it *input.Item) (uint64, error) {
	t, err := s.router.route(it)
	if f, ok := errors.AsType[*failure](err); ok {
		s.fault.note(it.Line, f)
		return 0, errors.New(f.msg)
	}
	if err != nil {
		return 0, err
	}
	call, err := t.Provider.Encode(it, t.Defaults)
	if err != nil {
		return 0, err
	}
	s.fills.note(call, s.wants(it))
	if !s.o.dedupe && (s.file == nil || s.file.Index().Len() == 0) {
		return 0, nil // nothing to compare it with
	}
	return provider.HashSum(call), nil
}

// firstFault keeps the fault of the first line that has one. Safe for concurrent
// use.
type firstFault struct {
	mu   sync.Mutex
	line int
	err  *failure
}

func (f *firstFault) note(line int, err *failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil || line < f.line {
		f.line, f.err = line, err
	}
}

// first is the fault, nil if there was none. It is called when no more can come.
func (f *firstFault) first() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		return nil
	}
	return f.err
}

// distinct refuses to write over the input or the results what goes elsewhere,
// under whatever names.
func (s *session) distinct() error {
	if s.prompts == "-" && sameAs(s.e.stdin, s.out) {
		return usagef("standard input and the output are the same file, %s: the input would be written to", s.out).
			hint("choose another name with -o FILE")
	}
	if s.out == "-" && sameAs(s.e.stdout, s.prompts) {
		return usagef("standard output is the input, %s", s.prompts).hint("send it to another file")
	}
	for _, to := range []struct{ flag, name string }{{"--summary", s.o.summary}, {"--metrics-textfile", s.o.metricsTextfile}} {
		if samePlace(to.name, s.prompts) {
			return usagef("%s %s is the input", to.flag, to.name).hint("choose another name")
		}
		if samePlace(to.name, s.out) {
			return usagef("%s %s is the file of the results", to.flag, to.name).hint("choose another name")
		}
		if err := canWrite(to.name); err != nil { // better now than after the night
			return usagef("%s: %w", to.flag, err).hint("make the folder or choose another name")
		}
	}
	return nil
}

// canWrite tries whether a file of that name could be written whole.
func canWrite(name string) error {
	if info, err := os.Stat(name); name == "" || name == "-" || err == nil && !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// sameAs says whether a standard stream is the file with this name.
func sameAs(stream any, name string) bool {
	f, ok := stream.(*os.File)
	if !ok || name == "-" {
		return false
	}
	a, errA := f.Stat()
	b, errB := os.Stat(name)
	return errA == nil && errB == nil && a.Mode().IsRegular() && os.SameFile(a, b)
}

// samePlace says whether two names are one file, also where there is none yet.
func samePlace(a, b string) bool {
	if a == "" || a == "-" || b == "-" {
		return false
	}
	absA, errA := filepath.Abs(a)
	absB, errB := filepath.Abs(b)
	return errA == nil && errB == nil && absA == absB || output.SameFile(a, b)
}

// orphans counts the rows of earlier runs, and those of them that are of no item
// of the input; 0 where only a part of the input is looked at.
func (s *session) orphans() (of, n int) {
	if s.file == nil || s.in.Pipe() || s.shard.n > 1 || s.ids != nil {
		return 0, 0
	}
	n = s.file.Index().Len()
	of = n
	for _, known := range s.found.old {
		n -= known
	}
	return of, n
}
