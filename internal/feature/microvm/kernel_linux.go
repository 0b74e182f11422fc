//go:build amd64

package microvm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// kernel is that of the guest.
type kernel struct {
	path    string
	version string
	modules []string // files
}

// kernelModules are those that a guest needs. A kernel may have some of them built in.
var kernelModules = []string{
	"virtio", "virtio_ring", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_console", "fuse", "virtiofs",
}

const defaultKernels = "/boot/vmlinuz-*-cloud-amd64"

const kernelHint = "install one, for instance Debian's linux-image-cloud-amd64, and set sandbox.microvm.kernel to its path"

// findKernel returns the kernel at a path, "" for the newest one of the host.
func findKernel(at string) (kernel, error) {
	if at == "" {
		if _, err := os.ReadDir(filepath.Dir(defaultKernels)); fault.Inconclusive(err) { // which Glob ignores
			return kernel{}, fault.Wrap(fault.Unavailable, err, "the kernels of this host cannot be listed")
		}
		found, _ := filepath.Glob(defaultKernels)
		if len(found) == 0 {
			return kernel{}, fault.New(fault.Unavailable, "sandbox.backend microvm needs a kernel for its guests: there is no %s",
				defaultKernels).WithHint(kernelHint)
		}
		at = found[len(found)-1]
	}
	version, err := kernelVersion(at)
	if err != nil {
		return kernel{}, fault.Wrap(fault.Unavailable, err, "sandbox.microvm.kernel %s cannot be used: %v", at, err).WithHint(kernelHint)
	}
	k := kernel{path: at, version: version}
	dir := filepath.Join(filepath.Dir(at), "../lib/modules", version)
	files := map[string]string{}
	err = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if base, _, ok := strings.Cut(filepath.Base(name), ".ko"); ok && e != nil && e.Type().IsRegular() {
			files[strings.ReplaceAll(base, "-", "_")] = name
		}
		return err
	})
	if err != nil {
		return kernel{}, fault.Wrap(fault.Unavailable, err, "the modules of kernel %s cannot be read in %s", at, dir).
			WithHint("install them with the kernel: they belong to ../lib/modules/%s beside it", version)
	}
	for _, name := range kernelModules {
		if file := files[name]; file != "" {
			k.modules = append(k.modules, file)
		}
	}
	return k, nil
}

// kernelVersion reads the version from the header of a bzImage, such as
// "6.1.0-56-cloud-amd64"; see Documentation/arch/x86/boot.rst of Linux.
func kernelVersion(at string) (string, error) {
	f, err := os.Open(at)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, 32<<10)
	n, _ := f.Read(head)
	if n < 0x264 || string(head[0x202:0x206]) != "HdrS" {
		return "", errors.New("it is not a bzImage")
	}
	start := int(binary.LittleEndian.Uint16(head[0x20e:])) + 0x200
	if start >= n {
		return "", errors.New("it has no version")
	}
	text, _, _ := bytes.Cut(head[start:n], []byte{' '})
	return string(text), nil
}
