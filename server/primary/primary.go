// Package primary answers: which replica leads a session? The one that does, its primary,
// answers what the client of the session sends and alone writes what is kept of it. All
// others forward. It knows nothing of sessions but their names, and deliberately not who
// asks or what a session is for.
//
// Each session has an entry that all replicas can read, from when it opens until it ends:
//
//	Open ─▶ primary A, epoch e1 ──Take: A is gone, or drains──▶ primary B, e2 > e1 ─▶ … ─▶ End: there is no entry
//
// The epoch is the fence: it grows each time that another replica takes the session over,
// and what a primary of a lower epoch writes is refused. So a replica that was taken for
// dead and is not cannot undo what its successor has done.
//
// Redis is a Store of several replicas; primarytest has one in memory.
package primary

import (
	"context"
	"errors"

	"github.com/drawbridge-mcp/drawbridge/internal/replica"
)

// Key names a session.
type Key struct {
	Tenant string
	Name   string // never used again
}

// Entry is what replicas know of a session together.
type Entry struct {
	Primary replica.ID        // that leads the session
	Epoch   uint64            // grows with each primary
	Facts   map[string]string // short texts by name; nil: none
}

// What a Store returns. Any other error says that it does not know: it failed, or has
// just lost what it had.
var (
	// ErrNone says that there is no entry: the session has ended, or was not used for
	// too long.
	ErrNone = errors.New("no replica leads the session")
	// ErrFenced says that another replica leads the session by now.
	ErrFenced = errors.New("another replica leads the session")
)

// Store keeps the entries. Each method costs one round trip. Implementations are safe for
// concurrent use.
type Store interface {
	// Open writes an entry with its facts: of a session that begins, or of one of which
	// the store may lack something. Facts that are there and not among these stay:
	// another request may just have kept one, or they are for the next primary. The text
	// "" forgets a fact. The error is ErrFenced if there is an entry of another primary
	// with the same epoch or a higher one.
	Open(ctx context.Context, k Key, r Entry) error
	// Keep writes the facts of an entry, and leaves all others as they are; the text ""
	// forgets a fact. The error is ErrNone if there is no entry, or ErrFenced.
	Keep(ctx context.Context, k Key, r Entry) error
	// Read returns the entry. The error is ErrNone if there is none, but not while the
	// store may have lost it: then whoever leads the session writes it again.
	Read(ctx context.Context, k Key) (Entry, error)
	// Take makes another replica the primary, with a higher epoch, if the entry has
	// still the primary and the epoch of from. It returns the entry as it is then. The
	// error is ErrFenced if another replica was faster, or ErrNone.
	Take(ctx context.Context, k Key, from Entry, to replica.ID) (Entry, error)
	// End forgets the entry. The error is ErrFenced if another replica leads the session
	// with a higher epoch. That there is none is no error.
	End(ctx context.Context, k Key, epoch uint64) error
	// Renew keeps entries for longer, and returns which of them are not there. It costs a
	// round trip for a few hundred.
	Renew(ctx context.Context, keys []Key) (missing []Key, err error)
	// OnLoss calls f when the store may have lost entries: then whoever leads a session
	// writes its entry again. f must return at once. It is called before the store runs.
	OnLoss(f func())
}
