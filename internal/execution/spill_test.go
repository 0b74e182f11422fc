package execution_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
)

func TestLargeValueSpills(t *testing.T) {
	home, stranger := newHome(t, "a"), newHome(t, "b")
	rows := "[" + strings.TrimSuffix(strings.Repeat(`{"id": 7, "name": "x"},`, 2000), ",") + "]"
	r := done(t, defaultSetup(t).start(t, t.Context(), home,
		execution.Request{Code: "get rows", Vars: json.RawMessage(`{"rows": ` + rows + `}`)}))
	if !r.Success() || !r.Spilled || len(r.Value) > 16<<10 {
		t.Fatalf("%+v", r)
	}
	name := ".results/" + r.ExecutionID + ".json"
	want := `{"type":"array","count":2000,"items":{"type":"object"},"columns":[{"name":"id","type":"integer","min":7,"max":7,"mean":7},` +
		`{"name":"name","type":"string","distinct":1,"values":["x"]}],"first":[` + strings.TrimSuffix(strings.Repeat(`{"id":7,"name":"x"},`,
		5), ",") + `],` +
		`"path":"/workspace/` + name + `","bytes":46001,"next":"result = json.loads(read_file(\"` + name + `\"))[:20]"}`
	if d := cmp.Diff(want, string(r.Value)); d != "" {
		t.Error(d)
	}
	if got := readFile(t, home, name); got != rows {
		t.Errorf("stored %d bytes, want %d", len(got), len(rows))
	}
	if got := readFile(t, stranger, name); got != "" {
		t.Error("another tenant has the file")
	}
}

func TestSmallReplyWritesNoFile(t *testing.T) {
	home := newHome(t, "a")
	defaultSetup(t).run(t, home, "flood 100 x\nstring 16000")
	if got := listFiles(t, home); len(got) != 0 {
		t.Errorf("wrote %v", got)
	}
}

func TestLargeOutputSpills(t *testing.T) {
	home := newHome(t, "a")
	r := defaultSetup(t).run(t, home, "print first\nflood 5000 "+strings.Repeat("y", 9)+"\nprint last\nresult 1")
	f := r.OutputFile
	if f == nil || f.Items != 5002 || f.Bytes != 6+50_000+5 || len(r.Output) < 1000 || len(marshal(t, r.Answer())) > 20<<10 {
		t.Fatalf("%d items, %+v", len(r.Output), f)
	}
	got := readFile(t, home, strings.TrimPrefix(f.Path, "/workspace/"))
	if got != "first\n"+strings.Repeat("yyyyyyyyy\n", 5000)+"last\n" {
		t.Errorf("the file has %d bytes: %.60q", len(got), got)
	}
	if !strings.Contains(f.Note, "read_file(") || strings.Contains(f.Note, "/workspace") {
		t.Errorf("note %q", f.Note)
	}
}

func TestOutputInReplyIsBounded(t *testing.T) {
	for name, code := range map[string]string{
		"empty items":        "flood 100000 ",
		"control characters": "flood 100000 \x01\x02\x03",
		"one huge item":      "print " + strings.Repeat("z", 200_000),
	} {
		t.Run(name, func(t *testing.T) {
			r := defaultSetup(t).run(t, newHome(t, "a"), code)
			if n := len(marshal(t, r.Answer())); n > 20<<10 || r.OutputFile == nil || len(r.Output) == 0 {
				t.Errorf("an answer of %d bytes, %d items, %+v", n, len(r.Output), r.OutputFile)
			}
		})
	}
}

func TestOutputLimitEndsExecution(t *testing.T) {
	home := newHome(t, "a")
	s := newSetup(t, execution.Config{OutputBytes: 1 << 20}, fake.Config{}, admit.Config{})
	r := s.run(t, home, "flood 1000000000 "+strings.Repeat("x", 99))
	if r.Status != sandbox.OverLimit || r.ErrorType != "output" || r.Error != "Output limit of 1 MB reached" || r.OutputFile == nil ||
		r.OutputFile.Path == "" {
		t.Fatalf("%+v", r)
	}
	if got := readFile(t, home, strings.TrimPrefix(r.OutputFile.Path, "/workspace/")); len(got) > 1<<20 || len(got) < 1<<20-100 {
		t.Errorf("stored %d bytes", len(got))
	}
}

func TestStderrOfSuccessIsReturnedAndSpills(t *testing.T) {
	home := newHome(t, "a")
	r := defaultSetup(t).run(t, home, "stderr a warning\nresult 1")
	if !r.Success() || r.Stderr != "a warning\n" {
		t.Errorf("%+v", r)
	}
	r = defaultSetup(t).run(t, home, "stderr begin"+strings.Repeat("e", 50_000)+"end\nresult 1")
	if len(r.Stderr) > 3000 || !strings.HasPrefix(r.Stderr, "begin") || !strings.HasSuffix(r.Stderr, "end\n") {
		t.Fatalf("%d bytes of stderr", len(r.Stderr))
	}
	_, path, _ := strings.Cut(r.Stderr, "the complete text is in /workspace/")
	path, _, _ = strings.Cut(path, ")")
	if got := readFile(t, home, path); len(got) != 50_009 {
		t.Errorf("stored %d bytes", len(got))
	}
}

func TestLongErrorIsTruncatedAndSpills(t *testing.T) {
	home := newHome(t, "a")
	r := defaultSetup(t).run(t, home, "raise ValueError begin"+strings.Repeat("e", 50_000)+"end")
	if len(r.Error) > 3000 || !strings.HasPrefix(r.Error, "begin") || !strings.HasSuffix(r.Error, "end") || !strings.Contains(r.Error,
		r.ErrorFile) || r.ErrorFile == "" {
		t.Fatalf("%d bytes, file %q", len(r.Error), r.ErrorFile)
	}
	if got := readFile(t, home, strings.TrimPrefix(r.ErrorFile, "/workspace/")); strings.Count(got, "e") < 100_000 {
		t.Errorf("stored %d bytes", len(got))
	}
}

func TestExcessImagesSpill(t *testing.T) {
	home := newHome(t, "a")
	small := "image image/png " + base64.StdEncoding.EncodeToString([]byte("\x89PNG")) + "\n"
	r := defaultSetup(t).run(t, home, strings.Repeat(small, 10))
	if len(r.Images) != 8 || len(r.ImageFiles) != 2 {
		t.Fatalf("%d images, files %v", len(r.Images), r.ImageFiles)
	}
	if got := readFile(t, home, strings.TrimPrefix(r.ImageFiles[1], "/workspace/")); got != "\x89PNG" {
		t.Errorf("stored %q", got)
	}
}
