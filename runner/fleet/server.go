//go:build !noserver

package fleet

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
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
}

const defaultMessage = 8 << 20

// Server is an embedded nats-server.
type Server struct {
	s     *server.Server
	token string
	tls   bool
}

// Serve starts a server and returns when it is ready.
func Serve(o ServeOptions) (*Server, error) {
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
	return &Server{s: s, token: o.Token, tls: o.Cert != ""}, nil
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
		MaxPayload: int32(most), MaxPending: int64(max(64<<20, 4*most)),
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
	if s.tls {
		scheme = "tls://"
	}
	if s.token != "" {
		user = s.token + "@"
	}
	return scheme + user + s.Addr()
}

// Addr is the address that it listens on.
func (s *Server) Addr() string { return s.s.Addr().String() }

// Stop ends the server; what it stored stays.
func (s *Server) Stop() {
	s.s.Shutdown()
	s.s.WaitForShutdown()
}
