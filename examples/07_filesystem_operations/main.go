// Command 07_filesystem_operations sends code that works with files, and reads and writes those of the workspace.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"log"
	"strings"

	"github.com/sandpiper-mcp/sandpiper"
	"github.com/sandpiper-mcp/sandpiper/examples/internal/show"
)

const task = "Read the CSV files of a directory, sum their amounts and write the totals to a file"

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
	files := c.Files()
	travel, err := files.Read(ctx, "receipts/travel.csv")
	if err != nil {
		return err
	}
	fmt.Println("travel.csv has", bytes.Count(travel, []byte("\n")), "lines")
	if err := files.Write(ctx, "notes.txt", []byte("Receipts of June\n")); err != nil {
		return err
	}
	names, err := files.List(ctx, "")
	if err != nil {
		return err
	}
	fmt.Println("workspace:", strings.Join(names, " "))
	return show.Saved(ctx, c, task)
}
