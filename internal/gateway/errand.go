package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

var (
	// errHomeUnreached says that the home of a call cannot be asked now. Nothing happened to the call.
	errHomeUnreached = errors.New("the replica that keeps the call cannot be reached")
	// errHomeLost says that the home of a call has gone, and the call with it.
	errHomeLost = errors.New("the replica that kept the call is gone")
)

// homeError is what the home of a call said in place of a result.
type homeError struct {
	told         *mcp.Error
	kind, reason string // as in failure, like the next; of what the home has not recorded
	refusal      bool
}

func (e *homeError) Error() string { return e.told.Error() }

// errands are the calls that this replica has sent home and whose clients wait. It is safe for concurrent use.
type errands struct {
	mu   sync.Mutex // guards the field below
	open map[errandID]*errand
}

// errand is one of them.
type errand struct {
	*inbox
	id   errandID
	home replica.ID
}

// begin adds an errand.
func (es *errands) begin(c *call) *errand {
	e := &errand{inbox: newInbox(c.request.Room), home: c.home}
	_, _ = rand.Read(e.id[:]) // never returns an error
	es.mu.Lock()
	defer es.mu.Unlock()
	if es.open == nil {
		es.open = make(map[errandID]*errand)
	}
	es.open[e.id] = e
	return e
}

// end removes an errand.
func (es *errands) end(e *errand) {
	es.mu.Lock()
	defer es.mu.Unlock()
	delete(es.open, e.id)
}

// receive takes a letter of a home. What comes for nobody, or not from the home of the call, is dropped.
func (es *errands) receive(_ context.Context, from replica.ID, w replica.Word) {
	l, ok := decodeLetter(w.Data)
	if !ok {
		return
	}
	es.mu.Lock()
	e := es.open[l.errand]
	es.mu.Unlock()
	if e != nil && e.home == from {
		e.take(l)
	}
}

// isElsewhere tells whether only another replica can go on with what that replica keeps.
func (g *Gateway) isElsewhere(home replica.ID) bool {
	return home != "" && home != g.config.Others.Self()
}

// homed sends a call home that another replica keeps. By now this replica has judged by its own config that the caller
// may use the item, and goes on doing so; the home judges by its own. The home also limits, checks, cleans and records
// the call, so that no stage does its work twice.
func (g *Gateway) homed(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		if c.home == "" {
			return next(ctx, c)
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		c.begun.endBy(endFunc(cancel))
		e := g.errands.begin(c)
		defer g.errands.end(e)
		p := &post{others: g.config.Others, to: c.home, kind: kindErrand, tenant: c.caller.Tenant.ID, errand: e.id}
		room := c.request.Room.Another() // the request is written anew
		defer room.Release()
		if err := room.Resize(int64(c.request.Params.Size())); err != nil {
			return mcp.Object{}, fmt.Errorf("hold the request: %w", err)
		}
		request := c.request.encode(&c.caller.Principal)
		if len(request) > maxPassed {
			return mcp.Object{}, mcp.Stable(mcp.CodeInvalidParams, "DB-BODY-SIZE", "Invalid params: a repeat of "+mcp.InBytes(int64(len(request)))+" cannot reach the replica that keeps its call; "+mcp.InBytes(maxPassed)+" can")
		}
		// A client that has left already still has its call ended: the home is told of the call, and then that it left.
		if err := p.deliver(context.WithoutCancel(ctx), sortRequest, request, askPatience); err != nil {
			return mcp.Object{}, g.unsent(c, err)
		}
		result, err := g.follow(ctx, c, e)
		if !c.answered {
			last, stop := context.WithTimeout(context.WithoutCancel(ctx), watchEvery)
			defer stop()
			_ = p.deliver(last, sortLeave, nil, 0) // a home that does not hear it notices by itself
		}
		return result, err
	}
}

// unsent returns why a call could not be sent home.
func (g *Gateway) unsent(c *call, err error) error {
	if errors.Is(err, replica.ErrGone) && !g.config.Others.IsThere(c.home) {
		return c.lost()
	}
	return errors.Join(errHomeUnreached, err)
}

// lost returns the error for a call whose home is gone. A task is gone then like one that its server has forgotten.
func (c *call) lost() error {
	if c.task != nil {
		return &taskError{taskGone}
	}
	return errHomeLost
}

// follow passes on what the home says until there is an answer, the client leaves, or the home is gone.
func (g *Gateway) follow(ctx context.Context, c *call, e *errand) (mcp.Object, error) {
	look := time.NewTicker(watchEvery)
	defer look.Stop()
	home := presence{g.config.Others, e.home, time.Now()}
	for {
		select {
		case <-e.news:
			said, failed := e.messages()
			for _, m := range said {
				if m.sort != sortNote {
					return c.answer(m)
				}
				if n, ok := decodeNote(m.text); ok {
					_ = c.request.Notify(ctx, n) // a client that has left ends ctx
				}
			}
			if failed != nil {
				return mcp.Object{}, unpassed(c.item.Server, failed)
			}
		case <-look.C:
			if home.isLost() || e.quiet() > silence {
				return mcp.Object{}, c.lost()
			}
		case <-ctx.Done():
			return mcp.Object{}, ctx.Err()
		}
	}
}

// unpassed returns the error for an answer that was made and cannot be taken.
func unpassed(server string, err error) error {
	if errors.Is(err, errPassed) {
		return err
	}
	return &registry.RoomError{Server: server, Err: err}
}

// answer takes the last message of an errand. It sets answered if the home has recorded the call.
func (c *call) answer(m message) (mcp.Object, error) {
	said, err := mcp.ParseObject(m.text)
	if err != nil {
		return mcp.Object{}, c.broken("an answer of another replica that is no object")
	}
	switch m.sort {
	case sortResult:
		if err := c.request.Room.Resize(int64(2 * len(m.text))); err != nil { // the door encodes it once more
			return mcp.Object{}, &registry.RoomError{Server: c.item.Server, Err: err}
		}
		c.answered = true
		return said, nil
	case sortError:
		c.answered = true
		return mcp.Object{}, &homeError{told: decodeError(said)}
	case sortRefused:
		return mcp.Object{}, &homeError{told: decodeError(said), kind: said.Text("kind"), reason: said.Text("reason"), refusal: string(said.Value("refusal")) == "true"}
	default:
		return mcp.Object{}, c.broken("a letter of another replica that means nothing here")
	}
}

// isRecordedElsewhere tells whether the home of the call has recorded and counted what the client is told.
func (c *call) isRecordedElsewhere(ctx context.Context) bool { return c.answered && !c.isRevoked(ctx) }
