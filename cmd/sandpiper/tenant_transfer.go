package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"filippo.io/age"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// transferOptions are the flags of tenant export and tenant import.
type transferOptions struct {
	out, as, tier string
	recipients    []string
	identity      string
	passphrase    string // name of a file
}

func tenantExportCommand(env *cli.Env) *cobra.Command {
	var o transferOptions
	c := &cobra.Command{
		Use: "export ID --out FILE", Short: "Write all data of a suspended tenant to one encrypted file",
		Long: `Export writes the files, skills, sessions, records, suspended approvals, tokens with their values
and usage of a tenant to one file in the format of age (age-encryption.org), for tenant import on
this or another machine. The file is encrypted to recipients or with a passphrase. API keys, the
tier, and the audit log are not part of it.

The tenant must be suspended, so that the file contains one state of its data. FILE must not
exist; it is complete when it gets its name.`,
		Example: "  sandpiper tenant suspend customer_A\n  sandpiper tenant export customer_A --out customer_A.age --recipient age1...",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runTenantExport(cmd.Context(), env, args[0], o) },
	}
	c.Flags().StringVar(&o.out, "out", "", "`FILE` to create")
	c.Flags().StringArrayVar(&o.recipients, "recipient", nil, "encrypt to an age `RECIPIENT`, age1...; may be repeated")
	c.Flags().StringVar(&o.passphrase, "passphrase-file", "", "encrypt with the passphrase in the first line of `FILE`")
	return c
}

func tenantImportCommand(env *cli.Env) *cobra.Command {
	var o transferOptions
	c := &cobra.Command{
		Use: "import FILE", Short: "Create a tenant from an exported file",
		Long: `Import creates a tenant with the data in a file of tenant export. The whole file is verified
first; nothing is created from one that is truncated, altered or for another recipient. Values and
records are encrypted with the keys of this data directory, and tokens keep their values. The quota
of this configuration applies. A tenant that exists is never changed.

A file that was encrypted to a recipient does not prove who wrote it, because recipients are
public: import only files that you received from somebody you trust.`,
		Example: "  sandpiper tenant import customer_A.age --identity key.txt\n  sandpiper tenant import customer_A.age --as customer_B",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runTenantImport(cmd.Context(), env, args[0], o) },
	}
	c.Flags().StringVar(&o.as, "as", "", "create tenant `ID` instead of the exported one")
	c.Flags().StringVar(&o.identity, "identity", "", "decrypt with the age identities in `FILE`")
	c.Flags().StringVar(&o.passphrase, "passphrase-file", "", "decrypt with the passphrase in the first line of `FILE`")
	c.Flags().StringVar(&o.tier, "tier", "", "its tier, one of tiers: in the configuration")
	return c
}

func runTenantExport(ctx context.Context, env *cli.Env, uid string, o transferOptions) error {
	id, err := tenant.ParseStored(uid)
	if err != nil {
		return err
	}
	if o.out == "" {
		return cli.Usagef("tenant export needs --out FILE")
	}
	return cli.WithDaemon(env, func(d *daemon.Daemon) error {
		if _, err := d.Tenants.Find(id); err != nil { // before asking for a passphrase
			return noTenant(d, id, err)
		}
		recipients, err := readRecipients(env, o)
		if err != nil {
			return err
		}
		var done home.Transferred
		stop := env.Working("exporting")
		err = createFile(o.out, func(w io.Writer) error {
			encrypted, err := age.Encrypt(w, recipients...)
			if err != nil {
				return err
			}
			if done, err = d.Tenants.Export(ctx, id, encrypted); err != nil {
				return err
			}
			return encrypted.Close()
		})
		stop()
		return reportTransfer(ctx, env, d, id, "exported", done, err)
	})
}

func runTenantImport(ctx context.Context, env *cli.Env, file string, o transferOptions) (err error) {
	var as tenant.ID
	if o.as != "" {
		if as, err = tenant.Parse(o.as); err != nil {
			return err
		}
	}
	f, err := cli.OpenInput(file)
	if err != nil {
		return cli.InputFault("open the export", err)
	}
	defer f.Close()
	return cli.WithDaemon(env, func(d *daemon.Daemon) error {
		if err := d.Tiers.Check(o.tier); err != nil {
			return err
		}
		identities, err := readIdentities(env, o)
		if err != nil {
			return err
		}
		plain, err := age.Decrypt(f, identities...)
		if err != nil {
			return decryptFault(file, "tenant export", err)
		}
		stop := env.Working("importing")
		done, err := d.Tenants.Import(ctx, plain, as)
		stop()
		if err == nil && o.tier != "" {
			err = d.Tiers.Set(done.Tenant, o.tier)
		}
		return reportTransfer(ctx, env, d, done.Tenant, "imported", done, err)
	})
}

func decryptFault(file, command string, err error) error {
	if _, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
		return fault.Wrap(fault.Denied, err, "%s was encrypted to another recipient or passphrase", file).
			WithHint("give the right one with --identity or --passphrase-file")
	}
	return fault.Wrap(fault.Invalid, err, "%s is not a file of %s, or is damaged: %v", file, command, err)
}

// reportTransfer records the outcome in the audit log and prints it.
func reportTransfer(ctx context.Context, env *cli.Env, d *daemon.Daemon, id tenant.ID, outcome string, done home.Transferred, err error) error {
	line := audit.Line{Kind: audit.Configuration, Tenant: id, Section: "tenant", Outcome: outcome}
	if err != nil {
		line.Outcome = "not_" + outcome
	}
	if err := errors.Join(err, d.Record(context.WithoutCancel(ctx), line, "the tenant is "+outcome)); err != nil {
		return err
	}
	if done.Skipped > 0 {
		env.Warn(fmt.Sprintf("%d entries of the workspace are not files, links or directories, or cannot be read; they are not part of the export", done.Skipped))
	}
	if done.Damaged > 0 {
		env.Warn(fmt.Sprintf("%d encrypted records are damaged and cannot be read, here and in the copy", done.Damaged))
	}
	if env.JSON {
		return env.WriteJSON(map[string]any{"success": true, "tenant": done.Tenant, "files": done.Files, "bytes": done.Bytes, "skipped": done.Skipped, "damaged": done.Damaged})
	}
	env.Printf("Tenant %s is %s: %s with %s.\n", cli.VisibleName(id.String()), outcome, cli.Count(done.Files, "file"), cli.Count(done.Bytes, "byte"))
	return nil
}

// maxKeyFile limits the file of a passphrase or of identities in bytes.
const maxKeyFile = 1 << 20

// createFile creates a file with mode 0600 that has its name only once it is complete and on disk.
func createFile(path string, write func(io.Writer) error) error {
	dir := filepath.Dir(path)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, fault.New(fault.Invalid, "%s exists already; nothing was written", path).WithHint("give another name"))
	}
	f, link, err := createUnnamed(dir)
	if err != nil {
		if f, err = os.CreateTemp(dir, ".new-"+filepath.Base(path)+"-*"); err != nil {
			return fault.Wrap(fault.Invalid, err, "create a file in %s: %v", dir, err)
		}
		defer os.Remove(f.Name())
		link = func(path string) error {
			err := os.Link(f.Name(), path)
			if err != nil && !errors.Is(err, fs.ErrExist) {
				return os.Rename(f.Name(), path) // on file systems without hard links
			}
			return err
		}
	}
	defer f.Close()
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = link(path)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return durable.SyncDir(dir)
}

// recipients returns what an export or a backup is encrypted to. Without flags it asks for a passphrase.
func readRecipients(env *cli.Env, o transferOptions) (all []age.Recipient, err error) {
	if len(o.recipients) > 0 {
		if o.passphrase != "" {
			return nil, cli.Usagef("--recipient and --passphrase-file exclude each other")
		}
		for _, text := range o.recipients {
			some, err := age.ParseRecipients(strings.NewReader(text))
			if err != nil {
				return nil, fault.Wrap(fault.Invalid, err, "%.80q is not an age recipient", text).WithHint("age-keygen -y prints the recipient of an identity")
			}
			all = append(all, some...)
		}
		return all, nil
	}
	pass, err := readPassphrase(env, o.passphrase, true)
	if err != nil {
		return nil, err
	}
	r, err := age.NewScryptRecipient(pass)
	return []age.Recipient{r}, err
}

// identities returns what an export is decrypted with. Without flags it asks for a passphrase.
func readIdentities(env *cli.Env, o transferOptions) ([]age.Identity, error) {
	if o.identity != "" {
		if o.passphrase != "" {
			return nil, cli.Usagef("--identity and --passphrase-file exclude each other")
		}
		b, err := cli.ReadInput(o.identity, maxKeyFile)
		if err != nil {
			return nil, cli.InputFault("read the identity", err)
		}
		all, err := age.ParseIdentities(bytes.NewReader(b))
		if err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "%s contains no age identity", o.identity).WithHint("age-keygen creates one")
		}
		return all, nil
	}
	pass, err := readPassphrase(env, o.passphrase, false)
	if err != nil {
		return nil, err
	}
	i, err := age.NewScryptIdentity(pass)
	return []age.Identity{i}, err
}

// passphrase reads a passphrase from a file, or from the terminal without showing it.
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
