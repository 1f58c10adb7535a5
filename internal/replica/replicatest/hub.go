// Package replicatest carries messages between replicas that are in one process, for
// tests of those who speak it.
package replicatest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/link"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
)

// Hub connects members. The zero Hub has none. It is safe for concurrent use, and works
// within testing/synctest.
type Hub struct {
	mu      sync.Mutex
	members map[replica.ID]*Member
}

// Member is one replica.
type Member struct {
	hub      *Hub
	id       replica.ID
	handlers map[string]replica.Handler
	returns  []func()
	clients  http.Handler
	life     context.Context //nolint:containedctx // of the replica, until it leaves
	end      context.CancelFunc

	changes []func()
	drains  atomic.Bool
	cut     atomic.Bool // see Cut

	newer atomic.Bool // see Outdate

	mu     sync.Mutex // guards the fields below
	lapsed bool       // see SetLeads
	since  time.Time  // likewise
}

var _ replica.Others = (*Member)(nil)

// Join adds a replica.
func (h *Hub) Join() *Member {
	m := &Member{hub: h, id: replica.NewID(), handlers: make(map[string]replica.Handler)}
	m.life, m.end = context.WithCancel(context.Background()) // until it leaves
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.members == nil {
		h.members = make(map[replica.ID]*Member)
	}
	h.members[m.id] = m
	return m
}

// Leave takes a replica out, as if it had died, or was cut off: it may lead nothing any
// more.
func (h *Hub) Leave(m *Member) {
	h.mu.Lock()
	delete(h.members, m.id)
	m.end()
	h.mu.Unlock()
	m.SetLeads(false)
	h.changed()
}

// Rejoin lets a replica be there again that had left, as if it had been cut off.
func (h *Hub) Rejoin(m *Member) {
	h.mu.Lock()
	h.members[m.id] = m
	m.life, m.end = context.WithCancel(context.Background()) // until it leaves again
	h.mu.Unlock()
	m.SetLeads(true)
	h.changed()
}

// Cut breaks what is forwarded to a replica that lives, until mend is called.
func (h *Hub) Cut(m *Member) (mend func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m.end()
	m.life, m.end = context.WithCancel(context.Background()) // until it leaves
	m.cut.Store(true)
	return func() { m.cut.Store(false) }
}

// member returns the replica of an id that is there, nil if there is none.
func (h *Hub) member(id replica.ID) *Member {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.members[id]
}

// Uncounted counts nothing.
type Uncounted struct{}

var _ replica.Counter = Uncounted{}

// MessageSent implements replica.Counter.
func (Uncounted) MessageSent(_, _ string) {}

// MessageReceived implements replica.Counter.
func (Uncounted) MessageReceived(string) {}

// TakenForGone implements replica.Counter.
func (Uncounted) TakenForGone() {}

// Self implements replica.Others.
func (m *Member) Self() replica.ID { return m.id }

// Handle implements replica.Others.
func (m *Member) Handle(kind string, f replica.Handler) { m.handlers[kind] = f }

// OnReturn implements replica.Others. Return calls f.
func (m *Member) OnReturn(f func()) { m.returns = append(m.returns, f) }

// OnChange implements replica.Others.
func (m *Member) OnChange(f func()) { m.changes = append(m.changes, f) }

// Return does what follows a time in which others may have taken the replica for gone: it
// leads anew, and messages may have been lost.
func (m *Member) Return() {
	m.mu.Lock()
	m.since = time.Now()
	m.mu.Unlock()
	for _, f := range m.returns {
		f()
	}
}

// IsThere implements replica.Others.
func (m *Member) IsThere(id replica.ID) bool {
	return id == m.id || m.hub.member(id) != nil // as replica.Group: nobody is gone for itself
}

// All implements replica.Others.
func (m *Member) All() []replica.ID {
	m.hub.mu.Lock()
	defer m.hub.mu.Unlock()
	all := slices.Collect(maps.Keys(m.hub.members))
	return slices.DeleteFunc(all, func(id replica.ID) bool { return id == m.id })
}

// Drains implements replica.Others.
func (m *Member) Drains(id replica.ID) bool {
	one := m.hub.member(id)
	return one != nil && one.drains.Load()
}

// Drain implements replica.Others.
func (m *Member) Drain() {
	m.drains.Store(true)
	m.hub.changed()
}

// Leads implements replica.Others.
func (m *Member) Leads() (since time.Time, leads bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.since, !m.lapsed
}

// SetLeads says whether the replica may lead. If it did not before, it does so from now
// on.
func (m *Member) SetLeads(leads bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if leads && m.lapsed {
		m.since = time.Now()
	}
	m.lapsed = !leads
}

// IsNewerThere implements replica.Others.
func (m *Member) IsNewerThere() bool { return m.newer.Load() }

// Outdate says whether a replica of a later version is there.
func (m *Member) Outdate(newer bool) { m.newer.Store(newer) }

// Send implements replica.Others.
func (m *Member) Send(ctx context.Context, to replica.ID, w replica.Message) ([]byte, error) {
	receiver := m.hub.member(to)
	if receiver == nil {
		return nil, replica.ErrUnreached
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	return receiver.take(ctx, m.id, w)
}

const patience = 2 * time.Second // of Send, as of replica.Group

// ServeClients implements replica.Others.
func (m *Member) ServeClients(h http.Handler) { m.clients = h }

// Forward implements replica.Others.
func (m *Member) Forward(ctx context.Context, to replica.ID, f link.Request) (*http.Response, error) {
	m.hub.mu.Lock()
	receiver := m.hub.members[to]
	if receiver == nil || receiver == m || receiver.clients == nil || receiver.cut.Load() {
		m.hub.mu.Unlock()
		return nil, replica.ErrUnreached
	}
	life := receiver.life
	m.hub.mu.Unlock()
	// no value of the sender's context comes along, as over a link
	served, end := context.WithCancel(link.WithOrigin(context.Background(), link.Origin{
		From: string(m.id), Remote: f.Remote,
		ID: f.ID, Note: f.Note,
	}))
	context.AfterFunc(ctx, end)
	r, err := http.NewRequestWithContext(served, f.Method, f.Target, bytes.NewReader(f.Body))
	if err != nil {
		end()
		return nil, err
	}
	r.Header, r.RequestURI = f.Header.Clone(), f.Target
	from, into := io.Pipe()
	a := &answer{header: make(http.Header), began: make(chan struct{}), body: into}
	context.AfterFunc(life, end)
	context.AfterFunc(served, func() { _ = into.CloseWithError(link.ErrLost) })
	go func() {
		defer func() {
			if problem := recover(); problem != nil {
				end() // http.ErrAbortHandler: the answer is cut short
			}
		}()
		receiver.clients.ServeHTTP(a, r)
		a.WriteHeader(http.StatusOK)
		_ = into.Close()
	}()
	select {
	case <-a.began:
		if life.Err() != nil { // which ends served a little later
			end()
			return nil, link.ErrLost
		}
		return &http.Response{StatusCode: a.status, Header: a.sent, Body: &body{from, end}}, nil
	case <-served.Done():
		end()
		return nil, link.ErrLost
	}
}

// answer is what a member answers to a request that was forwarded.
type answer struct {
	header, sent http.Header
	status       int
	began        chan struct{}
	body         *io.PipeWriter
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status, a.sent = status, a.header.Clone()
		close(a.began)
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(data []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(data)
}

// Flush implements http.Flusher.
func (a *answer) Flush() {}

// body ends the request with its reader.
type body struct {
	io.ReadCloser
	end context.CancelFunc
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.end()
	return b.ReadCloser.Close()
}

// take has a message handled, and returns what the handler says, or when ctx ends.
func (m *Member) take(ctx context.Context, from replica.ID, w replica.Message) ([]byte, error) {
	handled := make(chan struct{})
	var answer []byte
	err := errUnknown
	go func() {
		defer close(handled)
		if h := m.handlers[w.Kind]; h != nil {
			answer, err = h(context.WithoutCancel(ctx), from, w)
		}
	}()
	select {
	case <-handled:
		return answer, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// errUnknown says that a replica does not know a kind of message.
var errUnknown = errors.New("that kind of message is not known")

// changed calls what OnChange has set, at all members.
func (h *Hub) changed() {
	h.mu.Lock()
	var all []func()
	for _, m := range h.members {
		all = append(all, m.changes...)
	}
	h.mu.Unlock()
	for _, f := range all {
		f()
	}
}
