// Command 03_data_filtering sends code that reads 10,000 rows and returns a dozen lines.
package main

import (
	"context"
	_ "embed"
	"log"

	"github.com/sandpiper-mcp/sandpiper"
	"github.com/sandpiper-mcp/sandpiper/examples/internal/show"
)

const task = "Query the paid orders in the database and group them by region"

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
