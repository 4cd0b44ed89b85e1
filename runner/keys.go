package runner

import (
	"context"
	"sync"
	"time"

	"llmbatch/runner/provider"
)

// KeySource is a key that renews itself: made before the first request, again when
// it is older than TTL, and once after it was refused. One request for a key is made
// at a time; others wait for it. Its methods may be called by many goroutines.
type KeySource struct {
	// Make returns a new key. An error ends the run.
	Make func(ctx context.Context) (string, error)
	// TTL is how long a key is used; 0: until it is refused.
	TTL time.Duration

	making sync.Mutex // held while a key is being made

	mu       sync.Mutex
	key      string
	made     time.Time // zero: there is none that may be used
	turn     int       // how many keys there were
	unproven bool      // the key replaced a refused one, and nothing was answered since
}

// current returns the key that holds now, and its turn.
func (k *KeySource) current(ctx context.Context) (key string, turn int, err error) {
	if key, turn, ok := k.good(); ok {
		return key, turn, nil
	}
	k.making.Lock()
	defer k.making.Unlock()
	if key, turn, ok := k.good(); ok { // made meanwhile
		return key, turn, nil
	}
	if key, err = k.Make(ctx); err != nil {
		return "", 0, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.key, k.made = key, time.Now()
	k.turn++
	return key, k.turn, nil
}

func (k *KeySource) good() (key string, turn int, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.TTL > 0 && time.Since(k.made) >= k.TTL
	return k.key, k.turn, !k.made.IsZero() && !old
}

// refuse takes word that the key of a turn was refused, and says whether another may
// be tried: not where the one that replaced a refused key is refused as well.
func (k *KeySource) refuse(turn int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case turn < k.turn || k.made.IsZero(): // a later key is there, or is being made
		return true
	case k.unproven:
		return false
	}
	k.made, k.unproven = time.Time{}, true
	return true
}

// prove takes word that the key of a turn was accepted.
func (k *KeySource) prove(turn int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if turn == k.turn && !k.made.IsZero() {
		k.unproven = false
	}
}

// signed gives the item's next request the key that holds now.
func (i *item) signed(ctx context.Context) *provider.Error {
	keys := i.lane.target.Keys
	if keys == nil {
		return nil
	}
	key, turn, err := keys.current(ctx)
	switch {
	case ctx.Err() != nil:
		return provider.FromTransport(context.Cause(ctx))
	case err != nil:
		return &provider.Error{Class: provider.AuthError, Scope: provider.WholeRun, Message: err.Error(), Advice: "mend the command of --api-key-command, then run the same command again to continue"}
	}
	if turn != i.turn {
		i.r.c.Scrub.Add(key)
		c := i.lane.target.Credentials
		c.Key = key
		i.turn, i.header = turn, headerOf(i.lane.target, c, i.r.c.UserAgent)
	}
	return nil
}

// rekeyed says that an answer refused a key of which another can be made. The attempt
// is not charged to the item, which goes again at once.
func (i *item) rekeyed(x *exchange) bool {
	keys := i.lane.target.Keys
	if keys == nil || x.status == 0 {
		return false
	}
	if x.err == nil || x.err.Class != provider.AuthError || x.err.Scope != provider.WholeRun {
		keys.prove(i.turn)
		return false
	}
	return keys.refuse(i.turn)
}
