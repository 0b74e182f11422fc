// Command 05_state_persistence resumes work after a restart: a state, files and a session's log persist.
package main

import (
	"context"
	_ "embed"
	"fmt"
	"log"
	"strings"

	"github.com/sandpiper-mcp/sandpiper"
	"github.com/sandpiper-mcp/sandpiper/examples/internal/show"
)

const task = "Get the forecast of some cities and keep notes in the memory graph"

//go:embed code_1.py
var begin string

//go:embed code_2.py
var resume string

func main() {
	for _, part := range []func(context.Context, *sandpiper.Client) error{first, second} {
		if err := run(context.Background(), part); err != nil {
			log.Fatal(err)
		}
	}
}

// run starts Sandpiper for a part of the work, and stops it.
func run(ctx context.Context, part func(context.Context, *sandpiper.Client) error) error {
	c, err := sandpiper.Open(ctx, sandpiper.Config{File: "sandpiper.yaml"})
	if err != nil {
		return err
	}
	defer c.Close()
	return part(ctx, c)
}

func first(ctx context.Context, c *sandpiper.Client) error {
	session := c.Session("weather")
	r, err := session.Execute(ctx, begin)
	if err != nil {
		return err
	}
	if err := show.Result(r); err != nil {
		return err
	}
	if r, err = session.Execute(ctx, "len(CITIES)"); err != nil {
		return err
	}
	fmt.Println("variables live as long as the session:", string(r.Value))
	return nil
}

func second(ctx context.Context, c *sandpiper.Client) error {
	r, err := c.Execute(ctx, resume)
	if err != nil {
		return err
	}
	if err := show.Result(r); err != nil {
		return err
	}
	report, err := c.Files().Read(ctx, "report.csv")
	if err != nil {
		return err
	}
	fmt.Println(strings.SplitN(string(report), "\n", 2)[0])
	return show.Saved(ctx, c, task)
}
