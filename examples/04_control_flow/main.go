// Command 04_control_flow sends code that handles the errors of tools, and handles those of code.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log"

	"github.com/sandpiper-mcp/sandpiper"
	"github.com/sandpiper-mcp/sandpiper/examples/internal/show"
)

const task = "Get the forecast of each city in a file, calculate the price of a tour and write the plans to a file"

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
	_, err = c.Execute(ctx, "from servers import weather; weather.get_forecast(city='Oslo', days=30)")
	var failed *sandpiper.ExecutionError
	if !errors.As(err, &failed) {
		return err
	}
	fmt.Printf("error: %s: %s\n", failed.Result.ErrorType, failed.Result.Error)
	r, err := c.Execute(ctx, code)
	if err != nil {
		return err
	}
	if err := show.Result(r); err != nil {
		return err
	}
	return show.Saved(ctx, c, task)
}
