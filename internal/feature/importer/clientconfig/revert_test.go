package clientconfig

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/config/rewrite"
)

// FuzzUndo checks that undo restores a file that has not changed byte for byte, and the content of a
// file that the client has written in its own format.
func FuzzUndo(f *testing.F) {
	for _, tc := range edits {
		f.Add(tc.file.toml, []byte(tc.text))
	}
	f.Fuzz(func(t *testing.T, asTOML bool, text []byte) {
		env := Env{Home: t.TempDir(), Dir: "/nowhere", Lookup: func(string) (string, bool) { return "", false }}
		c, _ := ClientByID(map[bool]string{true: "codex", false: "cursor"}[asTOML])
		file, _ := Target(env, c, false)
		before, err := file.parse(text)
		if err != nil || tableAt(before.root, file.table)[EntryName] != nil {
			return
		}
		drop := slices.Collect(maps.Keys(tableAt(before.root, file.table)))
		after, err := file.Edit(text, Edit{Put: &launch, Drop: drop})
		if err != nil {
			return
		}
		if err := os.MkdirAll(filepath.Dir(file.Path), 0o700); err != nil {
			t.Fatal(err)
		}
		b := Backups{Dir: filepath.Join(env.Home, "config"), Env: env}
		undo := func(text, now []byte) []byte {
			if err := os.WriteFile(file.Path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Write(rewrite.Change{Path: file.Path, Old: text, New: after}); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file.Path, now, 0o600); err != nil {
				t.Fatal(err)
			}
			all, err := b.Undo(false, func(string) string { return "" })
			if err != nil || len(all) != 1 || all[0].Left != "" {
				t.Fatalf("%q became %q, then %q: %+v, %v", text, after, now, all, err)
			}
			return readFileOrFail(t, file.Path)
		}
		if got := undo(text, after); !bytes.Equal(got, text) {
			t.Errorf("%q became %q", text, got)
		}
		now := append(slices.Clone(after), "\n# later\n"...)
		if !asTOML {
			d, err := file.parse(after)
			if err != nil {
				t.Fatal(err)
			}
			if now, err = json.MarshalIndent(d.root, "", "\t"); err != nil {
				t.Fatal(err)
			}
		}
		got, err := file.parse(undo(text, now))
		if want, is := others(before.root, file.table, nil), others(got.root, file.table, nil); err != nil ||
			len(want)+len(is) > 0 && !reflect.DeepEqual(want, is) {
			t.Errorf("%q became %q and %v, %v", text, now, got.root, err)
		}
	})
}

func readFileOrFail(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
