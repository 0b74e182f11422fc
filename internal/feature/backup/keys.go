package backup

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"filippo.io/age"
	"golang.org/x/term"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// keys are the flags with which a file is encrypted or decrypted.
type keys struct {
	recipients []string
	identity   string // name of a file
	passphrase string // name of a file
}

// maxKeyFile limits the file of a passphrase or of identities in bytes.
const maxKeyFile = 1 << 20

// readRecipients returns what an export or a backup is encrypted to. Without flags it asks for a passphrase.
func readRecipients(env *cli.Env, k keys) (all []age.Recipient, err error) {
	if len(k.recipients) > 0 {
		if k.passphrase != "" {
			return nil, cli.Usagef("--recipient and --passphrase-file exclude each other")
		}
		for _, text := range k.recipients {
			some, err := age.ParseRecipients(strings.NewReader(text))
			if err != nil {
				return nil, fault.Wrap(fault.Invalid, err, "%.80q is not an age recipient", text).
					WithHint("age-keygen -y prints the recipient of an identity")
			}
			all = append(all, some...)
		}
		return all, nil
	}
	pass, err := readPassphrase(env, k.passphrase, true)
	if err != nil {
		return nil, err
	}
	r, err := age.NewScryptRecipient(pass)
	return []age.Recipient{r}, err
}

// readIdentities returns what an export or a backup is decrypted with. Without flags it asks for a passphrase.
func readIdentities(env *cli.Env, k keys) ([]age.Identity, error) {
	if k.identity != "" {
		if k.passphrase != "" {
			return nil, cli.Usagef("--identity and --passphrase-file exclude each other")
		}
		b, err := cli.ReadInput(k.identity, maxKeyFile)
		if err != nil {
			return nil, cli.InputFault("read the identity", err)
		}
		all, err := age.ParseIdentities(bytes.NewReader(b))
		if err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "%s contains no age identity", k.identity).WithHint("age-keygen creates one")
		}
		return all, nil
	}
	pass, err := readPassphrase(env, k.passphrase, false)
	if err != nil {
		return nil, err
	}
	i, err := age.NewScryptIdentity(pass)
	return []age.Identity{i}, err
}

// readPassphrase reads a passphrase from a file, or from the terminal without showing it.
func readPassphrase(env *cli.Env, file string, twice bool) (string, error) {
	if file != "" {
		b, err := cli.ReadInput(file, maxKeyFile)
		if err != nil {
			return "", cli.InputFault("read the passphrase", err)
		}
		line, _, _ := strings.Cut(string(b), "\n")
		if line = strings.TrimSuffix(line, "\r"); line == "" {
			return "", fault.New(fault.Invalid, "the first line of %s is empty: it must be the passphrase", file)
		}
		return line, nil
	}
	in, ok := env.Stdin.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return "", fault.New(fault.Invalid, "there is no terminal to ask for a passphrase").
			WithHint("give --passphrase-file, or %s", cmp.Or(map[bool]string{true: "--recipient"}[twice], "--identity"))
	}
	pass, err := readSecret(env, in, "passphrase: ")
	if err != nil || !twice {
		return pass, err
	}
	again, err := readSecret(env, in, "the same again: ")
	if err == nil && again != pass {
		err = fault.New(fault.Invalid, "the passphrases differ; nothing was written")
	}
	return pass, err
}

func readSecret(env *cli.Env, in *os.File, prompt string) (string, error) {
	fmt.Fprint(env.Stderr, prompt)
	b, err := term.ReadPassword(int(in.Fd()))
	fmt.Fprintln(env.Stderr)
	if err == nil && len(b) == 0 {
		err = fault.New(fault.Invalid, "the passphrase is empty")
	}
	return string(b), err
}

// decryptFault is the error of a file of a command that cannot be decrypted.
func decryptFault(file, command string, err error) error {
	if _, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
		return fault.Wrap(fault.Denied, err, "%s was encrypted to another recipient or passphrase", file).
			WithHint("give the right one with --identity or --passphrase-file")
	}
	return fault.Wrap(fault.Invalid, err, "%s is not a file of %s, or is damaged: %v", file, command, err)
}
