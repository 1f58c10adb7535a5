package upstream

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/seats"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// Limits of calls whose callers can be asked.
const (
	gatherWindow = 25 * time.Millisecond // in which questions join the first one's round
	parkLimit    = 5 * time.Minute       // for the answers to a round
	lifeLimit    = 30 * time.Minute      // for the whole call, all rounds together
	parkedMax    = 1000                  // calls of one upstream that wait for answers
	questionsMax = 64                    // of one call
	roundMax     = 32                    // of one round
	askedMax     = 4 << 20               // bytes of the open questions of one call
	keptMax      = 64 << 10              // bytes of notifications that wait while a call is parked
)

// dialogue is a call whose caller can be asked. Its exchange goes on in a goroutine of its own while its caller comes
// and goes: a round returns the questions, and the call's repeat brings the answers and takes part in the next round.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
type dialogue struct {
	pool    *pool
	session *legacy
	owner   auth.Owner
	cancel  context.CancelFunc // ends the exchange
	held    bool               // the call's place is kept; only the present round touches this
	news    chan struct{}      // a question came
	notes   wire.Notes         // for the present round, or the next one
	done    chan struct{}      // closed when the exchange ended, after the next two were set
	result  mcp.Object
	err     error

	mu           sync.Mutex // guards the fields below
	capabilities mcp.Object // of the present round's caller, or the last one's
	attached     bool       // a round is going on
	kept         int        // bytes of notifications that came since the last round
	ended        bool
	seen         map[mcp.ID]bool // questions so far
	open         []question      // without an answer, in the order in which they came
	release      func()          // of the call's place; nil: none is kept
	expiry       *time.Timer
}

var errNotParked = mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: the call with this requestState does not wait for an answer")

// converse runs a call whose caller can be asked.
func (p *pool) converse(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error) {
	s, err := p.take(ctx, p.keyOf(c, i.method), seats.Call)
	if err != nil {
		return mcp.Object{}, err
	}
	return p.talk(ctx, s, i, c)
}

// talk runs a call whose caller can be asked, on a session that it releases.
func (p *pool) talk(ctx context.Context, s *seat, i *item, c *registry.Call) (mcp.Object, error) {
	owned, end := p.room.Owned()
	life, stop := context.WithTimeout(owned, lifeLimit)
	cancel := func() {
		stop()
		end()
	}
	d := &dialogue{
		pool: p, session: s.Session.session(), owner: p.ownerOf(c), cancel: cancel,
		news: make(chan struct{}, 1), notes: wire.NewNotes(), done: make(chan struct{}),
		seen: map[mcp.ID]bool{},
	}
	d.attach(c)
	d.session.enter(d)
	began := p.room.Go(func() {
		defer cancel()
		defer p.room.Leave(s, seats.Call)
		d.run(life, s, i, c)
	})
	if !began {
		cancel()
		d.session.leave(d)
		p.room.Leave(s, seats.Call)
		return mcp.Object{}, p.server.unavailable(false, wire.ErrGone)
	}
	return d.round(ctx, c)
}

// run runs the exchange to its end, and leaves no question without an answer.
func (d *dialogue) run(ctx context.Context, s *seat, i *item, c *registry.Call) {
	d.result, d.err = d.pool.tracked(s, c, func() (mcp.Object, error) {
		return d.session.run(ctx, i, c, func(_ context.Context, m *mcp.Message) { d.note(m) }, d)
	})
	var answered *mcp.Error
	if d.err != nil && !errors.As(d.err, &answered) {
		d.session.abandon(d.owner)
	}
	switch {
	case d.err == nil:
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		d.err = d.pool.server.unavailable(true, errLong)
	case ctx.Err() != nil: // its own, and not that of any caller
		d.err = d.pool.server.unavailable(true, wire.ErrGone)
	}
	d.session.leave(d)
	left, release := d.finish(len(d.session.openCalls()) > 0)
	d.pass(ctx, left)
	if release != nil {
		release()
	}
	close(d.done)
}

// finish records that the exchange has ended. It returns the questions that nobody is asked any more, and what gives the
// call's place back. Beside others, a stray question that was returned to the caller stays: one of them may wait for its
// answer, and nobody should be asked twice.
func (d *dialogue) finish(beside bool) (left []question, release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	d.open = slices.DeleteFunc(d.open, func(q question) bool {
		if beside && q.stray && !d.attached {
			return false
		}
		left = append(left, q)
		return true
	})
	return left, d.release
}

// note gives a notification to the present round. Without one it waits for the next. It never waits itself.
func (d *dialogue) note(m *mcp.Message) {
	if !d.keeps(m) || !d.notes.Keep(m) {
		d.pool.control.conn.count(Flooded, 1)
	}
}

// keeps tells whether there is room for the bytes of a notification. A round that goes on passes them all on.
func (d *dialogue) keeps(m *mcp.Message) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.attached {
		return true
	}
	d.kept += wire.Weight(m.Params)
	return d.kept <= keptMax
}

// ask takes a question; stray tells that it came on no call's stream. The error is the answer when it is not asked.
func (d *dialogue) ask(m *mcp.Message, stray bool) *mcp.Error {
	params := asked(m.Params)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.seen[m.ID]:
		return nil // a stream that was resumed may bring it again
	case d.ended:
		return errCallEnded
	case !mcp.CanBeAsked(d.capabilities, m.Method, params):
		d.pool.strict.Store(true)
		return errUnasked
	case len(d.seen) == questionsMax:
		return mcp.Errorf(mcp.CodeInternal, "Too many questions in one call")
	}
	size := wire.Weight(params)
	for _, q := range d.open {
		size += len(q.request)
	}
	if size > askedMax {
		return mcp.Errorf(mcp.CodeInternal, "The open questions of this call are too large")
	}
	d.seen[m.ID] = true
	d.open = append(d.open, question{
		id: m.ID, key: questionKey(len(d.seen)), request: inputRequest(m.Method, params), stray: stray,
	})
	signal(d.news)
	return nil
}

// asked returns the params of a question in modern form: without what only means something between the server and this
// client.
// https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
func asked(params mcp.Object) mcp.Object {
	params = params.Without("task", "elicitationId")
	meta := params.Object("_meta")
	if !meta.Has(mcp.MetaProgressToken) && !meta.Has(mcp.MetaRelatedTask) {
		return params
	}
	if meta = meta.Without(mcp.MetaProgressToken, mcp.MetaRelatedTask); meta.Len() == 0 {
		return params.Without("_meta")
	}
	return params.With("_meta", meta.JSON())
}

// withdraw takes a question back that the server no longer asks.
func (d *dialogue) withdraw(id mcp.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = slices.DeleteFunc(d.open, func(q question) bool { return q.id == id })
}

// attach begins a round.
func (d *dialogue) attach(c *registry.Call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.attached, d.kept, d.capabilities = true, 0, c.Capabilities
}

// round passes notifications on until there is something to return: the questions of the server, or its result. A
// caller who leaves ends the exchange.
func (d *dialogue) round(ctx context.Context, c *registry.Call) (mcp.Object, error) {
	relay := notifier(c)
	pass := func() {
		for {
			select {
			case m := <-d.notes:
				if relay != nil {
					relay(ctx, m)
				}
			default:
				return
			}
		}
	}
	signal(d.news) // questions of the round before may be open
	gather := time.NewTimer(gatherWindow)
	defer gather.Stop()
	gather.Stop()
	for {
		select {
		case m := <-d.notes:
			if relay != nil {
				relay(ctx, m)
			}
		case <-d.news:
			if d.waits() {
				gather.Reset(gatherWindow)
			}
		case <-gather.C:
			pass()
			if result, err := d.park(c); err != nil || result.Len() > 0 {
				return result, err
			}
		case <-d.done:
			pass()
			d.giveBack(ctx) // what its caller did not answer
			return d.result, d.err
		case <-ctx.Done():
			d.cancel()
			<-d.done
			d.giveBack(ctx)
			return mcp.Object{}, ctx.Err()
		}
	}
}

func (d *dialogue) stopExpiry() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.expiry != nil {
		d.expiry.Stop()
	}
}

// waits tells whether a question is open.
func (d *dialogue) waits() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.open) > 0
}

// park ends the round with the open questions. The result is empty when there are none any more.
func (d *dialogue) park(c *registry.Call) (mcp.Object, error) {
	state := rand.Text()
	if !d.pool.park(state, d) {
		d.cancel()
		<-d.done
		return mcp.Object{}, d.pool.server.unavailable(true, errCrowded)
	}
	var release func()
	if !d.held && c.Hold != nil {
		release = c.Hold()
	}
	d.mu.Lock()
	if d.ended || len(d.open) == 0 {
		d.mu.Unlock()
		d.pool.claim(state, d)
		if release != nil {
			release()
		}
		return mcp.Object{}, nil
	}
	defer d.mu.Unlock()
	if release != nil {
		d.held, d.release = true, release
	}
	asked := d.open[:min(len(d.open), roundMax)] // the others come in the next round
	members := make([]mcp.Member, len(asked))
	for i, q := range asked {
		members[i] = mcp.Member{Name: q.key, Value: q.request}
	}
	d.attached = false
	d.expiry = time.AfterFunc(parkLimit, func() { d.expire(state) })
	return inputRequired(mcp.NewObject(members...), state), nil
}

func inputRequired(requests mcp.Object, state string) mcp.Object {
	return mcp.NewObject(
		mcp.Member{Name: "resultType", Value: mcp.String("input_required")},
		mcp.Member{Name: "inputRequests", Value: requests.JSON()},
		mcp.Member{Name: "requestState", Value: mcp.String(state)},
	)
}

// expire ends a call whose round was not repeated in time.
func (d *dialogue) expire(state string) {
	if d.pool.claim(state, d) {
		d.cancel()
		<-d.done                         // the server hears first that the call is over
		d.giveBack(context.Background()) // there is no caller
	}
}

// resume is the repeat of a call that waits for answers. Each round is repeated once.
func (p *pool) resume(ctx context.Context, c *registry.Call, state string) (mcp.Object, error) {
	answers, err := answersOf(c)
	if err != nil {
		return mcp.Object{}, err
	}
	d := p.waiting(state)
	if d == nil || d.owner != p.ownerOf(c) {
		return mcp.Object{}, errNotParked
	}
	if err = d.check(answers); err != nil {
		return mcp.Object{}, err
	}
	if !p.claim(state, d) {
		return mcp.Object{}, errNotParked
	}
	d.attach(c)
	if err = d.answer(ctx, answers, c.Refusals); err != nil && ctx.Err() == nil {
		d.cancel()
		<-d.done
		return mcp.Object{}, p.server.settle(ctx, err)
	}
	return d.round(ctx, c)
}

// answersOf returns the answers that a repeat brings, by the questions' keys.
func answersOf(c *registry.Call) (mcp.Object, error) {
	raw := c.Params.Value("inputResponses")
	if raw == nil {
		return mcp.Object{}, nil
	}
	answers, ok := mcp.ObjectOf(raw)
	if !ok {
		return mcp.Object{}, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: inputResponses must be an object")
	}
	return answers, nil
}

// check tells what is wrong with the form of the answers. Those to nothing that was asked do not matter.
func (d *dialogue) check(answers mcp.Object) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.open {
		if answer := answers.Value(q.key); answer != nil && !answer.IsObject() {
			return mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: the answer to %s must be an object", q.key)
		}
	}
	return nil
}

// answer passes the answers on to the server, each once. Questions without one stay open.
func (d *dialogue) answer(ctx context.Context, answers mcp.Object, refusals map[string]*mcp.Error) error {
	var bodies [][]byte
	d.stopExpiry()
	d.mu.Lock()
	d.open = slices.DeleteFunc(d.open, func(q question) bool {
		refused := refusals[q.key]
		answer, ok := mcp.ObjectOf(answers.Value(q.key))
		switch {
		case ok:
			bodies = append(bodies, mcp.AppendResult(nil, q.id, answer))
		case refused != nil:
			bodies = append(bodies, rejection(q.id, refused))
		}
		return ok || refused != nil
	})
	d.mu.Unlock()
	for _, body := range bodies {
		if err := d.session.link.Send(ctx, body); err != nil && !d.over() {
			return d.pool.server.from(err)
		}
	}
	return nil
}

// over tells whether the exchange has ended, which makes an answer moot.
func (d *dialogue) over() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}
