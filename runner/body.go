package runner

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"llmbatch/runner/provider"
)

// decoded is the response's body without its content coding. None is asked for,
// but some gateways compress all the same.
func decoded(resp *http.Response) (io.Reader, error) {
	switch c := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))); c {
	case "", "identity":
		return resp.Body, nil
	case "gzip", "x-gzip":
		return gzip.NewReader(resp.Body)
	default:
		return nil, codingError(c)
	}
}

// codingError is a content coding that nobody asked for.
type codingError string

func (e codingError) Error() string {
	return fmt.Sprintf("the answer has a content coding that was not asked for: %q", string(e))
}

// mostAhead is the most memory that is set aside for a body before it comes: a
// length that is claimed costs nothing.
const mostAhead = 1 << 20

// readAll reads at most most bytes; size is a hint, negative if unknown. Of an
// answer that is too large it returns the beginning and ErrBodyTooLarge.
func readAll(r io.Reader, size, most int64) ([]byte, error) {
	if size < 0 {
		size = 4096
	}
	buf := make([]byte, 0, min(size, most, mostAhead)+1) // one more, so that the end is seen without growing
	for {
		n, err := r.Read(buf[len(buf):min(cap(buf), int(most)+1)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > most:
			return buf[:most], provider.ErrBodyTooLarge
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return buf, err
		}
		if len(buf) == cap(buf) { // append alone would copy large ones many times
			buf = slices.Grow(buf, int(min(int64(max(len(buf), 512)), most+1-int64(len(buf)))))
		}
	}
}
