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

// Install returns the layer of the lock file. If the layer is not installed, it
// downloads the wheels, verifies their hashes and unpacks them. A failed installation
// leaves no files behind.
//
// The fault is Denied for a wheel with another hash, and Invalid for one with
// unacceptable content.
func Install(ctx context.Context, cfg Config, in *python.Installation) (*python.Layer, *Lock, error) {
	layer, lock, err := Open(ctx, cfg)
	if layer != nil || lock == nil || fault.KindOf(err) != fault.NotFound {
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
		return checkModules(u.files)
	})
	if err == nil {
		err = markChecked(cfg.layer(lock).Path())
	}
	return layer, lock, err
}

// download downloads exactly the locked wheels. pip verifies their hashes; openWheel
// verifies them again.
func (p *pip) download(ctx context.Context, l *Lock) error {
	var lines []string
	for _, pkg := range l.Packages {
		lines = append(lines, fmt.Sprintf("%s==%s --hash=sha256:%s", pkg.Name, pkg.Version, pkg.Wheels[0].Hashes.SHA256))
	}
	slices.Sort(lines)
	return p.run(ctx, "download", "--no-deps", "--require-hashes", "-d", p.dir, "-r", p.write("locked.txt", lines))
}

// openWheel opens the file of a wheel if it has the locked hash. The file is in a
// private directory, so it cannot change after it was hashed.
func openWheel(path string, w Wheel) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "the wheel %s of the lock file is not available", w.Name).
			WithHint("run `sandpiper packages lock` to select an available one")
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
