package process

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

func TestHello(t *testing.T) {
	libs := map[string]string{"/lib64/ld-linux-x86-64.so.2": "/lib64/ld-linux-x86-64.so.2"}
	for _, l := range []string{"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1"} {
		libs["/lib/x86_64-linux-gnu/"+l] = "/lib/x86_64-linux-gnu/" + l
	}
	root := t.TempDir()
	os.Mkdir(filepath.Join(root, "a"), 0o700)
	os.Chown(filepath.Join(root, "a"), FirstUID, FirstUID)
	b, err := New(Config{Python: "/tmp/x/py", Libraries: libs, Roots: map[string]string{"workspaces": root}, State: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s, err := b.Open(context.Background(), sandbox.Spec{Owner: "a", Mounts: []sandbox.Mount{{Target: "/workspace", Root: "workspaces", Name: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []string{"1+1", "import os,sys; print(os.listdir('/'), sys.path, os.getcwd()); open('x','w').write('1')", "1/0", "x=bytearray(10**9)", "import os; os._exit(3)"} {
		out, err := s.Run(t.Context(), sandbox.Program{ID: "e", Code: code}, silent{})
		j, _ := json.Marshal(out)
		t.Log(string(j), err)
	}
	j, _ := json.MarshalIndent(b.Probe(t.Context()), "", " ")
	t.Log(string(j))
}
