package worker_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// FuzzFrame checks that ReadFrame does not panic or allocate more than it reads, and
// that each frame encodes to the bytes read.
func FuzzFrame(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02S\x00\x00\x00\x00{}"))
	f.Add([]byte("\x00\x00\x00\x01O\x00\x00\x00\x01x\x00\x00\x00\x00E\x00\x00\x00\x02"))
	f.Add([]byte("\x04\x00\x00\x00D\x00\x00\x00\x01{}"))
	f.Add([]byte("\xff\xff\xff\xffC\x00\x00\x00\x01"))
	f.Add(frame(worker.Image, string(make([]byte, 200_000))))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bytes.NewReader(data)
		for {
			at := len(data) - in.Len()
			got, err := worker.ReadFrame(in, 1<<20)
			if err != nil {
				if in.Len() == len(data) && len(data) > 0 && errors.Is(err, io.EOF) {
					t.Fatalf("a clean end before %d bytes", len(data))
				}
				break
			}
			if !bytes.Equal(encode(got), data[at:len(data)-in.Len()]) {
				t.Fatalf("frame at %d does not read as it was written", at)
			}
			if cap(got.Payload) > 4*len(data)+1<<16 {
				t.Fatalf("%d bytes allocated for %d", cap(got.Payload), len(data))
			}
		}
	})
}

func TestHeaderAloneAllocatesLittle(t *testing.T) {
	header := []byte("\x01\x00\x00\x00D\x00\x00\x00\x01")
	size := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := worker.ReadFrame(bytes.NewReader(header), 1<<30); err != io.ErrUnexpectedEOF {
				b.Fatal(err)
			}
		}
	}).AllocedBytesPerOp()
	if size > 1<<17 {
		t.Errorf("%d bytes allocated for a header", size)
	}
}

func TestReadFrameReadsOneFrame(t *testing.T) {
	want := worker.Frame{Kind: worker.LockedDown, Payload: []byte("{}")}
	in := bytes.NewReader(append(encode(want), "rest"...))
	got, err := worker.ReadFrame(in, 0)
	if diff := cmp.Diff(want, got); diff != "" || err != nil || in.Len() != 4 {
		t.Errorf("%s %v, %d bytes are left", diff, err, in.Len())
	}
}

// encode returns the bytes of f.
func encode(f worker.Frame) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(f.Payload)))
	b = append(b, byte(f.Kind))
	b = binary.BigEndian.AppendUint32(b, f.Number)
	return append(b, f.Payload...)
}
