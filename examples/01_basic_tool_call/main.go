// Command 01_basic_tool_call finds tools, calls one, and solves the task in words.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/sandpiper-mcp/sandpiper"
)

const task = "Calculate 5 + 3"

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
	found, err := c.Tools().Search(ctx, "calculate", 1)
	if err != nil {
		return err
	}
	fmt.Println("found:", found[0].Name, "-", found[0].Signature)
	selected, err := c.Tools().Select(ctx, task, 0, 0)
	if err != nil {
		return err
	}
	for _, tool := range selected.Tools {
		fmt.Println("selected:", tool.Name)
	}
	called, err := c.Tools().Call(ctx, "calculator.calculate", map[string]string{"expression": "5 + 3"})
	if err != nil {
		return err
	}
	var sum struct{ Result float64 }
	if err := called.Decode(&sum); err != nil {
		return err
	}
	fmt.Println("called directly:", sum.Result)

	solved, err := c.Task(ctx, task)
	if err != nil {
		return err
	}
	if err := solved.Decode(&sum); err != nil {
		return err
	}
	fmt.Print(solved.Code)
	fmt.Println("result:", sum.Result)
	fmt.Printf("tools: %d of %d, %.0f%%; %d tokens of definitions saved\n", len(solved.Tools), solved.Available, 100*solved.Share,
		solved.SavedTokens)
	return nil
}
