package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// record is a login as stored on disk, encrypted. It is valid only for its URL.
type record struct {
	URL        string         `json:"url"`
	Resource   string         `json:"resource,omitempty"`
	Issuer     string         `json:"issuer,omitempty"`
	Endpoint   string         `json:"endpoint,omitempty"`
	Revocation string         `json:"revocation,omitempty"`
	Client     clientIdentity `json:"client,omitzero"`
	Access     string         `json:"access,omitempty"` // access token; "" before the first login
	Refresh    string         `json:"refresh,omitempty"`
	ObtainedAt time.Time      `json:"given,omitzero"`  // when Access was obtained; zero if unknown
	Expiry     time.Time      `json:"expiry,omitzero"` // of Access
	Scopes     []string       `json:"scopes,omitempty"`
	Challenge  *Challenge     `json:"wanted,omitempty"` // of the server, for the next login

	Registration *registration `json:"registration,omitempty"` // of the client, for the next login; nil if not registered dynamically
}

// setToken stores a token in the record.
func (r *record) setToken(got *oauth2.Token, asked []string) {
	r.Access, r.ObtainedAt, r.Expiry, r.Scopes = got.AccessToken, time.Now(), got.Expiry, grantedScopes(got, asked)
	if got.RefreshToken != "" {
		r.Refresh = got.RefreshToken
	}
}

// registration is a dynamically registered client.
type registration struct {
	Issuer             string         `json:"issuer"`
	Client             clientIdentity `json:"client"`
	ConfiguredRedirect string         `json:"asked,omitempty"` // redirect URL in the configuration
	Redirect           string         `json:"redirect"`        // including the port, which some servers compare
	Scopes             []string       `json:"scopes,omitempty"`
	ExpiresAt          time.Time      `json:"ends,omitzero"` // of the client's secret
}

// isUsable reports whether the client can be used for another login.
func (r *registration) isUsable(issuer, asked string, scopes []string) bool {
	return r != nil && r.Issuer == issuer && r.ConfiguredRedirect == asked && (r.ExpiresAt.IsZero() || time.Now().Before(r.ExpiresAt)) &&
		!slices.ContainsFunc(scopes, func(s string) bool { return !slices.Contains(r.Scopes, s) })
}

// recordName is the name of the record in the Store.
func (c Config) recordName() string { return upstream.LoginName(c.Server) }

// load reads the record; nil means that there is none for this URL.
func (c Config) load() (*record, secret.Stamp, error) {
	stamp := c.Store.Stamp(c.recordName())
	text, err := c.Store.Find(c.recordName())
	r := &record{}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, stamp, nil
	case errors.Is(err, secret.ErrUndecryptable), err == nil && json.Unmarshal(text, r) != nil:
		return nil, stamp, c.loginRequired("needs a new login: the stored one cannot be decrypted; its key was lost or replaced, or it " +
			"is damaged")
	case err != nil:
		return nil, stamp, fault.Wrap(fault.Unavailable, err, "has a login that cannot be read").
			WithHint("the data directory must belong to the user that runs Sandpiper")
	case r.URL != c.URL || !c.Client.canAuthenticate(r.Client):
		return nil, stamp, nil // for another URL, or for a client that is no longer configured
	}
	c.OnSecret(r.Access)
	c.OnSecret(r.Refresh)
	c.OnSecret(r.Client.Secret)
	if r.Registration != nil {
		c.OnSecret(r.Registration.Client.Secret)
	}
	return r, stamp, nil
}

// canAuthenticate reports whether the credentials of the client are still available.
func (c Client) canAuthenticate(k clientIdentity) bool {
	return k.Method == "" || k.Method == methodNone || k.Secret != "" || k.ID == c.ID
}

// save stores the record.
func (c Config) save(r *record) (secret.Stamp, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return secret.Stamp{}, err
	}
	if err := c.Store.Put(c.recordName(), text); err != nil {
		return secret.Stamp{}, fault.Wrap(fault.Unavailable, err, "has a login that cannot be stored").
			WithHint("check the disk of the data directory; if the file key in it is damaged, delete it and log in again")
	}
	return c.Store.Stamp(c.recordName()), nil
}

// storedRecord is the record of a server in the Store, which other processes change too.
type storedRecord struct {
	cfg   Config
	mutex ctxMutex // held while the record is changed

	mu     sync.Mutex
	record *record // nil without a login
	err    error   // why the record cannot be read
	stamp  secret.Stamp
	loaded bool
}

// Changed reports whether the stored login differs from the one last read.
func (s *storedRecord) Changed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.loaded || !s.stamp.Equal(s.cfg.Store.Stamp(s.cfg.recordName()))
}

// current returns the stored record. It is not modified afterwards.
func (s *storedRecord) current() (*record, error) {
	if s.Changed() {
		r, stamp, err := s.cfg.load()
		s.set(r, stamp, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record, s.err
}

func (s *storedRecord) set(r *record, stamp secret.Stamp, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record, s.stamp, s.err, s.loaded = r, stamp, err, true
}

// exclusive runs f with the locks for changing the record, in this and other processes.
// It continues for a grace period after ctx ends.
func (s *storedRecord) exclusive(ctx context.Context, f func(context.Context) error) error {
	release, err := s.mutex.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := withGrace(ctx)
	defer cancel()
	waiting, done := context.WithTimeout(ctx, 2*requestTimeout)
	defer done()
	unlock, err := s.cfg.Store.Lock(waiting, s.cfg.recordName())
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "has a login that is locked by another process or cannot be written").
			WithHint("the data directory must belong to the user that runs Sandpiper")
	}
	defer unlock()
	return f(ctx)
}

// put stores a record for all processes.
func (s *storedRecord) put(r *record) error {
	stamp, err := s.cfg.save(r)
	if err == nil {
		s.set(r, stamp, nil)
	}
	return err
}

// persist uses a record from now on, even if it cannot be stored.
func (s *storedRecord) persist(r *record) {
	stamp, err := s.cfg.save(r)
	if err != nil {
		s.cfg.Log.Error("a renewed login could not be stored and will be lost when this process exits", "server", s.cfg.Server, "error",
			err)
		stamp = s.cfg.Store.Stamp(s.cfg.recordName())
	}
	s.set(r, stamp, nil)
}

// remove deletes the record, but keeps the registered client of an existing login.
func (s *storedRecord) remove(r *record) error {
	if r != nil && r.Access != "" && r.Registration != nil {
		return s.put(&record{URL: r.URL, Registration: r.Registration})
	}
	if err := s.cfg.Store.Delete(s.cfg.recordName()); err != nil {
		return fault.Wrap(fault.Unavailable, err, "has a login that cannot be deleted")
	}
	s.set(nil, secret.Stamp{}, nil)
	return nil
}
