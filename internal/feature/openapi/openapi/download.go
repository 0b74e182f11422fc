package openapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// download downloads a file, or returns the last copy if the download fails.
func (r *reader) download(ctx context.Context, name string) ([]byte, error) {
	u := r.url(name).String()
	data, err := r.get(ctx, u, r.title(name))
	if r.cache == "" {
		return data, err
	}
	sum := sha256.Sum256([]byte(u))
	copied := filepath.Join(r.cache, hex.EncodeToString(sum[:16]))
	if err == nil {
		r.downloaded[copied] = data
		return data, nil
	}
	old, wrong := os.ReadFile(copied)
	if wrong != nil {
		return nil, err
	}
	r.warn("an OpenAPI document cannot be downloaded; the last copy is used", "document", r.title(name), "error", fault.Message(err))
	return old, nil
}

// saveCopies stores copies of downloaded files, once they are known to be usable.
func (r *reader) saveCopies() {
	for copied, data := range r.downloaded {
		if err := store(copied, data); err != nil {
			r.warn("a copy of an OpenAPI document could not be stored", "document", r.title(r.main), "error", err)
		}
	}
}

// store writes a copy of a document.
func store(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(name, data)
}

// fetch downloads a document. It sends no credentials other than those in the URL.
func (a *API) fetch(ctx context.Context, place, title string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the URL of the OpenAPI document is invalid")
	}
	r.Header.Set("User-Agent", a.cfg.UserAgent)
	r.Header.Set("Accept", "application/json, application/yaml, */*;q=0.5")
	res, err := a.client.Do(r)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the OpenAPI document %s cannot be downloaded: %s", title, networkReason(err))
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fault.New(fault.Unavailable, "the OpenAPI document %s cannot be downloaded: the server answered %s", title,
			sanitize.Line(res.Status, 100))
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxBytes+1))
	switch {
	case err != nil:
		return nil, fault.Wrap(fault.Unavailable, err, "the OpenAPI document %s cannot be downloaded: %s", title, networkReason(err))
	case len(data) > maxBytes:
		return nil, fault.New(fault.Invalid, "the OpenAPI document %s has more than %d MiB", title, maxBytes>>20)
	}
	return data, nil
}
