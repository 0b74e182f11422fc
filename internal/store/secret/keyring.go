package secret

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"time"
	"unicode/utf16"

	lib "github.com/zalando/go-keyring"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// lookupTimeout limits the wait for the keyring. A locked keyring shows a password
// dialog on the screen, which may stay unanswered.
const lookupTimeout = 20 * time.Second

// keyring looks up secrets in the operating system's keyring. A lookup cannot be
// cancelled; so there is at most one per secret, shared by all callers, and no second
// dialog appears while the first one is open.
type keyring struct {
	mu      sync.Mutex
	lookups map[string]*lookup
}

// lookup is one pending request to the keyring.
type lookup struct {
	done  chan struct{}
	value string
	err   error
}

// get returns the secret of SERVICE/ACCOUNT. The last slash separates them, since
// service names are often URLs.
func (k *keyring) get(ctx context.Context, at string) (string, error) {
	i := strings.LastIndexByte(at, '/')
	if i <= 0 || i == len(at)-1 {
		return "", fault.New(fault.Invalid, "the reference ${keyring:%s} has no service or no account", at).
			WithHint("use ${keyring:SERVICE/ACCOUNT}")
	}
	l := k.start(at[:i], at[i+1:])
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	select {
	case <-l.done:
		return l.value, explain(l.err, at)
	case <-ctx.Done():
		return "", fault.Wrap(fault.Unavailable, context.Cause(ctx),
			"the keyring did not answer the lookup of %s; it may be locked and waiting for its password", at).
			WithHint("unlock the keyring and try again")
	}
}

// start returns the pending lookup of a secret, and starts one if there is none.
func (k *keyring) start(service, account string) *lookup {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := service + "/" + account
	if l := k.lookups[key]; l != nil {
		return l
	}
	l := &lookup{done: make(chan struct{})}
	if k.lookups == nil {
		k.lookups = map[string]*lookup{}
	}
	k.lookups[key] = l
	go func() { // ends when the keyring answers; the library cannot cancel a request
		defer close(l.done)
		if l.err = checkAvailable(); l.err == nil {
			l.value, l.err = lib.Get(service, account)
			l.value = decodeUTF16(l.value)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.lookups, key)
	}()
	return l
}

// decodeUTF16 decodes a value in UTF-16, as Windows programs store passwords, and
// returns others unchanged. Text in UTF-16 that is allowed in a header or a variable
// contains zero bytes.
func decodeUTF16(value string) string {
	if len(value)%2 != 0 || !strings.ContainsRune(value, 0) {
		return value
	}
	units := make([]uint16, len(value)/2)
	for i := range units {
		units[i] = binary.LittleEndian.Uint16([]byte(value[2*i:]))
	}
	return string(utf16.Decode(units))
}

// errNoKeyring means that this system has no keyring.
var errNoKeyring = errors.New("no keyring")

// explain converts an error of the lookup of at to a fault.
func explain(err error, at string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, lib.ErrNotFound):
		return fault.Wrap(fault.Invalid, err, "the keyring contains no secret %s", at).WithHint("%s", storeHint(at))
	case errors.Is(err, errNoKeyring) || errors.Is(err, lib.ErrUnsupportedPlatform):
		return fault.Wrap(fault.Unavailable, err, "the secret %s cannot be looked up: this system has no keyring", at).
			WithHint(noKeyringHint)
	}
	return fault.Wrap(fault.Unavailable, err, "the keyring refused the lookup of %s", at).
		WithHint("it may be locked or not set up yet: unlock it and try again")
}
