// Package sigv4 signs requests to AWS with keys from the environment, for Bedrock
// without a bearer key. It uses AWS's own signer and no other part of its SDK, which
// has retries and a transport of its own.
package sigv4

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Secrets are the variables whose values must not be shown.
func Secrets(getenv func(string) string) []string {
	return []string{getenv("AWS_SECRET_ACCESS_KEY"), getenv("AWS_SESSION_TOKEN")}
}

// New returns what signs a request for a service of AWS, just before it is sent: a
// signature is good for some minutes. It changes the request's headers, which must be its
// own. The error names the variable that is missing. Safe for concurrent use.
func New(service string, getenv func(string) string, now func() time.Time) (func(r *http.Request, body []byte) error, error) {
	region := cmp.Or(getenv("AWS_REGION"), getenv("AWS_DEFAULT_REGION"))
	keys := aws.Credentials{
		AccessKeyID: getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: getenv("AWS_SECRET_ACCESS_KEY"), SessionToken: getenv("AWS_SESSION_TOKEN"),
	}
	switch {
	case region == "":
		return nil, errors.New("signing for AWS needs the variable AWS_REGION")
	case keys.AccessKeyID == "" || keys.SecretAccessKey == "":
		return nil, errors.New("signing for AWS needs the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	signer := v4.NewSigner()
	return func(r *http.Request, body []byte) error {
		sum := sha256.Sum256(body)
		return signer.SignHTTP(context.Background(), keys, r, hex.EncodeToString(sum[:]), service, region, now())
	}, nil
}
