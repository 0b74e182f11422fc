package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// A backup is encrypted to a recipient or with a passphrase, and restored with the identity or the
// passphrase only.
func TestEncryptedBackupIsRestored(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	dir := t.TempDir()
	text := bytes.Repeat([]byte("of the customer\n"), 20_000)
	run := func(home string, want int, args ...string) string {
		t.Helper()
		cmd := sandpiper(home, args...)
		cmd.Stdin = bytes.NewReader(text)
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%s: exit code %d: %s", args, got, out)
		}
		return string(out)
	}
	write := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	identity := func(name string) (*age.X25519Identity, string) {
		t.Helper()
		i, err := age.GenerateX25519Identity()
		if err != nil {
			t.Fatal(err)
		}
		return i, write(name, i.String()+"\n")
	}
	own, ownFile := identity("own")
	_, otherFile := identity("other")
	pass, wrong := write("pass", "a long passphrase\n"), write("wrong", "another one\n")
	run(dir, 0, "files", "put", "-", "--as", "report.txt")
	key := filepath.Join(dir, "data", "sandpiper", "key")
	for _, c := range []struct {
		name            string
		encrypt, right  []string
		wrong           []string
		missing, refuse string
	}{
		{"recipient", []string{"--recipient", own.Recipient().String()}, []string{"--identity", ownFile}, []string{"--identity", otherFile},
			"--identity", "another recipient or passphrase"},
		{"passphrase", []string{"--passphrase-file", pass}, []string{"--passphrase-file", pass}, []string{"--passphrase-file", wrong},
			"--passphrase-file", "another recipient or passphrase"},
	} {
		file := filepath.Join(dir, c.name+".age")
		run(dir, 0, append([]string{"backup", file}, c.encrypt...)...)
		content, err := os.ReadFile(file)
		if err != nil || bytes.Contains(content, []byte("of the customer")) || bytes.Contains(content, []byte("report.txt")) ||
			len(content) < len(text) {
			t.Errorf("%s: %d bytes with the text or name of a file, %v", c.name, len(content), err)
		}
		home := t.TempDir()
		if out := run(home, 2, "restore", file, "--key", key); !strings.Contains(out, c.missing) {
			t.Errorf("%s: without anything: %s", c.name, out)
		}
		if out := run(home, 1, append([]string{"restore", file, "--key", key}, c.wrong...)...); !strings.Contains(out, c.refuse) {
			t.Errorf("%s: with another one: %s", c.name, out)
		}
		for what, damaged := range map[string][]byte{
			"truncated": content[:len(content)-100_000], "altered": append(append(bytes.Clone(content[:len(content)-150_000]), '~'),
				content[len(content)-149_999:]...),
		} {
			if out := run(home, 2, append([]string{"restore", write(what, string(damaged)), "--key", key},
				c.right...)...); !strings.Contains(out, "damaged") && !strings.Contains(out, "was changed after") {
				t.Errorf("%s, %s: %s", c.name, what, out)
			}
		}
		if _, err := os.Lstat(filepath.Join(home, "data", "sandpiper")); err == nil {
			t.Errorf("%s: a refused restore created the data directory", c.name)
		}
		run(home, 0, append([]string{"restore", file, "--key", key}, c.right...)...)
		if out := run(home, 0, "files", "cat", "report.txt"); out != string(text) {
			t.Errorf("%s: the file has %d bytes", c.name, len(out))
		}
		run(home, 0, "tenant", "suspend", "local")
		run(home, 0, append([]string{"restore", file, "--tenant", "local", "--replace"}, c.right...)...)
	}
	if out := run(dir, 2, "backup", filepath.Join(dir, "b"), "--recipient", own.Recipient().String(), "--passphrase-file",
		pass); !strings.Contains(out, "exclude each other") {
		t.Error(out)
	}
	if out := run(dir, 2, "backup", filepath.Join(dir, "b"), "--recipient", "age1x"); !strings.Contains(out, "not an age recipient") {
		t.Error(out)
	}
}
