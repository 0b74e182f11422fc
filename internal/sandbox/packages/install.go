package packages

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
)

// Install returns the layer of the lock file, and makes it if it is not there:
// it downloads the wheels, holds each against its hash, and unpacks them. What
// fails leaves nothing behind.
//
// The fault is Denied for a wheel with another hash, and Invalid for one whose
// content will not do.
func Install(ctx context.Context, cfg Config, in *python.Installation) (*python.Layer, *Lock, error) {
	layer, lock, err := Open(ctx, cfg)
	if layer != nil || lock == nil {
		return layer, lock, err
	}
	p, err := newPip(in, cfg)
	if err != nil {
		return nil, nil, err
	}
	defer p.close()
	if err := p.download(ctx, lock); err != nil {
		return nil, nil, err
	}
	builtin, err := in.StandardModules(ctx)
	if err != nil {
		return nil, nil, fault.Wrap(fault.Unavailable, err, "the embedded Python does not start")
	}
	layer, err = in.EnsureLayer(ctx, cfg.layer(lock), func(w *python.LayerWriter) error {
		u := newUnpacking(w, builtin)
		for _, pkg := range lock.Packages {
			if err := u.wheel(ctx, pkg, p.path(pkg.Wheels[0].Name)); err != nil {
				return err
			}
		}
		return nil
	})
	return layer, lock, err
}

// download fetches exactly the wheels of the lock. pip holds them against their
// hashes; so do we, when they are opened.
func (p *pip) download(ctx context.Context, l *Lock) error {
	var lines []string
	for _, pkg := range l.Packages {
		lines = append(lines, fmt.Sprintf("%s==%s --hash=sha256:%s", pkg.Name, pkg.Version, pkg.Wheels[0].Hashes.SHA256))
	}
	slices.Sort(lines)
	return p.run(ctx, "download", "--no-deps", "--require-hashes", "-d", p.dir, "-r", p.write("locked.txt", lines))
}

// openWheel opens the file of a wheel if it has the hash that was locked. What
// is read later is what was hashed, since the file is in a directory of our own.
func openWheel(path string, w Wheel) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "the wheel %s of the lock file was not to be had", w.Name).
			WithHint("run `sandpiper packages lock` to choose among those that there are")
	}
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if hex.EncodeToString(h.Sum(nil)) != w.Hashes.SHA256 {
		f.Close()
		return nil, fault.New(fault.Denied, "the wheel %s is not the one that the lock file names: its hash differs", w.Name)
	}
	return f, nil
}
