package mcpserver

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// stateKey authenticates the request states of a server.
type stateKey [32]byte

// state returns the request state of an execution: its id, when its questions expire and the time now, at which the
// client gets them. It is not secret, but authenticated, and bound to its tenant.
func (k stateKey) state(owner tenant.ID, id string, expires time.Time) string {
	content := id + "." + strconv.FormatInt(expires.Unix(), 36) + "." + strconv.FormatInt(time.Now().UnixMilli(), 36)
	return content + "." + k.mac(owner, content)
}

func (k stateKey) mac(owner tenant.ID, content string) string {
	mac := hmac.New(sha256.New, k[:])
	mac.Write([]byte(owner.String() + "\x00" + content))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// opened returns the content of a request state; ok is false if it was not made for the tenant.
func (k stateKey) opened(owner tenant.ID, state string) (id string, asked, expires time.Time, ok bool) {
	end := strings.LastIndexByte(state, '.')
	if end < 0 || !hmac.Equal([]byte(state[end+1:]), []byte(k.mac(owner, state[:end]))) {
		return "", asked, expires, false
	}
	id, times, _ := strings.Cut(state[:end], ".")
	until, since, _ := strings.Cut(times, ".")
	seconds, err := strconv.ParseInt(until, 36, 64)
	if ms, err := strconv.ParseInt(since, 36, 64); err == nil { // absent in the state of an earlier version
		asked = time.UnixMilli(ms)
	}
	return id, asked, time.Unix(seconds, 0), err == nil
}
