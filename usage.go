package sandpiper

import "context"

// Usage are the tokens of the tenant's conversations until now.
type Usage struct {
	Spent  int64   // on Sandpiper's tools, and their arguments and answers
	Direct int64   // of a client that calls the tools itself: their definitions, arguments and answers
	Saved  float64 // share of Direct; 0 if Spent is greater
}

// Usage returns the tokens spent and saved.
func (c *Client) Usage(ctx context.Context) (Usage, error) {
	var stats struct{ Tokens Usage }
	err := c.do(ctx, "get_execution_stats", nil, &stats)
	return stats.Tokens, err
}
