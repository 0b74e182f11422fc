package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Tests of the host's file tools on a workspace that code in a live sandbox keeps
// changing. Package workspace tests each tool on trees made by the host; here the
// sandbox determines which trees code can make.

// hostileCode prepares a workspace and leaves a thread that exchanges a
// directory and a link without end.
const hostileCode = `
import fcntl, os, shutil, threading
os.symlink(canary, "data.json"); os.symlink(os.path.dirname(canary), "out"); os.symlink("/proc/self/root" + canary, "proc"); os.symlink("loop", "loop")
for name in ("closed", "closed/inner"): os.mkdir(name)
open("closed/inner/file", "w").write("x"); os.chmod("closed/inner", 0); os.chmod("closed", 0)
os.mkdir("deep"); os.chdir("deep")
for _ in range(3000): os.mkdir("d"); os.chdir("d")
open("bottom", "w").write("x" * 100_000); os.chdir("/workspace")
os.mkdir("wide")
for i in range(3000): os.close(os.open(f"wide/{i}", os.O_CREAT | os.O_WRONLY))
locked = open("locked.json", "w+"); locked.write("{}"); locked.flush(); fcntl.lockf(locked, fcntl.LOCK_EX)
hidden = open("hidden", "wb"); hidden.write(bytes(1 << 20)); hidden.flush(); os.unlink("hidden")
os.ftruncate(sparse := os.open("sparse", os.O_CREAT | os.O_RDWR), 1 << 29)
os.mkdir("swap"); open("swap/canary", "w").write("inside"); os.symlink(os.path.dirname(canary), "other")
def swap():
    while True:
        for old, new in (("swap", "dir"), ("other", "swap"), ("swap", "other"), ("dir", "swap")):
            try: os.rename(old, new)
            except OSError: shutil.rmtree(new, ignore_errors=True); os.rename(old, new) # a tool had created it
threading.Thread(target=swap, daemon=True).start()
None
`

func TestHostFileToolsOnChangingWorkspace(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	h := newHost(t)
	b := h.backend(nil)
	outside := t.TempDir()
	canary := filepath.Join(outside, "canary")
	if err := os.WriteFile(canary, []byte("the canary lives"), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := h.spec("hostile")
	sb, err := b.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	out, err := sb.Run(t.Context(), sandbox.Program{ID: "hostile", Code: hostileCode, Vars: []byte(`{"canary":"` + canary + `"}`)},
		sandbox.NoHost{})
	if err != nil || out.Status != sandbox.Completed {
		t.Fatalf("%v %s %s %s", err, out.Status, out.Error, out.Traceback)
	}
	dir := filepath.Join(h.cfg.Roots["workspaces"], "hostile")
	f, err := workspace.Open(workspace.Config{Dir: dir, Owner: spec.UID})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	attackTools(t, f, outside)
	sb.Close()
	if got, err := os.ReadFile(canary); err != nil || string(got) != "the canary lives" {
		t.Errorf("the canary is %q, %v", got, err)
	}
	if names, _ := os.ReadDir(outside); len(names) != 1 {
		t.Errorf("outside there is now %v", names)
	}
}

// attackTools calls every tool on every trap; none may wait, leave or believe.
func attackTools(t *testing.T, f *workspace.Files, outside string) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	for _, name := range []string{"data.json", "out/canary", "proc", "loop", "closed/inner/file"} {
		if page, err := f.Read(ctx, name, 0, 0); err == nil && name != "closed/inner/file" {
			t.Errorf("%s was read: %q", name, page.Content)
		}
		if err := f.Write(ctx, name, []byte("written")); err == nil && name != "closed/inner/file" {
			t.Errorf("%s was written", name)
		}
	}
	for range 2000 {
		if page, err := f.Read(ctx, "swap/canary", 0, 0); err == nil && string(page.Content) == "the canary lives" {
			t.Fatal("a swapped directory led outside")
		}
		_ = f.Write(ctx, "swap/new", []byte("written"))
		_ = f.Delete(ctx, "swap/new")
	}
	if page, err := f.Read(ctx, "locked.json", 0, 0); err != nil || string(page.Content) != "{}" {
		t.Errorf("a locked file: %q %v", page.Content, err)
	}
	if page, err := f.Read(ctx, "sparse", 0, workspace.MaxPage); err != nil || len(page.Content) > workspace.MaxPage {
		t.Errorf("a sparse file: %d bytes, %v", len(page.Content), err)
	}
	if _, err := f.List(ctx, "."); err != nil {
		t.Errorf("listing: %v", err)
	}
	u, err := f.Usage(ctx)
	if err != nil || u.Bytes < 100_000 || u.Files < 3000 {
		t.Errorf("usage: %+v %v", u, err)
	}
	if moved, err := f.PrepareMounts(ctx, "skills", "data.json", "out"); err != nil || len(moved) != 2 {
		t.Errorf("preparing mount points: %v %v", moved, err)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Error("the tools were held up")
	}
	if names, _ := os.ReadDir(outside); len(names) != 1 {
		t.Errorf("outside there is now %v", names)
	}
}
