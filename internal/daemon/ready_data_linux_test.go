package daemon_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
)

// smallDisk mounts a file system of 4 MB, until the test ends.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,mode=0700"); err != nil {
		t.Skip("a file system cannot be mounted: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// eventually waits until /readyz answers with a code and a text.
func eventually(t *testing.T, url string, code int, text string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		got, body := get(t, url+"/readyz")
		if got == code && strings.Contains(body, text) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d %s, want %d %s", got, body, code, text)
		}
	}
}

// A daemon that can store nothing is not ready, and is again when it can.
func TestReadinessProbesTheDisk(t *testing.T) {
	dir := smallDisk(t)
	url := serveHTTP(t, start(t, daemon.Config{Config: config.Config{DataDir: filepath.Join(dir, "data")}}))
	eventually(t, url, http.StatusOK, "")
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(f, zeros{}); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	eventually(t, url, http.StatusServiceUnavailable, "is full")
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		t.Fatal(err)
	}
	eventually(t, url, http.StatusOK, "")
	for _, sub := range []string{"private", "audit"} {
		at := filepath.Join(dir, "data", sub)
		err := unix.Mount(at, at, "", unix.MS_BIND, "")
		if err == nil {
			err = unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
		}
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, url, http.StatusServiceUnavailable, "read-only")
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
		eventually(t, url, http.StatusOK, "")
	}
}

// failingDisk mounts a file system on a device that fails after the call of fail.
func failingDisk(t *testing.T) (dir string, fail func() error) {
	t.Helper()
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	for _, command := range [][]string{{"truncate", "-s", "16M", image}, {"mkfs.ext4", "-q", image}, {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%s: %v %s", command, err, out)
		}
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, 0) })
	device, err := exec.Command("losetup", "-n", "-O", "NAME", "-j", image).Output()
	if err != nil {
		t.Fatal(err)
	}
	return dir, func() error { // the device ends before most blocks of its file system
		return errors.Join(os.Truncate(image, 64<<10), exec.Command("losetup", "-c", strings.TrimSpace(string(device))).Run())
	}
}

// A daemon whose disk fails is not ready.
func TestReadinessReportsFailingDisk(t *testing.T) {
	dir, fail := failingDisk(t)
	url := serveHTTP(t, start(t, daemon.Config{Config: config.Config{DataDir: filepath.Join(dir, "data")}}))
	eventually(t, url, http.StatusOK, "")
	if err := fail(); err != nil {
		t.Fatal(err)
	}
	eventually(t, url, http.StatusServiceUnavailable, "")
}

// Requests of ioctl_fsfreeze, from linux/fs.h.
const fifreeze, fithaw = 0xC0045877, 0xC0045878

// A disk that hangs makes the daemon not ready in time, and one probe waits for it.
func TestReadinessReportsDiskThatHangs(t *testing.T) {
	dir, _ := failingDisk(t)
	url := serveHTTP(t, start(t, daemon.Config{Config: config.Config{DataDir: filepath.Join(dir, "data")}}))
	eventually(t, url, http.StatusOK, "")
	disk, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	if err := unix.IoctlSetInt(int(disk.Fd()), fifreeze, 0); err != nil {
		t.Skip("a file system cannot be frozen: ", err)
	}
	thaw := sync.OnceValue(func() error { return unix.IoctlSetInt(int(disk.Fd()), fithaw, 0) })
	defer thaw()
	time.Sleep(1100 * time.Millisecond) // the last probe counts for a second
	client := http.Client{Timeout: 20 * time.Second}
	for range 4 {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				res, err := client.Get(url + "/readyz")
				if err != nil {
					t.Error(err)
					return
				}
				defer res.Body.Close()
				if b, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusServiceUnavailable ||
					!strings.Contains(string(b), "does not answer") {
					t.Errorf("%d %s %v", res.StatusCode, b, err)
				}
			})
		}
		all.Wait()
	}
	stacks := make([]byte, 4<<20)
	if n := strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "durable.Probe("); n != 1 {
		t.Errorf("%d probes wait for the disk, want 1", n)
	}
	if err := thaw(); err != nil {
		t.Fatal(err)
	}
	eventually(t, url, http.StatusOK, "")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// A daemon whose audit log is damaged is not ready.
func TestReadinessVerifiesTheAuditLog(t *testing.T) {
	for name, harm := range map[string]func(file string) error{
		"changed": func(file string) error {
			b, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			b[len(b)/2] ^= 1
			return os.WriteFile(file, b, 0o600)
		},
		"cut":     func(file string) error { return os.Truncate(file, 10) },
		"deleted": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			cfg := daemon.Config{Config: config.Config{DataDir: filepath.Join(t.TempDir(), "data")}}
			url := serveHTTP(t, start(t, cfg)) // whose start is a line
			eventually(t, url, http.StatusOK, "")
			files, err := filepath.Glob(filepath.Join(cfg.DataDir, "audit", "0*"))
			if err != nil || len(files) == 0 {
				t.Fatal(files, err)
			}
			if err := harm(files[0]); err != nil {
				t.Fatal(err)
			}
			eventually(t, url, http.StatusServiceUnavailable, "the audit log is damaged")
		})
	}
}
