// Package replica answers: which other processes serve the same tenants, and how are they
// reached? A client may send any request to any replica, but some things are where they
// began: a call that runs, an event stream that is open, a question that waits for its
// answer. A message brings to that replica what came to another. This package knows who
// is there, and hands messages to package link, which carries it; it deliberately does
// not know what the messages say.
//
//	one replica ── Send(to) ──▶ the handler of that kind at that replica
//
// Who lives stands in Redis (living.go). Messages do not go through Redis, so they also
// come while that is away. An error of Send says that the message was not handled, as far
// as is known. A message carries no right: who receives a request of a client judges it
// by its own config.
//
// Alone is the gateway with one replica. Group is one of several.
package replica

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/link"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// ID names a process from its start to its end: 16 hexadecimal digits. It may stand in
// what clients see.
type ID string

// NewID returns an id that no other process has.
func NewID() ID {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	return ID(hex.EncodeToString(random[:]))
}

// Formats counts the changes of what replicas share, or clients carry from one to
// another, which a version before them cannot read: the layout of a ticket, a purpose of
// what is sealed, a kind of message. Who makes such a change adds one. While replicas
// with a higher number are there, the others take what they cannot read for the work of
// those, and ask their clients to try again, see Others.IsNewerThere.
const Formats = 2

// Message is what one replica says to another. Its kind names a form of its data, too:
// another form is another kind. A message of a tenant never counts as that of another.
type Message = link.Message

// ErrForm is the error of a Handler for a message that has another form than its kind.
var ErrForm = errors.New("that message has another form")

// ErrUnreached says that there is no such replica, or no longer.
var ErrUnreached = link.ErrUnreached

// errLater says that what is in the server may be of a version that knows more than this
// one. It is like a fault: nothing is known here, and nothing has ended.
var errLater = fmt.Errorf("what redis holds may be of a later version: %w", redis.ErrDown)

// Refuse notes that what is in the server was not written by a replica, or by one of a
// later version. It returns unknown, which says that nothing is there, or while such a
// replica lives an error like that of a fault.
func Refuse(ctx context.Context, o Others, store *redis.Store, unknown error, of ...slog.Attr) error {
	store.Refuse(ctx, of...)
	if o.IsNewerThere() {
		return errLater
	}
	return unknown
}

// Handler takes messages of one kind, and returns what it says to that. It may be called
// for several at once; whoever has sent the message waits until it returns. An error says
// that the message was not taken.
type Handler func(ctx context.Context, from ID, w Message) (answer []byte, err error)

// Others are the other replicas. Implementations are safe for concurrent use.
type Others interface {
	// Self is the id of this process.
	Self() ID
	// Send sends a message to one replica, and returns what that says when it has handled
	// it, for which it waits two seconds at most. ErrUnreached says that it is not there,
	// or was not reached; any other error that it is not known whether it has it, or that
	// it did not take it.
	Send(ctx context.Context, to ID, w Message) (answer []byte, err error)
	// Forward sends a request of a client to another replica, and returns its answer,
	// whose body comes as that replica sends it, and is to be closed. ErrUnreached says
	// that nothing was sent; any other error, also of reading the body, that the request
	// may have had its effect there.
	Forward(ctx context.Context, to ID, r link.Request) (*http.Response, error)
	// ServeClients sets who answers the requests that others forward. It is called before
	// Run.
	ServeClients(h http.Handler)
	// IsThere tells whether a replica lives, as far as is known here, which is a few
	// seconds late at most. It waits for nothing. Self is always there.
	IsThere(id ID) bool
	// All returns the other replicas that live, likewise: first those that were reached
	// when they were tried last.
	All() []ID
	// IsNewerThere tells whether a replica with higher Formats lives, likewise. Then what
	// this one cannot read may be good, and a client must not throw it away.
	IsNewerThere() bool
	// Drains tells whether a replica that lives is about to end, likewise: what it leads
	// may be taken over.
	Drains(id ID) bool
	// Drain tells the others that this replica is about to end.
	Drain()
	// Leads tells whether no other replica can have taken this one for gone, and since
	// when that is so without a gap: until then it may lead what it led before. It waits
	// for nothing.
	Leads() (since time.Time, leads bool)
	// Handle sets who takes messages of a kind. It is called before Run.
	Handle(kind string, h Handler)
	// OnReturn calls f whenever others may have taken this replica for gone, and have
	// told it nothing meanwhile, and once when it is first known to them. f must return
	// at once. It is called before Run.
	OnReturn(f func())
	// OnChange calls f whenever another replica has come, has ended or drains. f must
	// return at once. It is called before Run.
	OnChange(f func())
}

// Alone is Others where there are none. The zero Alone has no id.
type Alone struct{ id ID }

var _ Others = (*Alone)(nil)

// NewAlone returns an Alone with a new id.
func NewAlone() *Alone { return &Alone{NewID()} }

// Self implements Others.
func (a *Alone) Self() ID { return a.id }

// Send implements Others: nobody is there.
func (a *Alone) Send(context.Context, ID, Message) ([]byte, error) { return nil, ErrUnreached }

// Forward implements Others: nobody is there.
func (a *Alone) Forward(context.Context, ID, link.Request) (*http.Response, error) {
	return nil, ErrUnreached
}

// ServeClients implements Others: no request ever comes.
func (a *Alone) ServeClients(http.Handler) {}

// IsThere implements Others.
func (a *Alone) IsThere(id ID) bool { return id == a.id }

// IsNewerThere implements Others: nobody is.
func (a *Alone) IsNewerThere() bool { return false }

// All implements Others.
func (a *Alone) All() []ID { return nil }

// Drains implements Others.
func (a *Alone) Drains(ID) bool { return false }

// Drain implements Others: nobody has to know.
func (a *Alone) Drain() {}

// Leads implements Others.
func (a *Alone) Leads() (since time.Time, leads bool) { return time.Time{}, true }

// Handle implements Others: no message ever comes.
func (a *Alone) Handle(string, Handler) {}

// OnReturn implements Others: no message is ever lost.
func (a *Alone) OnReturn(func()) {}

// OnChange implements Others: nobody comes or ends.
func (a *Alone) OnChange(func()) {}
