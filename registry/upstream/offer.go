package upstream

import (
	"context"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// offers returns tools as the catalogue wants them.
func offers(c *control, cfg *Config, tools []mcp.Object) []registry.Offer {
	offers := make([]registry.Offer, len(tools))
	for i, definition := range tools {
		offers[i] = offer(c, cfg, definition)
	}
	return offers
}

func offer(c *control, cfg *Config, definition mcp.Object) registry.Offer {
	name := definition.Text("name")
	tasks, definition := c.tasksOf(definition)
	t := c.newItem(mcp.MethodToolsCall, name, mcp.String(name))
	t.idempotent = isIdempotent(cfg.Idempotent, name)
	asTask := *t
	asTask.asTask, asTask.idempotent = true, false // another task would be left behind
	timeout := cfg.Timeout
	if own := cfg.ToolTimeouts[name]; own > 0 {
		timeout = own
	}
	return registry.Offer{
		Definition: definition,
		Timeout:    timeout,
		Tasks:      tasks,
		Call: func(ctx context.Context, call *registry.Call) (mcp.Object, error) {
			switch {
			case call.Task != "":
				return c.call(ctx, c.newItem(call.Method, call.Task, mcp.String(call.Task)), call)
			case call.Tasks == mcp.TasksAsked && tasks == mcp.TasksAsked:
				return c.call(ctx, &asTask, call)
			}
			return c.call(ctx, t, call)
		},
	}
}

// isIdempotent tells whether the operator's patterns name the tool.
func isIdempotent(patterns []string, tool string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return registry.MatchName(pattern, tool)
	})
}
