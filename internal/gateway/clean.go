package gateway

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

// sanitized cleans everything that leaves the item: its result, its error, and those
// notifications that the client asked for, as far as they are within the bounds. It drops
// all other notifications, and those that hide text where it cannot be removed.
func (g *Gateway) sanitized(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		out := &c.relay
		out.to, out.ctx = c, ctx
		defer func() {
			if left := out.end(ctx); left > 0 {
				g.config.Metrics.UpstreamMisbehaved(c.item.Server, "progress_limit", left)
			}
		}()
		result, err := next(ctx, c)
		if err != nil {
			return mcp.Object{}, g.cleanError(ctx, c, err)
		}
		if c.leftOut > 0 {
			g.count(c, sanitize.Report{leftOut: c.leftOut})
		}
		if err := c.reserveCopy(result); err != nil {
			return mcp.Object{}, err
		}
		return g.cleaned(ctx, c, result)
	}
}

// fromSource is called by the source for each notification. Those that the client did not
// ask for, and log messages beyond their bounds, are dropped.
func (c *call) fromSource(_ context.Context, n mcp.Notification) error {
	switch {
	case !c.wants(n):
		return nil
	case n.Method == mcp.NotifyProgress:
		return c.relay.progress(n)
	case n.Method == mcp.NotifyMessage && !c.logs.admit(n.Params):
		c.gateway.config.Metrics.UpstreamMisbehaved(c.item.Server, "log_limit", 1)
		return nil
	}
	return c.relay.pass(n)
}

// send cleans a notification and sends it to the client. It may run on a goroutine of the
// source or of a timer, where nobody else would stop a panic.
func (c *call) send(ctx context.Context, n mcp.Notification) error {
	g := c.gateway
	_, err := g.guarded(ctx, c, func(ctx context.Context, c *call) (mcp.Object, error) {
		params, ok, err := g.cleanNote(ctx, c, n.Params)
		if err != nil || !ok {
			return mcp.Object{}, err
		}
		return params, c.request.Notify(ctx, mcp.Notification{Method: n.Method, Params: params})
	})
	return err
}

// cleanNote is cleanParams for a notification of the call, which waits for its turn if it
// is large. The error says that the call has ended meanwhile.
func (g *Gateway) cleanNote(ctx context.Context, c *call, params mcp.Object) (cleaned mcp.Object, ok bool,
	err error,
) {
	release, err := g.turnToClean(ctx, c, params.Size())
	if err != nil {
		return mcp.Object{}, false, err
	}
	defer release()
	cleaned, ok = g.cleanParams(c, params)
	return cleaned, ok, nil
}

// cleanParams cleans the params of a notification. ok is false when they hide text where
// it cannot be removed, which is counted.
func (g *Gateway) cleanParams(c *call, params mcp.Object) (cleaned mcp.Object, ok bool) {
	cleaned, report, err := c.caller.Tenant.output.Notification(params)
	g.count(c, report)
	if err != nil {
		g.config.Metrics.UpstreamMisbehaved(c.item.Server, kindHidden, 1)
	}
	return cleaned, err == nil
}

// reserveCopy reserves memory for a copy of a result: what cleaning changes is written
// anew, and the door encodes the whole. What is small is covered by the slot of the call.
func (c *call) reserveCopy(result mcp.Object) error {
	size := int64(result.Size())
	if size <= share.Covered {
		return nil
	}
	reserved := c.request.Memory
	if err := reserved.Resize(max(reserved.Size(), size) + size); err != nil {
		return &registry.MemoryError{Server: c.item.Server, Err: err}
	}
	return nil
}

// wants tells whether the client asked for the notification: for progress by giving a
// token, for log messages by naming a level. Nothing else passes.
// https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging
func (c *call) wants(n mcp.Notification) bool {
	switch n.Method {
	case mcp.NotifyProgress:
		token := c.request.Params.Object("_meta").Value(mcp.MetaProgressToken)
		return token != nil && bytes.Equal(token, n.Params.Value(mcp.MetaProgressToken))
	case mcp.NotifyMessage:
		return c.request.LogLevel.Wants(n.Params.Text("level"))
	}
	return false
}

// cleanError cleans an error whose text an upstream chose; a large one waits for its
// turn. Errors of our own need no cleaning and are returned as they are.
func (g *Gateway) cleanError(ctx context.Context, c *call, err error) error {
	worded, ok := err.(*mcp.Error) //nolint:errorlint // one that is wrapped is for the log
	if !ok {
		return err
	}
	release, ended := g.turnToClean(ctx, c, len(worded.Message)+len(worded.Data))
	if ended != nil {
		return ended
	}
	defer release()
	cleaned, report := c.caller.Tenant.output.Error(worded)
	g.count(c, report)
	return &upstreamError{cleaned}
}

// outputChecked returns the result of a tool. If its structured content breaks the output
// schema that the tool declares, a tool error that says so takes its place. An error says
// that it could not be checked.
// https://modelcontextprotocol.io/specification/2026-07-28/server/tools#output-schema
func (g *Gateway) outputChecked(ctx context.Context, c *call, result mcp.Object) (mcp.Object, error) {
	if string(result.Value("isError")) == "true" {
		c.outcome = outcomeToolError
		return result, nil
	}
	if !c.tool.HasOutput() {
		return result, nil
	}
	structured := result.Value("structuredContent")
	if structured == nil {
		c.outcome = outcomeBadOutput
		return mcp.ToolError("The tool's answer has no structured content, although the tool declares an " +
			"output schema. This is a fault of the tool, not of the arguments."), nil
	}
	budget := &resultBudget{
		turn:   turn{call: c, ctx: ctx, enter: (*fairqueue.Queue).Finish},
		before: c.request.Memory.Size(),
	}
	defer c.request.Memory.Shrink(budget.before)
	defer budget.end()
	err := c.tool.ValidateOutputWithin(structured, budget)
	if _, unmet := errors.AsType[*schema.BudgetError](err); unmet {
		return mcp.Object{}, err
	}
	if err != nil {
		c.outcome = outcomeBadOutput
		return mcp.ToolError("The tool's answer breaks its own output schema: " + err.Error() +
			". This is a fault of the tool, not of the arguments."), nil
	}
	return result, nil
}

// resultBudget are what the check of a result may use: room beside the answer, and a slot
// for what takes long, for which it waits however long: the call has been made.
type resultBudget struct {
	turn
	before int64 // bytes that the room of the answer held
}

var _ schema.Budget = (*resultBudget)(nil)

// Memory implements schema.Budget. The error is a *registry.MemoryError.
func (m *resultBudget) Memory(bytes int64) error {
	if err := m.call.request.Memory.Resize(m.before + bytes); err != nil {
		return &registry.MemoryError{Server: m.call.item.Server, Err: err}
	}
	return nil
}

// count adds up what cleaning changed, for the audit and the metrics.
func (g *Gateway) count(c *call, report sanitize.Report) {
	for kind, n := range report {
		c.repairs.Add(int64(n))
		g.config.Metrics.Repaired(c.caller.Tenant.ID, c.item.Server, string(kind), n)
	}
}

// turnToClean waits until so many bytes that a server sent for the call may be cleaned.
// release ends the turn. The error is why ctx has ended before.
func (g *Gateway) turnToClean(ctx context.Context, c *call, bytes int) (release func(), err error) {
	return g.config.Turns.Finish(ctx, c.user(), time.Duration(bytes)*cleanTime)
}

// cleaned cleans a result by policy. That of a large one waits for its turn, however
// long: the call has been made.
func (g *Gateway) cleaned(ctx context.Context, c *call, result mcp.Object) (mcp.Object, error) {
	began := time.Now()
	release, err := g.turnToClean(ctx, c, result.Size())
	since(began, &c.request.Waited.Queue)
	if err != nil {
		return mcp.Object{}, err
	}
	defer release()
	policy := c.caller.Tenant.output
	policy.Released, policy.Files = c.item.Released(), c.item.IsWhole()
	result, report, err := c.method.clean(policy, result)
	g.count(c, report)
	return result, err
}

// cleanTime is about how long it takes to clean one byte of a result.
const cleanTime = 6 * time.Nanosecond
