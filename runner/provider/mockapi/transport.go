package mockapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
)

// errHungUp is what a client sees where the server closes the connection without an answer.
var errHungUp = errors.New("mockapi: connection reset by peer")

// RoundTrip makes the Server an [http.RoundTripper], so that a client talks to it in process, without a port, also in virtual
// time. What is a closed connection over the network is an error here: of RoundTrip itself where no answer had begun, else
// io.ErrUnexpectedEOF of the body. The request is wholly read, and a httptrace's WroteRequest called, before it is answered.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	in := r.Clone(ctx)
	if in.Body == nil {
		in.Body = http.NoBody
	}
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	in.Body = &sent{ReadCloser: in.Body, trace: httptrace.ContextClientTrace(ctx)}
	body, out := io.Pipe()
	w := &answerWriter{h: http.Header{}, out: out, begun: make(chan struct{})}
	done := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { _ = out.CloseWithError(ctx.Err()) })
	go func() {
		defer stop()
		err := s.serve(w, in)
		_ = in.Body.Close()
		if err == nil {
			w.WriteHeader(http.StatusOK)
		}
		_ = out.CloseWithError(err) // nil is io.EOF
		done <- err
	}()
	select {
	case <-w.begun:
	case <-ctx.Done():
		return nil, ctx.Err()
	case err := <-done:
		if w.status == 0 {
			return nil, errors.Join(errHungUp, err)
		}
	}
	res := &http.Response{Status: strconv.Itoa(w.status) + " " + http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1",
		ProtoMajor: 1, ProtoMinor: 1, Header: w.header, Body: body, ContentLength: -1, Request: r}
	if n, err := strconv.ParseInt(w.header.Get("Content-Length"), 10, 64); err == nil {
		res.ContentLength = n
	}
	return res, nil
}

// serve is ServeHTTP that returns where the connection is closed.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler:
			err = io.ErrUnexpectedEOF
		default:
			panic(v)
		}
	}()
	s.ServeHTTP(w, r)
	return r.Context().Err()
}

// sent tells the trace when the body has been read.
type sent struct {
	io.ReadCloser
	trace *httptrace.ClientTrace
}

func (s *sent) Read(b []byte) (int, error) {
	n, err := s.ReadCloser.Read(b)
	if err != nil && s.trace != nil {
		if s.trace.WroteRequest != nil {
			s.trace.WroteRequest(httptrace.WroteRequestInfo{})
		}
		s.trace = nil
	}
	return n, err
}

// answerWriter is the server's side of an answer in process.
type answerWriter struct {
	h, header http.Header
	status    int
	out       *io.PipeWriter
	begun     chan struct{}
}

func (w *answerWriter) Header() http.Header { return w.h }

func (w *answerWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status, w.header = status, w.h.Clone()
		close(w.begun)
	}
}

func (w *answerWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.out.Write(b)
}

// Flush does nothing: what is written is there.
func (w *answerWriter) Flush() {}
