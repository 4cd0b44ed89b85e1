//go:build !noserver

package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// ServeOptions of an embedded nats-server.
type ServeOptions struct {
	// Store is the folder of the streams. It is made with mode 0700.
	Store string
	// Listen is host:port; "" means 127.0.0.1 and any free port.
	Listen string
	// Sync is when what was stored is flushed to the disk; 0 means 2 m. Always:
	// before each acknowledgement.
	Sync       time.Duration
	SyncAlways bool
	// MaxMessage is the longest message in bytes; 0 means 8 MiB.
	MaxMessage int
	// Token is asked of clients; "": none is.
	Token string
	// Cert and Key are files for TLS, "" for none.
	Cert, Key string
	// Insecure lets it listen beyond loopback without a token or without TLS.
	Insecure bool
	// Verbose lets the server log to standard error.
	Verbose bool
	// Trouble, if not nil, is told when the server stores nothing any more, and when
	// it does again.
	Trouble func(message string)
}

const defaultMessage = 8 << 20

// Server is an embedded nats-server. When its disk is full the storing stops, and
// it is started anew, each second until it works.
type Server struct {
	o    ServeOptions
	stop context.CancelFunc
	done sync.WaitGroup

	mu sync.Mutex
	s  *server.Server
}

// Serve starts a server and returns when it is ready.
func Serve(o ServeOptions) (*Server, error) {
	s, err := serveOnce(o)
	if err != nil {
		return nil, err
	}
	o.Listen = s.Addr().String() // where it stays
	ctx, stop := context.WithCancel(context.Background())
	r := &Server{o: o, s: s, stop: stop}
	r.done.Go(func() { r.mend(ctx) })
	return r, nil
}

func serveOnce(o ServeOptions) (*server.Server, error) {
	opts, err := o.server()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Store, 0o700); err != nil {
		return nil, err
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return nil, err
	}
	if o.Verbose {
		s.ConfigureLogger()
	}
	s.Start()
	if !s.ReadyForConnections(30 * time.Second) {
		s.Shutdown()
		return nil, errors.New("the NATS server did not become ready")
	}
	if !s.JetStreamEnabled() {
		s.Shutdown()
		return nil, fmt.Errorf("JetStream could not start with its store in %s", o.Store)
	}
	return s, nil
}

// mend starts the server anew when it has ceased to store, until ctx ends.
func (s *Server) mend(ctx context.Context) {
	broken := time.Time{}
	for sleep(ctx, time.Second) == nil {
		now := s.current()
		if stores(now) {
			if !broken.IsZero() && time.Since(broken) > 5*time.Second {
				broken = time.Time{}
				s.say("NATS stores again")
			}
			continue
		}
		if broken.IsZero() {
			s.say("NATS stores nothing any more: is the disk of " + s.o.Store + " full? It goes on when there is room")
		}
		broken = time.Now()
		now.Shutdown()
		now.WaitForShutdown()
		next, err := serveOnce(s.o)
		if err != nil {
			continue
		}
		s.mu.Lock()
		s.s = next
		s.mu.Unlock()
	}
}

// stores says that the server stores what it is sent. After one write error a
// stream stores nothing more.
func stores(s *server.Server) bool {
	if !s.Running() || !s.JetStreamEnabled() {
		return false
	}
	h := s.Healthz(nil)
	return !strings.Contains(h.Error, "write error")
}

func (s *Server) say(message string) {
	if s.o.Trouble != nil {
		s.o.Trouble(message)
	}
}

func (s *Server) current() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.s
}

func (o ServeOptions) server() (*server.Options, error) {
	listen := o.Listen
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	host, portText, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, fmt.Errorf("the address %q: %w", listen, err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, fmt.Errorf("the address %q: the port is not a number", listen)
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	if err := o.allowed(host); err != nil {
		return nil, err
	}
	most := o.MaxMessage
	if most == 0 {
		most = defaultMessage
	}
	opts := &server.Options{
		ServerName: "llmbatch", Host: host, Port: port, NoSigs: true, NoLog: !o.Verbose,
		JetStream: true, StoreDir: o.Store, DisableJetStreamBanner: true,
		JetStreamMaxStore: 1 << 50, // else what is free when it starts: nothing, on a full disk
		MaxPayload:        int32(most), MaxPending: int64(max(64<<20, 4*most)),
		SyncInterval: o.Sync, SyncAlways: o.SyncAlways, Authorization: o.Token,
	}
	if o.Cert != "" {
		cert, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, fmt.Errorf("the certificate: %w", err)
		}
		opts.TLS, opts.TLSTimeout = true, 5
		opts.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	}
	return opts, nil
}

// allowed refuses an address that others can reach without a token and TLS.
func (o ServeOptions) allowed(host string) error {
	if o.Insecure || loopback(host) {
		return nil
	}
	switch {
	case o.Token == "":
		return fmt.Errorf("listening on %q, beyond this machine, needs a token", host)
	case o.Cert == "" || o.Key == "":
		return fmt.Errorf("listening on %q, beyond this machine, needs TLS", host)
	}
	return nil
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// URL is where clients reach the server, with the token in it, if it asks for one.
func (s *Server) URL() string {
	scheme, user := "nats://", ""
	if s.o.Cert != "" {
		scheme = "tls://"
	}
	if s.o.Token != "" {
		user = s.o.Token + "@"
	}
	return scheme + user + s.Addr()
}

// Addr is the address that it listens on.
func (s *Server) Addr() string { return s.o.Listen }

// Stop ends the server; what it stored stays.
func (s *Server) Stop() {
	s.stop()
	s.done.Wait()
	s.current().Shutdown()
	s.current().WaitForShutdown()
}
