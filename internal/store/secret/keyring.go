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

// patience is how long an answer of the keyring is waited for. A locked keyring
// asks the person at the screen, who may not be there.
const patience = 20 * time.Second

// keyring is the keyring of the operating system. A question to it cannot be
// taken back; so there is at most one for each secret, for all who wait, and a
// person is not asked again while the first dialog is open.
type keyring struct {
	mu     sync.Mutex
	asking map[string]*question
}

// question is one question to the keyring.
type question struct {
	done  chan struct{}
	value string
	err   error
}

// get returns the secret of SERVICE/ACCOUNT. The last slash divides them, since
// services are often addresses.
func (k *keyring) get(ctx context.Context, at string) (string, error) {
	i := strings.LastIndexByte(at, '/')
	if i <= 0 || i == len(at)-1 {
		return "", fault.New(fault.Invalid, "the reference ${keyring:%s} names no secret", at).
			WithHint("write ${keyring:SERVICE/ACCOUNT}")
	}
	q := k.ask(at[:i], at[i+1:])
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-q.done:
		return q.value, wording(q.err, at)
	case <-ctx.Done():
		return "", fault.Wrap(fault.Unavailable, context.Cause(ctx), "the keyring gave no answer about %s; it may be locked and wait for its password", at).
			WithHint("unlock the keyring and try again")
	}
}

func (k *keyring) ask(service, account string) *question {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := service + "/" + account
	if q := k.asking[key]; q != nil {
		return q
	}
	q := &question{done: make(chan struct{})}
	if k.asking == nil {
		k.asking = map[string]*question{}
	}
	k.asking[key] = q
	go func() { // ends when the keyring answers; nobody can end it earlier
		defer close(q.done)
		if q.err = present(); q.err == nil {
			q.value, q.err = lib.Get(service, account)
			q.value = plain(q.value)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.asking, key)
	}()
	return q
}

// plain is a value as text. Windows and its programs keep passwords in UTF-16,
// where all that can be part of a header or a variable has a zero byte.
func plain(value string) string {
	if len(value)%2 != 0 || !strings.ContainsRune(value, 0) {
		return value
	}
	units := make([]uint16, len(value)/2)
	for i := range units {
		units[i] = binary.LittleEndian.Uint16([]byte(value[2*i:]))
	}
	return string(utf16.Decode(units))
}

// errNone says that nothing here keeps secrets.
var errNone = errors.New("no keyring")

func wording(err error, at string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, lib.ErrNotFound):
		return fault.Wrap(fault.Invalid, err, "the keyring holds no secret %s", at).WithHint("%s", storing(at))
	case errors.Is(err, errNone) || errors.Is(err, lib.ErrUnsupportedPlatform):
		return fault.Wrap(fault.Unavailable, err, "there is no keyring here to look %s up", at).WithHint(remedy)
	}
	return fault.Wrap(fault.Unavailable, err, "the keyring did not give %s", at).
		WithHint("it may be locked or not set up yet: unlock it and try again")
}
