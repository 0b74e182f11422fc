package skill

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/skill/skilltest"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
)

type testOptions struct {
	names          []string
	code           cli.Code // of --record
	record         bool
	live, deleteIt bool
}

func testCommand(env *cli.Env) *cobra.Command {
	var o testOptions
	c := &cobra.Command{
		Use:   "test [NAME...] [--live] | NAME --record [-c CODE|FILE|-] | NAME... --delete",
		Short: "Run the tests of skills, or record one",
		Long: `Test runs the recorded tests of the named skills, or of all skills. The code receives
the recorded answers of tools, which contain tokens in place of private values, and
no tool is called. A test fails if the code fails, makes a call without a recorded
answer, or if its result has another type than when it was recorded.

With --live, the tools are called. A skill that passes is not stale any more.

With --record, test runs code that calls the skill, with real calls of tools, and
stores it as a test with the answers and the type of its result.`,
		Example: `  sandpiper skills test high_risk --record -c 'from skills import high_risk; high_risk("acme/shop")'
  sandpiper skills test
  sandpiper skills test high_risk --live`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !o.record {
				o.names = args
				return runTest(cmd.Context(), env, o)
			}
			if len(args) == 0 || len(args) > 2 || o.live || o.deleteIt {
				return cli.Usagef("--record needs the NAME of one skill and code, and no other flag than -c")
			}
			o.names, o.code.Inline = args[:1], cmd.Flags().Changed("code")
			if len(args) > 1 {
				o.code.File = args[1]
			}
			return runRecord(cmd.Context(), env, o)
		},
	}
	c.Flags().BoolVar(&o.live, "live", false, "call the tools")
	c.Flags().BoolVar(&o.record, "record", false, "run code that calls the skill, and store it as a test")
	c.Flags().StringVarP(&o.code.Text, "code", "c", "", "with --record: run `CODE`")
	c.Flags().BoolVar(&o.deleteIt, "delete", false, "delete the tests of the named skills")
	return c
}

func runRecord(ctx context.Context, env *cli.Env, o testOptions) error {
	code, err := o.code.Read(env)
	if err != nil {
		return err
	}
	return cli.WithWarmHome(ctx, env, nil, func(d *daemon.Daemon, home *home.Home) error {
		name := o.names[0]
		made, err := skilltest.Record(ctx, d.Runner, home, name, code)
		if err != nil {
			return err
		}
		number, err := skilltest.Open(home).Add(ctx, name, made)
		if err != nil {
			return err
		}
		if env.JSON {
			return env.WriteJSON(map[string]any{"success": true, "skill": name, "test": number, "answers": len(made.Answers)})
		}
		env.Printf("recorded test %d of %s with %s\n", number, name, cli.Count(len(made.Answers), "answer"))
		return nil
	})
}

// testResult is the outcome of one test.
type testResult struct {
	Skill  string   `json:"skill"`
	Test   int      `json:"test"`
	Code   string   `json:"code"`
	Passed bool     `json:"passed"`
	Why    []string `json:"why,omitempty"`
}

func runTest(ctx context.Context, env *cli.Env, o testOptions) error {
	if o.deleteIt {
		return runTestDelete(ctx, env, o)
	}
	return cli.WithWarmHome(ctx, env, nil, func(d *daemon.Daemon, home *home.Home) error {
		skills, err := findSkills(ctx, home, o.names)
		if err != nil {
			return err
		}
		results, failed := []testResult{}, 0
		for _, m := range skills {
			done, err := testSkill(ctx, env, d, home, m, o)
			if err != nil {
				return err
			}
			for _, r := range done {
				if !r.Passed {
					failed++
				}
			}
			results = append(results, done...)
		}
		if env.JSON {
			err = env.WriteJSON(map[string]any{"success": failed == 0, "tests": results})
		} else if len(results) == 0 {
			env.Printf("%s\n", cli.Completed(env, "no tests; `sandpiper skills test NAME --record` records one"))
		} else {
			env.Printf("%d passed, %d failed\n", len(results)-failed, failed)
		}
		if failed > 0 && err == nil {
			return cli.Exit(cli.ExitFailed)
		}
		return err
	})
}

// findSkills returns the named skills, or all.
func findSkills(ctx context.Context, home *home.Home, names []string) ([]skill.Metadata, error) {
	if len(names) == 0 {
		return home.Skills.List(ctx)
	}
	var all []skill.Metadata
	for _, name := range names {
		found, err := home.Skills.Find(ctx, name, 0)
		if err != nil {
			return nil, err
		}
		all = append(all, found.Metadata)
	}
	return all, nil
}

// testSkill runs the tests of a skill.
func testSkill(ctx context.Context, env *cli.Env, d *daemon.Daemon, home *home.Home, m skill.Metadata, o testOptions) (results []testResult,
	err error) {
	tests, err := skilltest.Open(home).List(ctx, m.Name)
	if err != nil {
		return nil, err
	}
	if len(tests) == 0 && len(o.names) > 0 && !env.JSON {
		env.Printf("%s  no tests\n", m.Name)
	}
	passed := len(tests) > 0
	for _, t := range tests {
		done := env.Working("testing " + m.Name)
		why, err := skilltest.Run(ctx, d.Runner, home, t, o.live)
		done()
		if err != nil {
			return nil, err
		}
		passed = passed && len(why) == 0
		results = append(results, testResult{m.Name, t.Number, t.Code, len(why) == 0, why})
		if env.JSON {
			continue
		}
		state := "passed"
		if len(why) > 0 {
			state = "FAILED: " + cli.Visible(strings.Join(why, "; "))
		}
		env.Printf("%s  test %d  %s\n", m.Name, t.Number, state)
	}
	if o.live && passed {
		err = d.Runner.Skills(home, "").Accept(ctx, m)
	}
	return results, err
}

func runTestDelete(ctx context.Context, env *cli.Env, o testOptions) error {
	if len(o.names) == 0 || o.live {
		return cli.Usagef("--delete needs the names of skills, and no other flag")
	}
	return cli.WithHome(ctx, env, func(home *home.Home) error {
		deleted := 0
		for _, name := range o.names {
			n, err := skilltest.Open(home).Delete(ctx, name)
			if err != nil {
				return err
			}
			if n == 0 {
				return fault.New(fault.NotFound, "skill %q has no tests", name)
			}
			deleted += n
		}
		if env.JSON {
			return env.WriteJSON(map[string]any{"success": true, "deleted": deleted})
		}
		env.Printf("deleted %d tests\n", deleted)
		return nil
	})
}
