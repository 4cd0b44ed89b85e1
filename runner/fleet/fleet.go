// Package fleet runs one input on many machines over NATS JetStream: a source
// and a sink for the same runner.
//
// NATS is transport, lease and shared flow control, never the system of record.
// The input file says what must be done and the results file what is done;
// whatever the queue loses is fed again. One coordinator feeds, controls and
// collects; workers fetch as many items as they have free slots, make the calls
// with their own keys, and publish rows.
//
//   - The fleet's limit is the work consumer's MaxAckPending, live. Its rules are
//     pacing's, fed with what the workers see.
//   - A wait of 2 s or more is a scheduled message, so that it holds no slot. A
//     negative acknowledgement with a delay would hold one, and come early after
//     a restart of the server.
//   - A cooldown that an API asks for pauses the consumer. Whoever saw it does
//     that, so it needs no leader.
//   - Done is an item that has its row on the disk: rows are flushed, then
//     counted, then acknowledged. An empty queue proves nothing.
//   - Subjects hold line numbers, never ids. Keys of APIs never pass through NATS.
//
// Limits: one item is one message, at most the server's max_payload (8 MiB here,
// 1 MiB by default elsewhere); nats-server 2.12 or newer; a regular input file.
package fleet

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Options say how to reach a run.
type Options struct {
	// URL of the server, such as nats://127.0.0.1:4222; several with commas.
	URL string
	// Creds is a credentials file, "" for none; Token a token, CA a file with the
	// certificates to trust.
	Creds, Token, CA string
	// Run names the run: letters, digits, - and _, at most 64.
	Run string
	// Wait is how long to try to connect; 0 means 10 s.
	Wait time.Duration
	// Replicas is how many servers of a cluster keep what a coordinator makes; 0
	// means 1.
	Replicas int
	// Server, if not nil, is reached in process; URL is then not used.
	Server *Server
}

// Conn is a connection to the server of one run. Its methods may be called by
// many goroutines.
type Conn struct {
	run      string
	replicas int
	nc       *nats.Conn
	js       jetstream.JetStream
}

// isRunName says whether a run may be called name: it becomes a part of subjects,
// streams and files.
func isRunName(name string) bool {
	return name != "" && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}

// leastLevel is the JetStream API level of nats-server 2.12, the first that can
// schedule messages.
const leastLevel = 2

// Connect reaches the server and checks that it can do what a fleet needs.
func Connect(ctx context.Context, o Options) (*Conn, error) {
	if !isRunName(o.Run) {
		return nil, fmt.Errorf("the run's name %q: want letters, digits, - and _, at most 64", o.Run)
	}
	opts := []nats.Option{
		nats.Name("llmbatch " + o.Run), nats.MaxReconnects(-1), nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, time.Second), nats.Timeout(5 * time.Second),
		nats.PingInterval(5 * time.Second), nats.IgnoreAuthErrorAbort(),
	}
	if o.Creds != "" {
		opts = append(opts, nats.UserCredentials(o.Creds))
	}
	if o.Token != "" {
		opts = append(opts, nats.Token(o.Token))
	}
	if o.CA != "" {
		opts = append(opts, nats.RootCAs(o.CA))
	}
	url := o.URL
	if o.Server != nil {
		url = o.Server.URL()
	}
	nc, err := dial(ctx, url, o.Wait, opts)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4096))
	if err != nil {
		nc.Close()
		return nil, err
	}
	c := &Conn{run: o.Run, replicas: max(o.Replicas, 1), nc: nc, js: js}
	if err := c.checkServer(ctx); err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

// dial tries until wait is over: a server may still be starting. One that
// refuses us, or is not who it should be, stays so.
func dial(ctx context.Context, url string, wait time.Duration, opts []nats.Option) (*nats.Conn, error) {
	if wait == 0 {
		wait = 10 * time.Second
	}
	end := time.Now().Add(wait)
	for {
		nc, err := nats.Connect(url, opts...)
		if err == nil {
			return nc, nil
		}
		_, stranger := errors.AsType[*tls.CertificateVerificationError](err)
		if time.Now().After(end) || stranger || errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrSecureConnRequired) {
			return nil, fmt.Errorf("NATS at %s: %w", hideUser(url), err)
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// hideUser leaves out what stands before the @ of each URL.
func hideUser(urls string) string {
	list := strings.Split(urls, ",")
	for i, u := range list {
		scheme, rest, ok := strings.Cut(u, "://")
		if !ok {
			scheme, rest = "nats", u
		}
		list[i] = scheme + "://" + rest[strings.LastIndexByte(rest, '@')+1:]
	}
	return strings.Join(list, ",")
}

// checkServer refuses servers without JetStream or older than 2.12. A cluster that
// has just begun may not answer at first.
func (c *Conn) checkServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var msg *nats.Msg
	var err error
	for {
		try, stop := context.WithTimeout(ctx, oneTry)
		msg, err = c.nc.RequestWithContext(try, "$JS.API.INFO", nil)
		stop()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			break
		}
	}
	if errors.Is(err, nats.ErrNoResponders) {
		return errors.New("the NATS server has no JetStream: start it with -js, or use llmbatch fleet serve")
	}
	if err != nil {
		return fmt.Errorf("asking the NATS server about JetStream: %w", err)
	}
	var info struct {
		API   struct{ Level int }
		Error *jetstream.APIError
	}
	if err := json.Unmarshal(msg.Data, &info); err != nil {
		return err
	}
	if info.Error != nil {
		return fmt.Errorf("JetStream: %w", info.Error)
	}
	if info.API.Level < leastLevel {
		return fmt.Errorf("the NATS server is %s; a fleet needs 2.12 or newer, which can schedule messages", c.nc.ConnectedServerVersion())
	}
	return nil
}

// Close ends the connection; what was published is sent first.
func (c *Conn) Close() {
	_ = c.nc.FlushTimeout(time.Second)
	c.nc.Close()
}

// The names of a run's objects.
func (c *Conn) workStream() string         { return "LLMB_" + c.run + "_WORK" }
func (c *Conn) resStream() string          { return "LLMB_" + c.run + "_RES" }
func (c *Conn) bucket() string             { return "LLMB_" + c.run }
func (c *Conn) leadBucket() string         { return "LLMB_" + c.run + "_LEAD" }
func (c *Conn) subject(rest string) string { return "llmb." + c.run + "." + rest }

func (c *Conn) workSubject(lane string, line int) string {
	return c.subject(fmt.Sprintf("work.%s.%d", lane, line))
}

func (c *Conn) waitSubject(lane string, line int) string {
	return c.subject(fmt.Sprintf("wait.%s.%d", lane, line))
}

// resSubject is one of a few subjects: the server keeps an entry for each that has a
// message, and a subject a line would make it slower with the run's age.
func (c *Conn) resSubject(line int) string { return c.subject(fmt.Sprintf("res.%d", line%64)) }

func consumerOf(lane string) string { return "work-" + lane }

// laneOf names the lane of a provider and a model: what shares a limit.
func laneOf(provider, model string) string {
	h := fnv.New32a()
	fmt.Fprintf(h, "%d:%s%s", len(provider), provider, model)
	return fmt.Sprintf("%08x", h.Sum32())
}

// sleep waits for d, or returns ctx's cause.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
