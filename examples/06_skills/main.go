// Command 06_skills saves a skill and uses it by name.
package main

import (
	"context"
	_ "embed"
	"fmt"
	"log"

	"github.com/sandpiper-mcp/sandpiper"
	"github.com/sandpiper-mcp/sandpiper/examples/internal/show"
)

const task = "Read the sales of a year from a file and sum the amount by region"

//go:embed code_1.py
var save string

//go:embed code_2.py
var use string

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
	r, err := c.Execute(ctx, save)
	if err != nil {
		return err
	}
	if err := show.Result(r); err != nil {
		return err
	}
	skills, err := c.Skills().List(ctx)
	if err != nil {
		return err
	}
	for _, s := range skills {
		fmt.Printf("%s, version %d: %s\n", s.Name, s.Version, s.Description)
	}
	if r, err = c.Execute(ctx, use); err != nil {
		return err
	}
	if err := show.Result(r); err != nil {
		return err
	}
	return show.Saved(ctx, c, task)
}
