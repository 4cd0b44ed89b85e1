package command_test

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// certificate writes one for this machine that vouches for itself, and its key.
func (p *fleetProof) certificate(name string) (cert, key string) {
	p.t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		p.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.write(name+".pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		p.write(name+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

func (p *fleetProof) write(name string, data []byte) (path string) {
	p.t.Helper()
	if err := os.WriteFile(p.path(name), data, 0o600); err != nil {
		p.t.Fatal(err)
	}
	return p.path(name)
}

// says runs a fleet command to its end: its exit code, and what it says.
func (p *fleetProof) says(args ...string) (int, string) {
	p.t.Helper()
	c := p.command(append([]string{"fleet"}, args...)...)
	defer time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() }).Stop()
	said, _ := c.CombinedOutput()
	return c.ProcessState.ExitCode(), string(said)
}

// Beyond loopback a server needs a token and TLS; with both, workers come in that
// have the token and trust the certificate, and no others.
func TestFleetBeyondLoopback(t *testing.T) {
	t.Parallel()
	p := newProof(t, 40, steady(time.Millisecond))
	cert, key := p.certificate("right")
	wrong, _ := p.certificate("wrong")
	const secret = "a-token-of-the-fleet"
	token, other := p.write("token", []byte(secret+"\n")), p.write("other", []byte("another-token-00000\n"))
	serve := []string{"serve", "--store", p.path("nats"), "--listen", "0.0.0.0:0"}
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{nil, "needs TLS"},
		{[]string{"--token-file", token}, "needs TLS"},
		{[]string{"--token-file", token, "--tls-cert", cert, "--tls-key", wrong}, "the certificate"},
	} {
		if code, said := p.says(append(serve, c.flags...)...); code != 2 || !strings.Contains(said, c.want) {
			t.Errorf("serve %v: exit %d, want 2 and %q in\n%s", c.flags, code, c.want, said)
		}
	}
	p.beyond = []string{"--token-file", token, "--tls-cert", cert, "--tls-key", key}
	p.serveNATS()
	for _, c := range []struct {
		nats, ca, token, want string
	}{
		{p.nats, wrong, token, "certificate"},
		{p.nats, "", token, "certificate"},
		{p.nats, cert, other, "uthorization"},
		{p.nats, cert, "", "uthorization"},
		// The server asks for TLS by itself, so that the token never leaves in the clear.
		{strings.Replace(p.nats, "tls://", "nats://", 1), "", token, "certificate"},
	} {
		args := []string{"worker", "--nats", c.nats, "--run", "proof"}
		if c.ca != "" {
			args = append(args, "--nats-ca", c.ca)
		}
		if c.token != "" {
			args = append(args, "--nats-token-file", c.token)
		}
		code, said := p.says(args...)
		if code != 2 || !strings.Contains(said, c.want) || strings.Contains(said, secret) {
			t.Errorf("worker %v: exit %d, want 2 and %q, without the token, in\n%s", args[1:], code, c.want, said)
		}
	}
	trust := []string{"--nats-ca", cert, "--nats-token-file", token}
	coordinator := p.coordinator(trust...)
	worker := p.worker("w0", trust...)
	if code := p.wait(coordinator, time.Minute); code != 0 {
		t.Errorf("exit %d, want 0\n%s", code, p.tail())
	}
	if code := p.wait(worker, time.Minute); code != 0 {
		t.Errorf("the worker's exit: got %d, want 0\n%s", code, p.tail())
	}
	if status, _ := p.rows("out.jsonl"); status["ok"] != 40 {
		t.Errorf("got %v, want 40 ok", status)
	}
}

// A worker whose clock differs from the server's by more than 2 s would send items
// too early or too late: it does not join.
func TestFleetClocks(t *testing.T) {
	t.Parallel()
	p := newProof(t, 1, steady(time.Millisecond))
	p.serveNATS()
	p.coordinator()
	// Between them stands somebody who sets the server's clock back by 100 years.
	past := p.between(func(line []byte) []byte {
		if stamp, ok := bytes.CutPrefix(line, []byte("Nats-Time-Stamp: 20")); ok {
			return append([]byte("Nats-Time-Stamp: 19"), stamp...)
		}
		return line
	})
	code, said := p.says(append([]string{"worker", "--nats", past, "--run", "proof"}, p.token()...)...)
	if code != 2 || !strings.Contains(said, "the clock here differs from the NATS server's by") || p.api.seen() != 0 {
		t.Errorf("exit %d after %d requests, want 2, none, and the difference in\n%s", code, p.api.seen(), said)
	}
	same := p.between(func(line []byte) []byte { return line })
	if code, said = p.says(append([]string{"worker", "--nats", same, "--run", "proof", "--allow-base-url", p.web.URL}, p.token()...)...); code != 0 || p.api.seen() != 1 {
		t.Errorf("with the right clock: exit %d after %d requests, want 0 after 1\n%s", code, p.api.seen(), said)
	}
}

// between listens before the NATS server, and changes the lines that it says.
func (p *fleetProof) between(change func([]byte) []byte) (nats string) {
	p.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { l.Close() })
	server := strings.TrimPrefix(p.nats, "nats://")
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go relay(client, server, change)
		}
	}()
	return "nats://" + l.Addr().String()
}

// relay joins a client and a server until either is gone. Every message of NATS
// ends with a line's end.
func relay(client net.Conn, server string, change func([]byte) []byte) {
	defer client.Close()
	up, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer up.Close()
	go func() {
		_, _ = io.Copy(up, client)
		up.Close()
	}()
	for r := bufio.NewReader(up); ; {
		line, err := r.ReadBytes('\n')
		if _, e := client.Write(change(line)); err != nil || e != nil {
			return
		}
	}
}
