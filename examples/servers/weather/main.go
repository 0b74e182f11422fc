// Command weather is a small MCP server with invented weather: it is computed from the
// name of the city, so that equal requests have equal results. It is an example, and a
// server for the project's tests.
package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"log"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type place struct {
	City string `json:"city" jsonschema:"name of the city"`
}

type span struct {
	place
	Days int `json:"days" jsonschema:"number of days, 1 to 14"`
}

type weather struct {
	City        string  `json:"city"`
	Temperature float64 `json:"temperature_c" jsonschema:"degrees Celsius"`
	Humidity    int     `json:"humidity" jsonschema:"per cent"`
	Condition   string  `json:"condition"`
	Note        string  `json:"note"`
}

type day struct {
	Day       int     `json:"day" jsonschema:"1 is tomorrow"`
	High      float64 `json:"high_c"`
	Low       float64 `json:"low_c"`
	Condition string  `json:"condition"`
}

type forecast struct {
	City string `json:"city"`
	Days []day  `json:"days"`
	Note string `json:"note"`
}

const note = "made up: computed from the name of the city, not measured"

func main() {
	s := mcp.NewServer(&mcp.Implementation{Name: "weather", Version: "1.0.0"},
		&mcp.ServerOptions{Instructions: "The weather here is made up."})
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true}
	mcp.AddTool(s, &mcp.Tool{Name: "get_weather", Description: "Made-up current weather of a city.", Annotations: readOnly},
		func(_ context.Context, _ *mcp.CallToolRequest, in place) (*mcp.CallToolResult, weather, error) {
			if err := in.check(); err != nil {
				return nil, weather{}, err
			}
			d := in.on(0)
			return nil, weather{in.City, (d.High + d.Low) / 2, 30 + int(in.dice(0, "humidity")%60), d.Condition, note}, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "get_forecast", Description: "Made-up weather of a city on the next days.", Annotations: readOnly},
		func(_ context.Context, _ *mcp.CallToolRequest, in span) (*mcp.CallToolResult, forecast, error) {
			if in.Days < 1 || in.Days > 14 {
				return nil, forecast{}, fmt.Errorf("days is %d: use 1 to 14", in.Days)
			}
			f := forecast{City: in.City, Note: note}
			for i := range in.Days {
				f.Days = append(f.Days, in.on(i+1))
			}
			return nil, f, in.check()
		})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}

func (p place) check() error {
	if strings.TrimSpace(p.City) == "" {
		return fmt.Errorf("city is empty: name one, such as Oslo")
	}
	return nil
}

func (p place) on(i int) day {
	low := float64(int(p.dice(i, "low")%300)-50) / 10
	conditions := []string{"sunny", "partly cloudy", "cloudy", "rain", "thunderstorm", "fog"}
	return day{i, low + 2 + float64(p.dice(i, "high")%80)/10, low, conditions[p.dice(i, "condition")%uint32(len(conditions))]}
}

// dice returns a pseudo-random number that depends only on its arguments.
func (p place) dice(day int, what string) uint32 {
	h := fnv.New32a()
	fmt.Fprintf(h, "%s/%d/%s", strings.ToLower(strings.TrimSpace(p.City)), day, what)
	return h.Sum32()
}
