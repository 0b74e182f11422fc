// Command 02_multi_tool_chain sends code that chains the tools of four servers.
package main

import (
	"context"
	_ "embed"
	"log"

	"github.com/sandpiper-mcp/sandpiper"
	"github.com/sandpiper-mcp/sandpiper/examples/internal/show"
)

const task = "Read the deliveries from a file, query them in the database, get the forecast of each city and calculate the price"

//go:embed code.py
var code string

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	c, err := sandpiper.Open(ctx, sandpiper.Config{File: "sandpiper.yaml"})
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := c.Execute(ctx, code)
	if err != nil {
		return err
	}
	if err := show.Result(r); err != nil {
		return err
	}
	return show.Saved(ctx, c, task)
}
