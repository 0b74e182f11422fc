package clientconfig

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"
)

// Limits of a file.
const (
	maxDepth   = 10_000 // of brackets; the parsers are recursive
	maxServers = 500    // in one table
)

// document is a parsed file.
type document struct {
	root  map[string]any
	names func(table []string) []string // the keys of a table in file order
}

// syntaxError is an error in the text of a file. It quotes nothing of the text,
// which may contain secrets.
type syntaxError struct {
	line    int
	message string
}

func (e *syntaxError) Error() string {
	if e.line > 0 {
		return "line " + strconv.Itoa(e.line) + " " + e.message
	}
	return e.message
}

// tableAt returns the table at a path of keys, nil if there is none.
func tableAt(root map[string]any, keys []string) map[string]any {
	for _, key := range keys {
		root, _ = root[key].(map[string]any)
	}
	return root
}

// Edit is a change to the servers of a file.
type Edit struct {
	Put      *Launch  // the entry of Sandpiper, to add or replace; nil for none
	Drop     []string // servers to remove, if they exist
	Back     []string // servers to add or replace, as Original has them
	Original []byte   // another text of the file
}

// EntryName is the name of Sandpiper's entry in the files of clients.
const EntryName = "sandpiper"

// Launch is the command line with which a client starts Sandpiper.
type Launch struct {
	Command  string
	Args     []string
	Approved bool // the client calls its tools without asking; ignored in files of JSON
}

// Approval is the setting of an entry with which Codex calls all its tools without asking.
const Approval = `default_tools_approval_mode = "approve"`

// quoted returns s as a JSON string, which is also a TOML basic string, without
// escapes for HTML.
func quoted(s string) string { return string(hujson.String(s)) }

// quotedList returns a list of strings in JSON and TOML.
func quotedList(all ...string) string {
	list := make([]string, len(all))
	for i, s := range all {
		list[i] = quoted(s)
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// lineEnd returns the line end of a text.
func lineEnd(text []byte) string {
	if bytes.Contains(text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// bom is the byte order mark that some Windows editors write.
var bom = []byte("\ufeff")
