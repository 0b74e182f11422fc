package process

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
	"log/slog"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

func TestMain(m *testing.M) { Main(); os.Exit(m.Run()) }

func TestSpike(t *testing.T) {
	d := "/tmp/spike"
	os.MkdirAll(d+"/ws/a", 0o755)
	os.Chown(d+"/ws/a", FirstUID, FirstUID)
	libs := map[string]string{"/lib64/ld-linux-x86-64.so.2": "/lib64/ld-linux-x86-64.so.2"}
	for _, l := range []string{"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1"} {
		libs["/lib/x86_64-linux-gnu/"+l] = "/lib/x86_64-linux-gnu/" + l
	}
	t0 := time.Now()
	b, err := New(Config{Python: "/tmp/x/py", Libraries: libs, Roots: map[string]string{"workspaces": d + "/ws"}, State: t.TempDir(), Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("start", time.Since(t0), b.groups.version, b.groups.why)
	for i := 0; i < 5; i++ {
		t0 = time.Now()
		s, err := b.Open(context.Background(), sandbox.Spec{Owner: "a", Mounts: []sandbox.Mount{{Target: "/workspace", Root: "workspaces", Name: "a"}}})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("open", time.Since(t0))
		x := s.(*box)
		t0 = time.Now()
		x.w.channel.Write([]byte("hello"))
		buf := make([]byte, 4000)
		n, err := x.w.channel.Read(buf)
		fmt.Println("rt", time.Since(t0), string(buf[:n]), err)
		s.Close()
		time.Sleep(50*time.Millisecond)
	}
	b.Close()
}
