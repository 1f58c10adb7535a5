package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"math"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
)

// resumed makes the repeat of a call part of that call: it opens the state of the
// previous round, so that the repeat costs no second token and continues with the slot
// and the clock of the first round. If the result asks for input once more, it seals the
// state of this round. A request with an invalid state costs what a call costs.
func (g *Gateway) resumed(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		if sealed := c.params.Value("requestState"); sealed != nil {
			if err := g.resume(ctx, c, sealed); err != nil {
				refuse := func(context.Context, *call) (mcp.Object, error) { return mcp.Object{}, err }
				return g.limited(refuse)(ctx, c)
			}
		}
		result, err := next(ctx, c)
		if err != nil || c.outcome != outcomeAsks {
			return result, err
		}
		return g.suspend(c, result)
	}
}

// resume makes c the next round of the call that the sealed state belongs to. Only the
// first use of a state is free of charge, or a client could repeat one forever.
func (g *Gateway) resume(ctx context.Context, c *call, sealed mcp.RawJSON) error {
	token, ok := sealed.Text()
	if !ok {
		return &stateError{stateForged}
	}
	// The owner is worked out for every state, so that the time does not tell a foreign
	// one from a forged one.
	owner := c.owner()
	s, now := &state{}, time.Now()
	switch {
	case !g.open(purposeState, token, s):
		return g.unreadable(&stateError{stateForged})
	case s.Owner != owner:
		return &stateError{stateForeign}
	case s.Request != c.digest():
		return &stateError{stateMismatch}
	case !now.Before(s.Expires):
		return &stateError{stateExpired}
	}
	c.state = s
	if c.params.Has("inputResponses") {
		if err := c.checkAnswers(); err != nil {
			return err // before the state is used up, so that the client may send better ones
		}
	}
	if g.isFirst(ctx, c, s, now) {
		// A repeat whose caller has left has the source let go of the call. It must not
		// fail for want of tokens, or the call would keep its slot for minutes more.
		leaves := s.SlotRetained && ctx.Err() != nil
		c.prepaid, c.slotRetained = c.method.free || s.Rounds <= freeRounds || leaves, s.SlotRetained
	}
	c.params = c.params.With("requestState", s.Inner)
	return nil
}

// usedTTL is how long Redis remembers a state: longer than one is valid.
const usedTTL = stateLife + time.Minute

// isFirst tells whether the state was not used before. That of a call which waits here is
// used nowhere else, so that no other replica has to be asked. When Redis does not
// answer, what this replica knows decides, so that a state is free at most once at each.
func (g *Gateway) isFirst(ctx context.Context, c *call, s *state, now time.Time) bool {
	if !g.used.first(s.Nonce, now) {
		return false
	}
	if s.Home != "" || g.config.Shared == nil {
		return true
	}
	reply, err := g.config.Shared.Do(ctx, redis.Command{
		Name: "SET", Key: redis.Key(c.caller.Tenant.ID, "used", hex.EncodeToString(s.Nonce[:])),
		Args: []string{"1", "NX", "PX", redis.Millis(usedTTL)},
	})
	return err != nil || !reply.Nil()
}

// suspend puts the sealed state of this round into a result that asks for input.
func (g *Gateway) suspend(c *call, result mcp.Object) (mcp.Object, error) {
	s := &state{
		Owner: c.owner(), Request: c.digest(), Expires: time.Now().Add(stateLife), Rounds: 1,
		Spent: int64(c.spent), SlotRetained: c.slotRetained || c.slot.inUse(),
		Server: c.item.Server, CallID: c.callID(), Inner: result.Value("requestState"),
	}
	if c.sticky {
		s.Home = g.self
	}
	_, _ = rand.Read(s.Nonce[:]) // never returns an error
	if c.state != nil {
		s.Rounds = min(c.state.Rounds, math.MaxUint8-1) + 1
	}
	sealed, err := g.seal(purposeState, s)
	if err != nil {
		return mcp.Object{}, err
	}
	return result.With("requestState", mcp.String(sealed)), nil
}

// IsEverywhere tells whether the params of a request name a task that all replicas reach.
func (g *Gateway) IsEverywhere(params mcp.Object) bool {
	t, err := g.openTask(params.Text("taskId"))
	return err == nil && t.Home == ""
}

// Home returns the replica that alone can go on with what a request names: a call that
// waits there for answers, or a task that lives there. It is "" where any can, where the
// request names nothing of the kind, and where the caller may not use the item by the
// config of this replica: two replicas may have different configs, and both must allow
// it. declared are the extensions that the client declares: some items are there for
// those alone that do.
func (g *Gateway) Home(caller Caller, method string, params mcp.Object,
	declared mcp.Extensions,
) replica.ID {
	if sealed, ok := params.Value("requestState").Text(); ok {
		m, s := g.methods[method], &state{}
		if m == nil || !g.open(purposeState, sealed, s) || !g.isElsewhere(s.Home) {
			return ""
		}
		request := &Request{Method: method, Params: params, Extensions: declared}
		if err := m.find(g, g.newCall(caller, request, m)); err != nil && !isUnsent(err) {
			return ""
		}
		return s.Home
	}
	if !mcp.MethodOf(method).OfTasks() {
		return ""
	}
	t, err := g.openTask(params.Text("taskId"))
	if err != nil || !g.isElsewhere(t.Home) || !g.mayUseToolOf(t, &caller) {
		return ""
	}
	return t.Home
}
