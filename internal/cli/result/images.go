package result

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
)

// noteOfImage describes an image of a result. A terminal that can shows it; on another one, it is saved in
// the working directory.
func noteOfImage(env *cli.Env, img reply.Image) string {
	about := fmt.Sprintf("%s, %d bytes", img.MIME, len(img.Data))
	if !cli.IsTerminal(env.Stdout) {
		return fmt.Sprintf("[image: %s; use --json to get it]", about)
	}
	if p := imageProtocolOf(os.Getenv); p != "" {
		if shown, err := terminalImage(p, img.Data); err == nil {
			env.Stdout.Write(shown)
			return fmt.Sprintf("[image: %s; use --json to get it]", about)
		}
	}
	path, err := saveImage(img)
	if err != nil {
		env.Warn(fmt.Sprintf("the image cannot be saved: %v; run the command in a writable directory, or use --json to get it", err))
		return fmt.Sprintf("[image: %s]", about)
	}
	return fmt.Sprintf("[image: %s, saved as %s]", about, path)
}

// maxImageNames is the number of names that saveImage tries.
const maxImageNames = 10_000

// saveImage writes an image to a new file image-N.png in the working directory, or with the ending of
// its format.
func saveImage(img reply.Image) (path string, err error) {
	_, ending, _ := strings.Cut(img.MIME, "/")
	for i := range maxImageNames {
		path = fmt.Sprintf("image-%d.%s", i+1, ending)
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = f.Write(img.Data)
		return path, errors.Join(err, f.Close())
	}
	return "", fmt.Errorf("%s and all names before it exist", path)
}
