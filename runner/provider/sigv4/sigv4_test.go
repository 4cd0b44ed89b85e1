package sigv4

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func env(name string) string {
	return map[string]string{"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI", "AWS_SESSION_TOKEN": "tok"}[name]
}

func TestSign(t *testing.T) {
	now := func() time.Time { return time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC) }
	sign, err := New("bedrock", env, now)
	if err != nil {
		t.Fatal(err)
	}
	of := func(body string) string {
		r, _ := http.NewRequest("POST", "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1/chat/completions", strings.NewReader(body))
		if err := sign(r, []byte(body)); err != nil {
			t.Fatal(err)
		}
		if r.Header.Get("X-Amz-Date") != "20261201T030000Z" || r.Header.Get("X-Amz-Security-Token") != "tok" {
			t.Errorf("got %v", r.Header)
		}
		return r.Header.Get("Authorization")
	}
	got := of(`{"a":1}`)
	if !strings.HasPrefix(got, "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261201/us-east-1/bedrock/aws4_request, SignedHeaders=") || strings.Contains(got, "wJalr") {
		t.Errorf("got %s", got)
	}
	if of(`{"a":1}`) != got || of(`{"a":2}`) == got {
		t.Error("got a signature that does not depend on the body alone")
	}
}

func TestMissing(t *testing.T) {
	for _, name := range []string{"AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		_, err := New("bedrock", func(v string) string {
			if v == name {
				return ""
			}
			return env(v)
		}, time.Now)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: got %v", name, err)
		}
	}
}
