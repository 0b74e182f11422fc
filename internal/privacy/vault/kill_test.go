//go:build unix

package vault_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// TestMain runs the program as the child process of kill.
func TestMain(m *testing.M) {
	work := map[string]func(context.Context, *vault.Vault) error{"tokenize": tokenizeForever,
		"rotate": rotateForever}[os.Getenv("VAULT_WORK")]
	if work == nil {
		os.Exit(m.Run())
	}
	if err := child(context.Background(), os.Getenv("VAULT_DIR"), work); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(1)
}

func child(ctx context.Context, dir string, work func(context.Context, *vault.Vault) error) error {
	db, err := store.Open(ctx, (&testDir{dir: dir}).file("a"), []store.Migration{{Number: 1, Name: "vault", SQL: vault.Tables}})
	if err != nil {
		return err
	}
	master, err := vault.OpenMaster(ctx, "file", dir)
	if err != nil {
		return err
	}
	id, err := tenant.Parse("a")
	if err != nil {
		return err
	}
	return work(ctx, vault.New(vault.Config{DB: db, Tenant: id, Master: master}))
}

// tokenizeForever prints tokens with their values.
func tokenizeForever(ctx context.Context, v *vault.Vault) error {
	for i := 0; ; i++ {
		var values []vault.Value
		for k := range 7 {
			values = append(values, email(fmt.Sprintf("%d.%d.%d@example.com", os.Getpid(), i, k)))
		}
		tokens, err := v.Tokenize(ctx, "s", values)
		if err != nil {
			return err
		}
		for k, token := range tokens {
			fmt.Println(token, values[k].Text)
		}
	}
}

// rotateForever prints a line before each rotation.
func rotateForever(ctx context.Context, v *vault.Vault) error {
	for {
		fmt.Println("again")
		if err := v.Rotate(ctx); err != nil {
			return err
		}
	}
}

// kill runs this program until it has printed some lines, kills it after a delay, and
// returns all complete lines.
func kill(t *testing.T, dir, work string, lines int, then time.Duration) (printed []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "VAULT_WORK="+work, "VAULT_DIR="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			break
		}
		if printed = append(printed, strings.TrimSpace(line)); len(printed) == lines {
			time.AfterFunc(then, func() { cmd.Process.Kill() }) // the delay differs in each round
		}
	}
	io.Copy(io.Discard, r)
	cmd.Wait()
	if len(printed) < lines {
		t.Fatalf("%s printed %d lines and exited", work, len(printed))
	}
	return printed
}

func TestTokenSurvivesKill(t *testing.T) {
	p := newTestDir(t)
	theirs := tokenize(t, p.open(t, "b"), "s", email("ada@example.com"))
	var all []string
	for round := range 5 {
		all = append(all, kill(t, p.dir, "tokenize", 20+round*30, time.Duration(round)*700*time.Microsecond)...)
	}
	v := p.open(t, "a")
	for _, line := range all {
		token, text, _ := strings.Cut(line, " ")
		if got := restoreValues(t, v, vault.Token(token)); got[vault.Token(token)] != email(text) {
			t.Errorf("%s: want %s, restored %v", token, text, got)
		}
	}
	if got := restores(t, p.open(t, "b"), "s", theirs...); len(got) != 1 {
		t.Error("another tenant's token is lost")
	}
}

func TestRotateSurvivesKill(t *testing.T) {
	p := newTestDir(t)
	values := many(2000)
	tokens := tokenize(t, p.open(t, "a"), "s", values...)
	theirs := tokenize(t, p.open(t, "b"), "s", values[0])
	keys := 0
	for round := range 8 {
		kill(t, p.dir, "rotate", 1+round%2, time.Duration(round)*5*time.Millisecond)
		keys = max(keys, len(column(t, p.db(t, "a"), "SELECT number FROM vault_keys WHERE use = 'data'")))
		got := restores(t, p.open(t, "a"), "s", tokens...)
		for i, token := range tokens {
			if got[token] != values[i] {
				t.Fatalf("round %d: %s is lost", round, token)
			}
		}
	}
	if keys < 2 {
		t.Log("no rotation was interrupted")
	}
	if err := p.open(t, "a").Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(column(t, p.db(t, "a"), "SELECT number FROM vault_keys WHERE use = 'data'")); n != 1 {
		t.Errorf("%d data keys after a complete rotation", n)
	}
	if got := restores(t, p.open(t, "a"), "s", tokens...); len(got) != len(tokens) {
		t.Errorf("%d of %d values are left", len(got), len(tokens))
	}
	if got := restores(t, p.open(t, "b"), "s", theirs...); len(got) != 1 {
		t.Error("another tenant's token is lost")
	}
}
