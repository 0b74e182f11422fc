package sandpiper_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"regexp"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper"
)

// temporary returns a configuration whose data is deleted by the function.
func temporary() (sandpiper.Config, func()) {
	dir, err := os.MkdirTemp("", "sandpiper-example-")
	if err != nil {
		log.Fatal(err)
	}
	return sandpiper.Config{DataDir: dir}, func() { os.RemoveAll(dir) }
}

func Example() {
	ctx := context.Background()
	cfg, remove := temporary()
	defer remove()
	c, err := sandpiper.Open(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	if err := c.Files().Write(ctx, "orders.json", []byte(`[{"amount": 3}, {"amount": 4}]`)); err != nil {
		log.Fatal(err)
	}
	r, err := c.Execute(ctx, `
orders = json.loads(read_file("orders.json"))
print(len(orders), "orders")
sum(o["amount"] for o in orders)
`)
	if err != nil {
		log.Fatal(err)
	}
	var total int
	if err := r.Decode(&total); err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Output, total)
	// Output: [2 orders] 7
}

func ExampleClient_Execute_error() {
	ctx := context.Background()
	cfg, remove := temporary()
	defer remove()
	c, err := sandpiper.Open(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	_, err = c.Execute(ctx, "1 / 0")
	if failed, ok := errors.AsType[*sandpiper.ExecutionError](err); ok {
		fmt.Println(failed.Result.ErrorType)
	}
	fmt.Println(err)
	// Output:
	// ZeroDivisionError
	// sandpiper: ZeroDivisionError: division by zero
}

func ExampleClient_Session() {
	ctx := context.Background()
	cfg, remove := temporary()
	defer remove()
	c, err := sandpiper.Open(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	s := c.Session("analysis")
	if _, err := s.Execute(ctx, "prices = [3, 4, 5]"); err != nil {
		log.Fatal(err)
	}
	r, err := s.Execute(ctx, "max(prices)")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(r.Value))
	// Output: 5
}

// Stock are the arguments of the tool stock.
type Stock struct {
	Product string `json:"product"`
}

// Count is its result.
type Count struct {
	Count int `json:"count"`
}

// Code imports the tools of a server that is written in Go.
func ExampleConfig_servers() {
	shop := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
	mcp.AddTool(shop, &mcp.Tool{Name: "stock", Description: "Number of items in stock"},
		func(_ context.Context, _ *mcp.CallToolRequest, s Stock) (*mcp.CallToolResult, Count, error) {
			return nil, Count{len(s.Product)}, nil
		})

	ctx := context.Background()
	cfg, remove := temporary()
	defer remove()
	cfg.Servers = map[string]*mcp.Server{"shop": shop}
	c, err := sandpiper.Open(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	r, err := c.Execute(ctx, `
from servers.shop import stock
{p: stock(p)["count"] for p in ["tea", "coffee"]}
`)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(r.Value))
	found, err := c.Tools().Search(ctx, "how many are in stock", 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(found[0].Name, found[0].Signature)
	// Output:
	// {"tea":3,"coffee":6}
	// shop.stock stock(product: str) -> {"count": int}
}

// A guardrail checks code and arguments, and a hook decides about calls.
func ExampleConfig_guardrails() {
	ctx := context.Background()
	cfg, remove := temporary()
	defer remove()
	internal := regexp.MustCompile(`\.corp\.example\b`)
	cfg.Guardrails = []sandpiper.Guardrail{{
		Name: "internal-hosts",
		Check: func(_ context.Context, text string) (sandpiper.Decision, error) {
			if internal.MatchString(text) {
				return sandpiper.Decision{Action: sandpiper.Block, Reason: "names an internal host"}, nil
			}
			return sandpiper.Decision{Action: sandpiper.Allow}, nil
		},
	}}
	cfg.Hooks = []sandpiper.Hook{{
		On: sandpiper.AfterCode,
		Decide: func(_ context.Context, e sandpiper.Event) (sandpiper.Decision, error) {
			fmt.Println("code of", e.Tenant, "ended with", string(e.Result))
			return sandpiper.Decision{Action: sandpiper.Allow}, nil
		},
	}}
	c, err := sandpiper.Open(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	_, err = c.Execute(ctx, `host = "db.corp.example"`)
	fmt.Println(err)
	if _, err := c.Execute(ctx, "6 * 7"); err != nil {
		log.Fatal(err)
	}
	// Output:
	// sandpiper: guardrail: the code was not run: internal-hosts: names an internal host
	// code of local ended with {"result":42,"output":[]}
}

// Doubler writes a program for one kind of task.
type Doubler struct{}

// Generate implements sandpiper.Generator.
func (Doubler) Generate(_ context.Context, r sandpiper.GenerateRequest) (sandpiper.Program, error) {
	number := regexp.MustCompile(`\d+`).FindString(r.Task)
	if number == "" {
		return sandpiper.Program{}, errors.New("the task has no number")
	}
	return sandpiper.Program{Code: "2 * " + number}, nil
}

func ExampleGenerator() {
	ctx := context.Background()
	cfg, remove := temporary()
	defer remove()
	cfg.Generator = Doubler{}
	c, err := sandpiper.Open(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	r, err := c.Task(ctx, "Double 21")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Code, "is", string(r.Value))
	_, err = c.Task(ctx, "Double it")
	fmt.Println(err)
	// Output:
	// 2 * 21 is 42
	// sandpiper: task: the task has no number
}

// Code that asks a person ends with its questions, and Resume continues it with the answer.
func ExampleClient_Resume() {
	ctx := context.Background()
	cfg, remove := temporary()
	defer remove()
	c, err := sandpiper.Open(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	r, err := c.Execute(ctx, `"paint it " + ask("Which colour?", {"enum": ["red", "blue"]})`)
	if r == nil || len(r.Questions) == 0 {
		log.Fatal(err)
	}
	fmt.Println(r.Questions[0].Question)
	r, err = c.Resume(ctx, r.ExecutionID, "blue")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(r.Value))
	// Output:
	// Which colour?
	// "paint it blue"
}

func ExampleSkills() {
	ctx := context.Background()
	cfg, remove := temporary()
	defer remove()
	c, err := sandpiper.Open(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	err = c.Skills().Save(ctx, sandpiper.Skill{
		Name: "money", Description: "Format amounts",
		Code: "def euros(cents):\n    return f'{cents / 100:.2f} EUR'\n",
	})
	if err != nil {
		log.Fatal(err)
	}
	r, err := c.Execute(ctx, "from skills.money import euros\neuros(1250)")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(r.Value))
	// Output: "12.50 EUR"
}

// A server that was started with "sandpiper serve --http 127.0.0.1:8765 --profile full".
func ExampleDial() {
	ctx := context.Background()
	c, err := sandpiper.Dial(ctx, "http://127.0.0.1:8765/mcp", os.Getenv("SANDPIPER_TOKEN"))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	r, err := c.Execute(ctx, "1 + 1")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(r.Value))
}

// A workflow is saved, and runs every morning. A person, or as here the policy, allows the schedule.
func ExampleWorkflows() {
	ctx := context.Background()
	cfg, remove := temporary()
	defer remove()
	cfg.YAML = "policy: {rules: [{tool: sandpiper.create_schedule, decision: allow}]}"
	c, err := sandpiper.Open(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	err = c.Workflows().Save(ctx, `
name: total
steps:
  - {name: sum, type: code_execution, config: {code: "result = sum(range(10))"}}
outputs: {sum: "${{ steps.sum.result }}"}
`)
	if err != nil {
		log.Fatal(err)
	}
	r, err := c.Workflows().Run(ctx, "total", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(r.Value))
	s, err := c.Schedules().Create(ctx, sandpiper.Schedule{Name: "daily", Workflow: "total", Cron: "0 8 * * *", TimeZone: "UTC"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.State, s.Next.Format("15:04"))
	// Output:
	// {"sum":45}
	// active 08:00
}

func ExampleBackground() {
	ctx := context.Background()
	cfg, remove := temporary()
	defer remove()
	c, err := sandpiper.Open(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	id, err := c.Background().Dispatch(ctx, sandpiper.BackgroundRequest{Code: "result = wait_for('paid')['amount'] * 2"})
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Background().Signal(ctx, id, "paid", map[string]int{"amount": 21}); err != nil {
		log.Fatal(err)
	}
	r, err := c.Background().Wait(ctx, id) // also in another program, with the id
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(r.Value))
	// Output: 42
}
