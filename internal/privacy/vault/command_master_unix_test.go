//go:build unix

package vault

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// testKey has characters in which the alphabets of base64 differ.
var testKey = []byte(strings.Repeat("\xfb\xff\xfe\x01", keySize/4))

// script returns the command of a shell script.
func script(t *testing.T, text string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "print-key.sh")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"/bin/sh", path}
}

func fetch(t *testing.T, args []string, timeout time.Duration) (key []byte, log string, err error) {
	var text bytes.Buffer
	key, err = newCommandMaster(args, timeout, slog.New(slog.NewTextHandler(&text, nil))).(fetchedMaster).fetch(t.Context())
	return key, text.String(), err
}

func TestCommandPrintsKey(t *testing.T) {
	std, url := base64.StdEncoding.EncodeToString(testKey), base64.URLEncoding.EncodeToString(testKey)
	for name, text := range map[string]string{
		"base64":                   "printf %s " + std,
		"without padding":          "printf %s " + strings.TrimRight(std, "="),
		"URL alphabet":             "printf %s " + url,
		"URL alphabet, no padding": "printf %s " + strings.TrimRight(url, "="),
		"hexadecimal":              "printf %s " + hex.EncodeToString(testKey),
		"capitals":                 "printf %s " + strings.ToUpper(hex.EncodeToString(testKey)),
		"white space":              `printf ' \r\n\t%s\r\n\n' ` + std,
		"hexadecimal line":         "echo " + hex.EncodeToString(testKey),
		"messages":                 "echo warning >&2; echo " + std,
		"no input":                 "cat && echo " + std,
		"environment":              `echo "$TEST_KEY"`,
		"child with the pipe open": "sleep 600 & echo " + std,
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TEST_KEY", std)
			key, _, err := fetch(t, script(t, text), time.Minute)
			if err != nil || !bytes.Equal(key, testKey) {
				t.Errorf("got %x, %v", key, err)
			}
		})
	}
}

func TestCommandWithoutKeyIsRefused(t *testing.T) {
	std, digits := base64.StdEncoding.EncodeToString(testKey), hex.EncodeToString(testKey)
	for name, c := range map[string]struct{ text, want string }{
		"nothing":     {"true", "sh printed 0 bytes instead of a key"},
		"white space": {"echo", "printed 1 bytes instead of a key"},
		"too short":   {"printf %s " + base64.StdEncoding.EncodeToString(testKey[:31]), "printed 44 bytes instead of a key"},
		"too long": {"printf %s " + base64.StdEncoding.EncodeToString(append(testKey, 1)),
			"printed 44 bytes instead of a key"},
		"hexadecimal, too short": {"printf %s " + digits[2:], "printed 62 bytes instead of a key"},
		"hexadecimal, too long":  {"printf %s " + digits + "00", "printed 66 bytes instead of a key"},
		"64 other characters":    {"printf %s " + digits[1:] + "g", "printed 64 bytes instead of a key"},
		"two lines":              {"echo " + std[:20] + "; echo " + std[20:], "printed 46 bytes instead of a key"},
		"two keys":               {"echo " + std + "; echo " + std, "printed 90 bytes instead of a key"},
		"JSON":                   {`echo '{"SecretString": "` + std + `"}'`, "printed 65 bytes instead of a key"},
		"garbage":                {"printf '%%\\377\\000'", "printed 3 bytes instead of a key"},
		"32 bytes":               {"printf abcdefghijklmnopqrstuvwxyz012345", "printed 32 bytes instead of a key"},
		"much":                   {"head -c 5000 /dev/zero | tr '\\0' " + std[:1], "wrote more than 1024 bytes"},
		"endless":                {"yes " + std, "wrote more than 1024 bytes"},
		"exit status": {"echo " + std + "; echo 'Access\ndenied: no\t\033role' >&2; exit 7",
			"reason=\"ended with exit status 7\" stderr=\"Access denied: no role\""},
		"key among messages": {"set -x; echo " + std + "; echo '" + digits + "' >&2; exit 1", "stderr=\"+ echo … "},
		"key after many messages": {"head -c 4080 /dev/zero | tr '\\0' ' ' >&2; echo x " + std + " >&2; exit 1",
			"reason=\"ended with exit status 1\" stderr=x"},
		"long messages":          {"for i in $(seq 3000); do echo error >&2; done; exit 1", "stderr=\"error error"},
		"messages without a key": {"echo not logged in >&2", "reason=\"printed 0 bytes instead of a key\" stderr=\"not logged in"},
		"signal":                 {"kill -KILL $$", "ended with signal: killed"},
		"hangs":                  {"echo " + std + "; sleep 600", "did not answer within"},
		"hangs with a child":     {"echo " + std + "; sleep 600 & wait", "did not answer within"},
		"hangs, with its messages": {"echo waiting for the fingerprint >&2; trap '' TERM; sleep 600",
			"stderr=\"waiting for the fingerprint"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := 2 * time.Minute
			if strings.HasPrefix(name, "hangs") {
				timeout = 3 * time.Second
			}
			key, log, err := fetch(t, script(t, c.text), timeout)
			if key != nil || fault.KindOf(err) != fault.Unavailable || !strings.HasPrefix(fault.Message(err),
				"the master key cannot be read: ") ||
				!strings.Contains(fault.Message(err)+log, c.want) || strings.Contains(err.Error(), "stderr") ||
				!strings.Contains(fault.Hint(err), "32 bytes in base64 or 64 hexadecimal digits") {
				t.Errorf("got %x, %v, hint %q; want %q", key, err, fault.Hint(err), c.want)
			}
			all := err.Error() + fault.Hint(err) + strings.TrimSuffix(log, "\n")
			for _, secret := range []string{std[:8], digits[:8], "abcdefg"} {
				if strings.Contains(all, secret) {
					t.Errorf("the error contains a key: %s", all)
				}
			}
			if len(log) > 600 || strings.ContainsAny(all, "\n\t\033") {
				t.Errorf("the error is long, or not one line: %q", all)
			}
		})
	}
}

func TestMissingCommand(t *testing.T) {
	if _, _, err := fetch(t, []string{"/no/such/print-key"}, time.Minute); fault.KindOf(err) != fault.Unavailable ||
		fault.Message(err) != "the master key cannot be read: print-key could not be started" {
		t.Error(err)
	}
}

// waitContext is a context that reports when a lock waits for its end.
type waitContext struct {
	context.Context
	waits chan<- struct{}
}

func (c waitContext) Done() <-chan struct{} {
	select {
	case c.waits <- struct{}{}:
	default: // the command runs
	}
	return c.Context.Done()
}

// Callers that wait for a run share its outcome; a success is final, and a failure is not.
func TestCommandRunsOnce(t *testing.T) {
	const callers = 5
	dir := t.TempDir()
	c := &keyCommand{args: script(t, "printf x >>"+dir+"/runs; cat "+dir+"/key"), timeout: time.Minute, log: slog.New(slog.DiscardHandler),
		running: make(mutex, 1)}
	ran := func(want int) {
		t.Helper()
		if b, err := os.ReadFile(dir + "/runs"); err != nil || len(b) != want {
			t.Errorf("%d runs, want %d; %v", len(b), want, err)
		}
	}
	if err := c.running.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	waits := make(chan struct{}, callers)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			if _, err := c.get(waitContext{t.Context(), waits}); err == nil {
				t.Error("there is no key yet")
			}
		})
	}
	for len(waits) < callers {
		runtime.Gosched()
	}
	c.running.unlock()
	all.Wait()
	ran(1)
	if err := os.WriteFile(dir+"/key", []byte(hex.EncodeToString(testKey)), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if key, err := c.get(t.Context()); err != nil || !bytes.Equal(key, testKey) {
			t.Errorf("%x, %v", key, err)
		}
	}
	ran(2)
}

func TestCommandMaster(t *testing.T) {
	dir := t.TempDir()
	put := func(first byte) {
		t.Helper()
		key := append([]byte{first}, testKey[1:]...)
		if err := os.WriteFile(dir+"/printed", []byte(base64.StdEncoding.EncodeToString(key)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := func(args []string) Master { return NewCommandMaster(args, slog.New(slog.DiscardHandler)) }
	printed := []string{"cat", dir + "/printed"}
	file, err := OpenMaster(t.Context(), "file", dir)
	if err != nil {
		t.Fatal(err)
	}
	dbs := map[string]*store.DB{}
	vault := func(name string, m Master) *Vault {
		t.Helper()
		id, err := tenant.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		if dbs[name] == nil {
			dbs[name], err = store.Open(t.Context(), filepath.Join(dir, name+".db"),
				[]store.Migration{{Number: 1, Name: "vault", SQL: Tables}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { dbs[name].Close() })
		}
		return New(Config{DB: dbs[name], Tenant: id, Master: m})
	}
	value := Value{Type: detect.Email, Text: "ada@example.com"}
	put(1)
	tokens := map[string][]Token{}
	for _, name := range []string{"a", "b"} {
		if tokens[name], err = vault(name, command(printed)).Tokenize(t.Context(), "", []Value{value}); err != nil {
			t.Fatal(err)
		}
	}
	restores := func(name string, m Master) {
		t.Helper()
		if got, err := vault(name, m).Restore(t.Context(), "", tokens[name]); err != nil || got[tokens[name][0]] != value {
			t.Errorf("%s restores %v, %v", name, got, err)
		}
	}
	refuses := func(name string, m Master, message, hint string) {
		t.Helper()
		v := vault(name, m)
		_, err := v.Restore(t.Context(), "", tokens[name])
		_, second := v.Tokenize(t.Context(), "", []Value{value})
		for _, err := range []error{err, second} {
			if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), message) ||
				!strings.Contains(fault.Hint(err), hint) {
				t.Errorf("%s: %v, hint %q", name, err, fault.Hint(err))
			}
		}
	}
	restores("a", command(printed))
	refuses("a", file, "were wrapped with master key command, but the configuration names file", "set pii.key_command again")
	if got, err := vault("b", command(printed)).Restore(t.Context(), "", tokens["a"]); err != nil || len(got) != 0 {
		t.Errorf("another tenant restores %v, %v", got, err)
	}

	put(2)
	refuses("a", command(printed), "is required, but the output of cat has", "no other key is accepted")

	// From one command to another, of one tenant; then to a file and back.
	put(1)
	old := command(printed)
	restores("b", old) // it has read the key
	put(2)
	if err := vault("a", old).Rewrap(t.Context(), command(printed)); err != nil {
		t.Fatal(err)
	}
	restores("a", command(printed))
	refuses("b", command(printed), "is required, but the output of cat has", "no other key is accepted")
	if err := vault("a", command(printed)).Rewrap(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	restores("a", file)
	refuses("a", command(printed), "were wrapped with master key file, but the configuration names command", "set pii.key to file again")
	if err := vault("a", file).Rewrap(t.Context(), command(printed)); err != nil {
		t.Fatal(err)
	}
	restores("a", command(printed))

	// A command that prints no key changes nothing.
	if err := vault("a", command(printed)).Rewrap(t.Context(), command([]string{"false"})); fault.KindOf(err) != fault.Unavailable {
		t.Error(err)
	}
	restores("a", command(printed))
}
