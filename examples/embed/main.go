// Command embed runs Sandpiper in a program of its own module. It adds an MCP server, a
// guardrail, a hook and a generator in Go, and runs code that uses them.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "embed-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c, err := sandpiper.Open(ctx, sandpiper.Config{
		DataDir:    dir,
		YAML:       "sandbox: {timeout: 20s}",
		Servers:    map[string]*mcp.Server{"warehouse": warehouse()},
		Guardrails: []sandpiper.Guardrail{{Name: "no-orders", Check: noOrders}},
		Hooks:      []sandpiper.Hook{{On: sandpiper.BeforeCall, Tool: "warehouse.*", Decide: atMostTen}},
		Generator:  generator{},
	})
	if err != nil {
		return err
	}
	defer c.Close()

	r, err := c.Execute(ctx, `
from servers.warehouse import reserve
print(reserve(product="tea", count=3)["left"], "left")
`)
	if err != nil {
		return err
	}
	fmt.Println("code printed:", strings.Join(r.Output, "\n"))

	_, err = c.Execute(ctx, `call_tool("warehouse", "reserve", product="tea", count=11)`)
	fmt.Println("hook:", err)
	_, err = c.Execute(ctx, `"order everything"`)
	fmt.Println("guardrail:", err)

	done, err := c.Task(ctx, "Reserve 2 tea")
	if err != nil {
		return err
	}
	fmt.Printf("task: %s with %s\n", done.Value, strings.Join(done.Tools, ", "))
	return nil
}

type reservation struct {
	Product string `json:"product"`
	Count   int    `json:"count"`
}

type left struct {
	Left int `json:"left"`
}

// warehouse returns an MCP server with one tool.
func warehouse() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "warehouse", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "reserve", Description: "Reserve items of a product"},
		func(_ context.Context, _ *mcp.CallToolRequest, r reservation) (*mcp.CallToolResult, left, error) {
			return nil, left{100 - r.Count}, nil
		})
	return s
}

// noOrders is a guardrail.
func noOrders(_ context.Context, text string) (sandpiper.Decision, error) {
	if strings.Contains(text, "order everything") {
		return sandpiper.Decision{Action: sandpiper.Block, Reason: "asks for an order"}, nil
	}
	return sandpiper.Decision{Action: sandpiper.Allow}, nil
}

// atMostTen is a hook.
func atMostTen(_ context.Context, e sandpiper.Event) (sandpiper.Decision, error) {
	if strings.Contains(string(e.Arguments), `"count":11`) {
		return sandpiper.Decision{Action: sandpiper.Block, Reason: "at most 10 may be reserved"}, nil
	}
	return sandpiper.Decision{Action: sandpiper.Allow}, nil
}

// generator writes programs for one tool. A real one would ask a model.
type generator struct{}

// Generate implements sandpiper.Generator.
func (generator) Generate(_ context.Context, r sandpiper.GenerateRequest) (sandpiper.Program, error) {
	var count int
	var product string
	if _, err := fmt.Sscanf(r.Task, "Reserve %d %s", &count, &product); err != nil || len(r.Tools) == 0 {
		return sandpiper.Program{}, fmt.Errorf("the task must be: Reserve NUMBER PRODUCT")
	}
	return sandpiper.Program{Code: fmt.Sprintf("%s\nreserve(product=%q, count=%d)", r.Tools[0].Import, product, count)}, nil
}
