package form

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// serve answers requests about documents in an interpreter without a sandbox. Each of the parts is preceded by its
// length. A document may take less time than in a sandbox.
const serve = `
import json, struct, sys
sys.path.insert(0, sys.argv[1])
from sandpiper.features.form import documents
while head := sys.stdin.buffer.read(8):
    sizes = struct.unpack(">II", head)
    request, data = map(sys.stdin.buffer.read, sizes)
    answer, document = documents.process(json.loads(request), data)
    for part in (json.dumps(answer).encode(), document or b""):
        sys.stdout.buffer.write(struct.pack(">I", len(part)) + part)
    sys.stdout.buffer.flush()
`

type request struct {
	Op            string          `json:"op"`
	Data          json.RawMessage `json:"data,omitempty"`
	Profile       json.RawMessage `json:"profile,omitempty"`
	Answers       json.RawMessage `json:"answers,omitempty"`
	IgnoreScripts bool            `json:"ignore_scripts,omitempty"`
}

type answer struct {
	Error  *Problem
	Form   *form
	Filled *filled
}

type form struct {
	Kind     string
	Title    string
	Pages    int
	Fields   []field
	Warnings []string
	Submit   map[string]string
}

type field struct {
	Name  string
	Label string
	Type  string
	Value any
}

type filled struct {
	Values   map[string]any
	Problems []struct{ Field, Problem, Message string }
	Missing  []question
	Unused   []string
	Review   string
	Document []byte `json:"-"`
}

type question struct {
	Name   string
	Schema map[string]any
}

// server is a process that runs serve.
type server struct {
	mu  sync.Mutex
	in  io.Writer
	out *bufio.Reader
}

var started = sync.OnceValues(func() (*server, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	install, err := python.Install(context.Background(), python.Config{Dir: filepath.Join(cache, "sandpiper-test"),
		Overlay: worker.Python(daemon.Modules(feature.OfDaemon([]feature.Feature{Feature()}))...)})
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(install.Dir(), "bin", "python3.14"), "-I", "-S", "-B", "-c", serve, install.Dir())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe() // the process ends when this one does
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &server{in: in, out: bufio.NewReader(out)}, cmd.Start()
})

// handle answers a request about a document as code gets it.
func handle(t testing.TB, r request, doc []byte) (a answer) {
	t.Helper()
	s, err := started()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), uint32(len(doc)))
	for _, part := range [][]byte{head, raw, doc} {
		if _, err := s.in.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := json.Unmarshal(s.read(t), &a); err != nil {
		t.Fatal(err)
	}
	document := s.read(t)
	if len(document) == 0 || a.Filled == nil {
		return a
	}
	if a.Filled.Document = document; document[0] == '{' {
		problem, err := Check(string(doc), string(document))
		if err != nil {
			t.Fatal(err)
		}
		if problem != nil {
			return answer{Error: problem}
		}
	}
	return a
}

func (s *server) read(t testing.TB) []byte {
	t.Helper()
	var head [4]byte
	if _, err := io.ReadFull(s.out, head[:]); err != nil {
		t.Fatal(err)
	}
	part := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(s.out, part); err != nil {
		t.Fatal(err)
	}
	return part
}
