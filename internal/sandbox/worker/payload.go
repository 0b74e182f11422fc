package worker

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/rawjson"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

const (
	maxImages     = 8
	maxImageBytes = 5 << 20
	maxDepth      = 512 // nesting of a result; the worker itself stops at 200
	maxError      = 16 << 10
	maxTraceback  = 64 << 10
	maxStderr     = 64 << 10
	seedBytes     = 32
)

// encodeExecute returns the Execute frame of p.
func encodeExecute(number uint32, p sandbox.Program, resultBytes int64) ([]byte, error) {
	vars := bytes.TrimSpace(p.Vars)
	if len(vars) == 0 {
		vars = []byte("{}")
	}
	if vars[0] != '{' || !json.Valid(vars) {
		return nil, fault.New(fault.Invalid, "context variables must be a JSON object, got %.40q", vars)
	}
	if p.Seed != nil && len(p.Seed) != seedBytes || p.Seed == nil && p.Clock != nil || len(p.Clock) > sandbox.MaxClockReadings {
		return nil, fault.New(fault.Invalid, "got a seed of %d bytes and %d clock readings: a seed has %d bytes, and at most %d readings "+
			"are allowed with a seed", len(p.Seed), len(p.Clock), seedBytes, sandbox.MaxClockReadings)
	}
	return encodeFrame(Execute, number, struct {
		ID          string            `json:"id"`
		Code        string            `json:"code"`
		Vars        json.RawMessage   `json:"vars"`
		ResultBytes int64             `json:"result_bytes"`
		Tokens      map[string]string `json:"tokens,omitempty"`
		Numbers     []string          `json:"numbers,omitempty"`
		Privacy     bool              `json:"privacy,omitempty"`
		Restriction string            `json:"restriction,omitempty"`
		Check       bool              `json:"check,omitempty"`
		Network     string            `json:"network,omitempty"`
		Dry         bool              `json:"dry,omitempty"`
		Tables      bool              `json:"tables,omitempty"`
		Seed        []byte            `json:"seed,omitempty"`
		Clock       []int64           `json:"clock,omitempty"`
	}{p.ID, p.Code, vars, resultBytes, p.Tokens, p.NumberTokens, p.Privacy, p.Restriction, p.Preflight, p.Network, p.DryRun,
		p.DescribeTables, p.Seed, p.Clock}), nil
}

// encodeFrame returns a frame with payload as JSON. It panics if payload cannot be encoded.
func encodeFrame(kind Kind, number uint32, payload any) []byte {
	var b bytes.Buffer
	b.Write(make([]byte, headerBytes))
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(payload); err != nil {
		panic(err) // payloads are structs of strings, numbers and checked JSON
	}
	return putHeader(b.Bytes(), kind, number)
}

// putHeader writes the header into the space reserved at the start of b.
func putHeader(b []byte, kind Kind, number uint32) []byte {
	binary.BigEndian.PutUint32(b, uint32(len(b)-headerBytes))
	b[4] = byte(kind)
	binary.BigEndian.PutUint32(b[5:], number)
	return b
}

// completed is the prefix of a Done frame with a result. The result and a brace
// follow, so that a large result is parsed and copied only once.
var completed = []byte(`{"status":"completed","result":`)

// decodeDone decodes the payload of a Done frame.
func decodeDone(payload []byte, resultBytes int64) (sandbox.Outcome, error) {
	if result, ok := bytes.CutPrefix(payload, completed); ok && bytes.HasSuffix(result, []byte("}")) {
		if result = result[:len(result)-1]; rawjson.Valid(result) {
			return complete(result, resultBytes)
		}
	}
	var d struct {
		Status    sandbox.Status  `json:"status"`
		Result    json.RawMessage `json:"result"`
		Error     string          `json:"error"`
		ErrorType string          `json:"error_type"`
		Traceback string          `json:"traceback"`
		Limit     string          `json:"limit"`
	}
	if err := json.Unmarshal(payload, &d); err != nil {
		return sandbox.Outcome{}, fmt.Errorf("%w: outcome: %w", ErrProtocol, err)
	}
	switch d.Status {
	case sandbox.Completed:
		return complete(d.Result, resultBytes)
	case sandbox.Raised, sandbox.Refused:
		return sandbox.Outcome{
			Status:    d.Status,
			Limit:     raisedLimit(d.Limit),
			Error:     clip(d.Error, maxError),
			ErrorType: clip(d.ErrorType, 256),
			Traceback: clip(d.Traceback, maxTraceback),
		}, nil
	}
	return sandbox.Outcome{}, fmt.Errorf("%w: outcome with status %.40q", ErrProtocol, d.Status)
}

func complete(result []byte, resultBytes int64) (sandbox.Outcome, error) {
	if int64(len(result)) > resultBytes {
		return sandbox.Outcome{}, fmt.Errorf("%w: result of %d bytes, at most %d are allowed", ErrProtocol, len(result), resultBytes)
	}
	if depth, _ := rawjson.Scan(result); depth > maxDepth {
		return sandbox.Outcome{}, fmt.Errorf("%w: result nested deeper than %d levels", ErrProtocol, maxDepth)
	}
	return sandbox.Outcome{Status: sandbox.Completed, Result: result}, nil
}

// raisedLimit returns the limit that the worker reports as the cause of an
// exception, or "" if it is not one that a worker can detect.
func raisedLimit(name string) string {
	known := []string{
		sandbox.LimitMemory, sandbox.LimitProcesses, sandbox.LimitOpenFiles,
		sandbox.LimitFileSize, sandbox.LimitDisk, sandbox.LimitResult,
	}
	if slices.Contains(known, name) {
		return name
	}
	return ""
}

// decodeImage decodes the payload of an Image frame.
func decodeImage(payload []byte) (sandbox.Image, error) {
	var i struct {
		MIME string `json:"mime"`
		Data []byte `json:"data"`
	}
	if err := json.Unmarshal(payload, &i); err != nil {
		return sandbox.Image{}, fmt.Errorf("%w: image: %w", ErrProtocol, err)
	}
	if len(i.Data) > maxImageBytes {
		return sandbox.Image{}, fmt.Errorf("%w: image of %d bytes, at most %d are allowed", ErrProtocol, len(i.Data), maxImageBytes)
	}
	if mime := sniff(i.Data); mime == "" || mime != i.MIME {
		return sandbox.Image{}, fmt.Errorf("%w: image without the signature of %.40q", ErrProtocol, i.MIME)
	}
	return sandbox.Image{MIME: i.MIME, Data: i.Data}, nil
}

// sniff returns the image type whose signature p begins with, or "".
func sniff(p []byte) string {
	switch {
	case bytes.HasPrefix(p, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(p, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case bytes.HasPrefix(p, []byte("GIF87a")), bytes.HasPrefix(p, []byte("GIF89a")):
		return "image/gif"
	case len(p) >= 12 && string(p[:4]) == "RIFF" && string(p[8:12]) == "WEBP":
		return "image/webp"
	}
	return ""
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

func toValidUTF8(p []byte) []byte { return bytes.ToValidUTF8(p, []byte("\uFFFD")) }

// tail keeps the last maxStderr bytes written to it.
type tail struct {
	b   []byte
	cut bool
}

func (t *tail) write(p []byte) {
	t.b = append(t.b, p[max(0, len(p)-maxStderr):]...)
	t.cut = t.cut || len(p) > maxStderr
	if len(t.b) > 2*maxStderr {
		t.trim()
	}
}

func (t *tail) trim() {
	if len(t.b) > maxStderr {
		t.b = append(t.b[:0], t.b[len(t.b)-maxStderr:]...)
		t.cut = true
	}
}

// String returns the end of the text written, with "…" in front if the start was
// cut off.
func (t *tail) String() string {
	t.trim()
	s := string(toValidUTF8(t.b))
	if t.cut {
		s = "…" + s
	}
	return s
}
