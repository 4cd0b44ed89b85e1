//go:build noserver

package fleet

import (
	"errors"
	"time"
)

// ServeOptions of an embedded nats-server, which this program was built without.
type ServeOptions struct {
	Store, Listen, Token, Cert, Key string
	Sync                            time.Duration
	SyncAlways, Insecure, Verbose   bool
	MaxMessage                      int
	Trouble                         func(message string)
}

// Server is an embedded nats-server.
type Server struct{}

// Serve fails: the program was built with the tag noserver.
func Serve(ServeOptions) (*Server, error) {
	return nil, errors.New("this llmbatch was built without the NATS server (tag noserver): name one with --nats URL")
}

// URL is "".
func (s *Server) URL() string { return "" }

// Addr is "".
func (s *Server) Addr() string { return "" }

// Stop does nothing.
func (s *Server) Stop() {}
