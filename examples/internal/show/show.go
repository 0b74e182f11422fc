// Package show prints results of the examples as indented JSON, and the tokens that Sandpiper
// saved.
package show

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/sandpiper-mcp/sandpiper"
)

// Result prints the result of code.
func Result(r *sandpiper.Result) error {
	var b bytes.Buffer
	if err := json.Indent(&b, r.Value, "", "  "); err != nil {
		return err
	}
	fmt.Println(b.String())
	return nil
}

// Saved prints the share of the tools that a task needs, and the tokens of the conversation.
func Saved(ctx context.Context, c *sandpiper.Client, task string) error {
	s, err := c.Tools().Select(ctx, task, 0, 0)
	if err != nil {
		return err
	}
	u, err := c.Usage(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("tools: %d of %d, %.0f%%\n", len(s.Tools), s.Available, 100*s.Share)
	fmt.Printf("tokens: %d instead of %d, %.1f%% saved\n", u.Spent, u.Direct, 100*u.Saved)
	return nil
}
