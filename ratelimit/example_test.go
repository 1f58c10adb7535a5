package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drawbridge-mcp/drawbridge/ratelimit"
)

// One call is counted for its tenant and for its tool. When either has no token left,
// neither loses one, and the error says which it was and when to come back.
func ExampleMemory() {
	limiter := ratelimit.NewMemory(0)
	call := []ratelimit.Bucket{
		{Key: "tenant acme", Limit: ratelimit.Limit{Rate: 10, Burst: 100}},
		// Two now, then one an hour.
		{Key: "tenant acme, tool search", Limit: ratelimit.Limit{Rate: 1.0 / 3600, Burst: 2}},
	}
	for range 3 {
		err := limiter.Take(context.Background(), call...)
		if exceeded, ok := errors.AsType[*ratelimit.ExceededError](err); ok {
			fmt.Println("refused by", call[exceeded.Bucket].Key, "for",
				exceeded.RetryAfter.Round(time.Minute))
			continue
		}
		fmt.Println("taken", err)
	}
	// Output:
	// taken <nil>
	// taken <nil>
	// refused by tenant acme, tool search for 1h0m0s
}
