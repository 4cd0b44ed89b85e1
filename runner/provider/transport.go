package provider

import "errors"

// The runner cancels an attempt with one of these as the cause, so that
// FromTransport can tell a timeout of ours from a broken connection.
var (
	// ErrAttemptTimeout: the attempt took longer than --attempt-timeout.
	ErrAttemptTimeout = errors.New("no answer within the attempt's time")
	// ErrIdleTimeout: a stream was silent for longer than --idle-timeout.
	ErrIdleTimeout = errors.New("the stream was silent for too long")
)

// FromTransport says what an attempt without a whole answer means: err is what
// the transport or the reading of the body returned, never nil.
func FromTransport(err error) *Error {
	e := &Error{Class: ConnectionError, Message: err.Error()}
	switch {
	case errors.Is(err, ErrAttemptTimeout), errors.Is(err, ErrIdleTimeout):
		e.Class = Timeout
	}
	return e
}
