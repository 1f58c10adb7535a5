// Package once answers: was this request made before, and what was its answer? A client,
// or a load balancer in front of it, that does not know whether a request arrived sends
// it again under the same key. The first runs; the others wait for its answer, or get it
// from here for Retention after that. This package keeps claims and answers, and knows
// neither what a request does nor who may see its answer: whoever gives a stored answer
// away judges first whether the caller may still have it.
//
//	           Finish
//	claimed ───────────▶ answered: repeats get the answer ── Retention ──▶ gone
//	   │  │    or its replica dies: nobody knows whether it ran ─ Retention ──▶ gone
//	   │  Free: it was refused before anything happened
//	   ▼
//	 gone: the next one is the first
//
// Memory is the store of one replica, Redis that of several.
package once

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// Retention is how long an answer is kept for repeats, and for how long at least no
// second request runs under its key.
const Retention = 10 * time.Minute

// MaxAnswer is the size of the largest answer that is kept, in bytes.
const MaxAnswer = 256 << 10

// claimCost is what a key costs in memory beside its answer, in bytes, roughly.
const claimCost = 512

// Errors of Begin. Nothing runs after any of them.
var (
	ErrBody    = errors.New("another body was sent under this key")
	ErrUnkept  = errors.New("the request ran, and its answer was too large to keep")
	ErrUnknown = errors.New("the replica that ran the request is gone")
	ErrFull    = errors.New("too many keys are kept")
)

// ElsewhereError says that another replica, which lives, runs the request: what asks for
// it there waits for its answer.
type ElsewhereError struct{ Home replica.ID }

// Error implements error.
func (e *ElsewhereError) Error() string { return "replica " + string(e.Home) + " runs the request" }

// Request is one request under a key.
type Request struct {
	User share.User // whose share of the room it takes
	// digest of the owner and of the key that the client chose: other owners never meet
	Name [sha256.Size]byte
	Body [sha256.Size]byte // digest of what is to run
}

// name returns the name as it stands in keys and purposes.
func (r *Request) name() string { return hex.EncodeToString(r.Name[:]) }

// Answer is what the client of the first request got.
type Answer struct {
	Status  int    // of HTTP
	Message []byte // shared: do not modify
}

// Store keeps claims and answers. Implementations are safe for concurrent use.
type Store interface {
	// Begin returns either a claim, and then the caller runs the request, or the answer
	// of the one that ran. While another runs here it waits, until ctx ends. Errors are
	// those above, ElsewhereError, that of ctx, or that the store cannot be reached.
	Begin(ctx context.Context, r Request) (Claim, *Answer, error)
}

// Claim is the right to run a request. Finish or Free is called once, in the end.
type Claim interface {
	// Finish keeps the answer. One that is too large, or that there is no room for, is
	// not kept; that it ran is.
	Finish(ctx context.Context, a Answer)
	// Free lets the next request under the key run: this one had no effect.
	Free(ctx context.Context)
	// Wanted tells whether somebody waits for the answer besides the caller.
	Wanted() bool
}

// budgets bounds what is kept, with the shares of tenants and users. Two budgets count
// it: the part that may go into answers at all, so that they never crowd out requests,
// and the whole.
type budgets struct{ part, whole *share.Budget }

// newBudgets returns the budgets for answers that may take the whole divided by part.
func newBudgets(whole *share.Budget, part int64) budgets {
	return budgets{share.New(whole.Total() / part), whole}
}

// take takes n bytes of both. The error is ErrFull.
func (r *budgets) take(u share.User, n int64) error {
	if r.part.Take(u, n) != nil {
		return ErrFull
	}
	if r.whole.Take(u, n) != nil {
		r.part.Give(u, n)
		return ErrFull
	}
	return nil
}

func (r *budgets) give(u share.User, n int64) {
	r.part.Give(u, n)
	r.whole.Give(u, n)
}
