package upstream

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/seats"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// Limits of calls whose callers can be asked.
const (
	gatherWindow = 25 * time.Millisecond // after a question, in which further questions join its round
	parkLimit    = 5 * time.Minute       // for the repeat that brings the answers to a round
	lifeLimit    = 30 * time.Minute      // for a whole call, all its rounds together
	// bytes that a parked call takes besides its params and questions, roughly
	parkedCost = 16 << 10
	// calls that are parked at the same time, of one pool; a tenant alone gets half
	parkedMax = 1000
)

// parking keeps the calls of a pool whose callers can be asked. The exchange of such a
// call with its server runs on in a goroutine of its own, while its callers come and go:
// each takes part in one round, from a request to its result. It is safe for concurrent
// use.
//
// A call begins attached, which means that a caller waits in a round.
//
//	            the server asks                    the caller repeats the call
//	attached ─────────────────────▶ parked ─────────────────────────────────────▶ attached
//	   │  │                           │  │                  with answers, which go to the server
//	   │  │ the caller leaves         │  │ nobody repeats it within parkLimit, or its caller may not go on
//	   │  └─────────▶ cancelled ◀─────┼──┘
//	   │                  │           │
//	   │ the server answers           │ the server answers all the same, or cancels its questions
//	   ▼                  ▼           ▼
//	 ended ◀──────────────────────────┘  the result waits for the repeat, until parkLimit is over
//
// However a call ends, three things happen in this order. First it leaves the calls of
// its session, so that it is asked nothing more. Then the server gets an answer to each
// question that nobody will answer. Only then is the seat free. In any other order, a
// question of this call could reach the next user of the session.
type parking struct {
	server fault
	seats  *seats.Pool[*pooled]
	tasks  *tasks
	count  func(Anomaly, int)
	asked  atomic.Bool // a call was parked at least once, so this server can ask here
	// as Config.saved
	saved func(ctx context.Context, do func() error) error
	// a server asked a caller something that this caller cannot be asked; see
	// pool.lentKey
	strict atomic.Bool
	slots  *share.Budget // of the calls in waiting

	mu sync.Mutex // guards the fields below
	// the parked calls, by the requestState that their callers have, and those that read
	// tasks/result for clients who cannot, by the id of the task. States are random, so
	// no task of a server has the name of one. nil after shut
	waiting map[string]*parkedCall
}

// parkedCall is one call whose caller can be asked, from its first round to its end. Its
// goroutine (run) talks to the server; at most one round at a time talks to the caller.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
type parkedCall struct {
	*questions
	parking *parking
	session *pooled
	cancel  func()             // ends the exchange with the server; set by start
	until   time.Time          // when the exchange ends at the latest
	memory  *share.Reservation // holds what has come of its answer, until a round returns that
	// bytes of the request that began the call, which its exchange keeps as it came and
	// as it is sent
	params       int
	slotRetained bool          // the call's slot in the tenant's concurrency is kept; for rounds alone
	done         chan struct{} // closed when the exchange has ended, after result and err were set
	result       mcp.Object
	err          error
	// ends the call if it is parked for too long; nil: it was never parked. Guarded by
	// the mutex of parking
	expiry *time.Timer
}

// errNotParked is one error for a state that is unknown, used, expired or another
// owner's, so that it says nothing about other callers' calls.
var errNotParked = mcp.Errorf(mcp.CodeInvalidParams,
	"Invalid params: the call with this requestState does not wait for an answer")

// begin runs a call of a caller who can be asked, until its first round ends. The caller
// of begin has taken the seat; begin sees to it that the seat is left when the exchange
// ends.
func (p *parking) begin(ctx context.Context, who auth.Owner, s *seat, i *item,
	c *registry.Call,
) (mcp.Object, error) {
	d := p.newCall(who, s, i, c)
	if err := d.start(s, i, c, func() {}); err != nil {
		return mcp.Object{}, err
	}
	return d.round(ctx, c)
}

// newCall returns a call that start will run on the session in the seat.
func (p *parking) newCall(who auth.Owner, s *seat, i *item, c *registry.Call) *parkedCall {
	d := &parkedCall{
		questions: newQuestions(who, c, &p.strict, p.count, &s.Session.session.elicitations),
		parking:   p, session: s.Session,
		memory: c.Memory.Another(), until: time.Now().Add(lifeLimit),
		params: 2 * c.Params.Size(), done: make(chan struct{}),
	}
	if i.method == mcp.MethodTasksResult {
		d.task = i.name
	}
	return d
}

// start runs the exchange of a call in a goroutine of its own, which leaves the seat and
// calls ended when the exchange has ended. After an error the seat is left, too.
func (d *parkedCall) start(s *seat, i *item, c *registry.Call, ended func()) error {
	p := d.parking
	d.session.calls.enter(d.questions)
	cancel, ok := p.seats.Go(func(ctx context.Context) {
		d.run(ctx, s, i, c)
		// The caller's next call, which may come at once, finds the seat free.
		p.seats.Release(s, seats.Call)
		ended()
		close(d.done)
	})
	if !ok {
		d.session.calls.remove(d.questions)
		p.seats.Release(s, seats.Call)
		return p.server.unavailable(false, wire.ErrGone)
	}
	d.cancel = cancel
	return nil
}

// resume runs the next round of a parked call: c is its repeat, state its requestState. A
// state is good for one repeat, by the owner of the call.
func (p *parking) resume(ctx context.Context, who auth.Owner, c *registry.Call,
	state string,
) (mcp.Object, error) {
	d := p.find(state)
	if d == nil || d.owner != who || !p.claim(state, d) {
		return mcp.Object{}, errNotParked
	}
	d.attach(c)
	if err := d.answer(ctx, c); err != nil && ctx.Err() == nil {
		d.abort()
		return mcp.Object{}, err
	}
	return d.round(ctx, c)
}

// park makes a call wait for its repeat under a state, for parkLimit at most. It returns
// false when too many calls are parked, of its caller, of its tenant or of all, or when
// the pool is closing.
func (p *parking) park(state string, d *parkedCall) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil || p.slots.Take(d.user(), 1) != nil {
		return false
	}
	p.waiting[state] = d
	d.expiry = time.AfterFunc(parkLimit, func() {
		if p.claim(state, d) {
			d.abort()
			d.giveBack(context.Background()) // there is no caller whose context could be used
		}
	})
	p.asked.Store(true)
	return true
}

// find returns the call that is parked under a state, or reads the result of the task
// with that id; nil when there is none.
func (p *parking) find(state string) *parkedCall {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting[state]
}

// claim takes a call out of those that are parked, and gives its place back. It returns
// true once for each park: of two repeats, or of a repeat and the end of parkLimit, the
// first one goes on with the call.
func (p *parking) claim(state string, d *parkedCall) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting[state] != d {
		return false
	}
	if d.expiry != nil {
		d.expiry.Stop() // or it would keep the call in memory
	}
	delete(p.waiting, state)
	p.slots.Give(d.user(), 1)
	return true
}

// shut refuses all further parking and all repeats. It is called before the exchanges are
// ended; the function that it returns, called after they have ended, stops the timers.
func (p *parking) shut() (finish func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting := p.waiting
	p.waiting = nil
	return func() {
		for _, d := range waiting {
			if d.expiry != nil {
				d.expiry.Stop()
			}
			d.release()
		}
	}
}

// run runs the exchange with the server to its end, and leaves no question without an
// answer. It is the call's own goroutine; see parking for why it ends in this order.
func (d *parkedCall) run(ctx context.Context, s *seat, i *item, c *registry.Call) {
	ctx, stop := context.WithDeadline(ctx, d.until)
	defer stop()
	own := *c
	own.Memory = d.memory // it outlives the round in which the call began
	d.result, d.err = d.parking.tasks.tracked(s, c, func() (result mcp.Object, err error) {
		err = d.parking.saved(ctx, func() (err error) {
			result, err = d.session.session.run(ctx, i, &own, d.questions)
			return err
		})
		return result, err
	})
	if d.err != nil && !isAnswer(d.err) {
		d.session.calls.abandon(d.owner)
	}
	switch {
	case d.err == nil:
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		d.err = d.parking.server.unavailable(true, errLong)
	case ctx.Err() != nil: // the call's own context, not a caller's: cancelled, or the pool is closing
		d.err = d.parking.server.unavailable(true, wire.ErrGone)
	}
	others := d.session.calls.remove(d.questions)
	left, release := d.finish(others > 0)
	d.pass(ctx, left)
	if release != nil {
		release()
	}
}

// round waits, for one caller, until there is something to return: the questions of the
// server, or the result of the call. Meanwhile it passes notifications on. A caller who
// leaves during the round ends the exchange.
func (d *parkedCall) round(ctx context.Context, c *registry.Call) (mcp.Object, error) {
	notify := notifier(c, c.Params.Object("_meta"))
	relay := func(m *mcp.Message) {
		if notify != nil {
			notify(ctx, m)
		}
	}
	gather := time.NewTimer(gatherWindow)
	defer gather.Stop()
	gather.Stop()
	for {
		select {
		case m := <-d.notes.Waiting():
			d.notes.Took(m)
			relay(m)
		case <-d.asked:
			if d.unanswered() > 0 {
				gather.Reset(gatherWindow)
			}
		case <-gather.C:
			d.notes.Each(relay)
			if result, err := d.park(c); err != nil || result.Len() > 0 {
				return result, err
			}
		case <-d.done:
			d.notes.Each(relay)
			d.giveBack(ctx) // questions of an earlier round that its caller did not answer
			d.notes.Close()
			c.Memory.Adopt(d.memory)
			return d.result, d.err
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				d.session.conn.waitedInVain() // the exchange does not see it: it is cancelled
			}
			d.abort()
			d.giveBack(ctx)
			return mcp.Object{}, ctx.Err()
		}
	}
}

// park ends the round with the open questions. It returns an empty result, and the round
// goes on, when the server has withdrawn its questions or ended the call meanwhile.
func (d *parkedCall) park(c *registry.Call) (mcp.Object, error) {
	switch err := d.keep(parkedCost + d.params); {
	case errors.Is(err, share.ErrOver): // the exchange has ended just now
		return mcp.Object{}, nil
	case err != nil:
		d.abort()
		return mcp.Object{}, &registry.MemoryError{Server: string(d.parking.server), Err: err}
	}
	state := rand.Text()
	if !d.parking.park(state, d) {
		d.abort()
		return mcp.Object{}, d.parking.server.unavailable(true, errCrowded)
	}
	var release func()
	if !d.slotRetained && c.Hold != nil {
		release = c.Hold(d.cancel)
	}
	requests, ok := d.detach(release)
	if !ok {
		d.parking.claim(state, d)
		if release != nil {
			release()
		}
		return mcp.Object{}, nil
	}
	d.slotRetained = d.slotRetained || release != nil
	if c.Sticky != nil {
		*c.Sticky = true // the state leads to a parked call of this process
	}
	return inputRequired(requests, state), nil
}

// inputRequired returns the result that asks the caller these questions and wants the
// request again, with the state.
func inputRequired(requests mcp.Object, state string) mcp.Object {
	return mcp.NewObject(
		mcp.Member{Name: "resultType", Value: mcp.String("input_required")},
		mcp.Member{Name: "inputRequests", Value: requests.JSON()},
		mcp.Member{Name: "requestState", Value: mcp.String(state)},
	)
}

// user returns whose share the call takes from.
func (d *parkedCall) user() share.User { return share.User(d.owner.User) }

// release gives back the memory of a call that has ended and whose result nobody will
// fetch.
func (d *parkedCall) release() {
	d.memory.Release()
	d.notes.Close()
	d.reserved.Release()
}

// abort ends the exchange with the server, which learns that the call is over, and gives
// back what the call has.
func (d *parkedCall) abort() {
	d.cancel()
	<-d.done
	d.release()
}

// answer sends the answers of a caller to the server, each once. Questions without an
// answer stay open, for the next round. An answer that cannot be sent matters only while
// the exchange still runs.
func (d *parkedCall) answer(ctx context.Context, c *registry.Call) error {
	for _, body := range d.answered(c.Params.Object("inputResponses"), c.Refusals) {
		if err := d.session.session.link.Send(ctx, body); err != nil && !d.over() {
			// whatever became of the answer, the call itself was sent before
			return d.parking.server.unavailable(true, cause(d.parking.server.from(err)))
		}
	}
	return nil
}

// over tells whether the exchange has ended.
func (d *parkedCall) over() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// giveBack passes on the questions that are still open in a call that has ended. They
// were kept for its caller, who will not answer any more.
func (d *parkedCall) giveBack(ctx context.Context) { d.pass(ctx, d.drop()) }

// pass passes questions on to other calls of the same owner, or tells the server that
// they end with this call.
func (d *parkedCall) pass(ctx context.Context, left []question) {
	for _, answer := range d.session.calls.pass(d.owner, left) {
		d.session.session.link.Tell(ctx, answer)
	}
}
