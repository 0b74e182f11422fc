//go:build linux && (amd64 || arm64)

package python

import (
	"context"
	"embed"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	_ "unsafe" // for go:linkname

	_ "github.com/kluctl/go-embed-python/pip" // carries the data that pipFiles is linked to
)

// pipFiles is the file system in which go-embed-python embeds pip. The library's only
// API is an extractor into a predictable directory; see embedded.
//
//go:linkname pipFiles github.com/kluctl/go-embed-python/pip/internal/data.Data
var pipFiles embed.FS

//go:embed pip.py
var pipRunner string

// RunPip runs pip with args outside of any sandbox, with the daemon's environment and
// pip's own configuration files. pip can resolve, download and write files; it cannot
// start programs (except keyring), so no package is built. The first run unpacks pip and compiles
// its modules for later ones, until Close.
func (i *Installation) RunPip(ctx context.Context, dir string, args []string, stdout, stderr io.Writer) (err error) {
	at, err := i.pip.unpack()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(i.dir, executable), append([]string{"-I", "-X", "utf8", "-c", pipRunner, at}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_NO_INPUT=1", "PIP_NO_COLOR=1")
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = time.Second
	return cmd.Run()
}

// maxPipAge bounds the use of a directory with pip: a host may remove temporary files after days.
const maxPipAge = time.Hour

// removeOldPips removes the directories that killed processes have left.
func removeOldPips() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "sandpiper-pip-*"))
	for _, dir := range left {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() && time.Since(info.ModTime()) > 24*maxPipAge {
			_ = os.RemoveAll(dir)
		}
	}
}

func (p *unpackedPip) unpack() (dir string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dir != "" && time.Since(p.from) < maxPipAge {
		return p.dir, nil
	}
	removeOldPips()
	if dir, err = os.MkdirTemp("", "sandpiper-pip-"); err != nil {
		return "", err
	}
	if err := writePip(dir); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	p.dir, p.from = dir, time.Now()
	return dir, nil
}

// writePip writes the package pip to dir.
func writePip(dir string) error {
	list, err := listEmbedded(pipFiles)
	if err != nil {
		return err
	}
	t := &tree{root: dir, done: map[string]int{}, progress: func(string, int, int) {}}
	for _, p := range list {
		switch {
		case p.Name != "pip" && !strings.HasPrefix(p.Name, "pip/"):
		case p.Mode.IsDir():
			err = t.dir(p.Name)
		default:
			err = t.unpack(pipFiles, p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
