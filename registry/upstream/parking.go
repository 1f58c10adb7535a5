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
)

// parking keeps the calls of a pool whose callers can be asked, while the callers come and go. It is safe for concurrent
// use.
//
// A call begins attached: its caller waits in a round. The exchange with the server goes on in a goroutine of its own.
//
//	            the server asks                    the caller repeats the call
//	attached ─────────────────────▶ parked ─────────────────────────────────────▶ attached
//	   │  │                           │  │                  with answers, which go to the server
//	   │  │ the caller leaves         │  │ nobody repeats it within parkLimit
//	   │  └─────────▶ cancelled ◀─────┼──┘
//	   │                  │           │
//	   │ the server answers           │ the server answers all the same, or cancels its questions
//	   ▼                  ▼           ▼
//	 ended ◀──────────────────────────┘  the result waits for the repeat, until parkLimit is over
//
// A call that ends, in whichever way, first leaves the calls of its session, so that it is asked nothing more; then the
// server gets an answer to each question that nobody will answer; then the seat is free. The other way round, a question of
// this call could reach the next user of the session.
type parking struct {
	server fault
	room   *seats.Room[*pooled]
	tasks  *tasks
	count  func(Anomaly, int)
	asked  atomic.Bool // a question came at least once
	strict atomic.Bool // a caller was to be asked what it cannot be

	mu      sync.Mutex // guards the fields below
	ended   bool
	waiting map[string]*dialogue // by the requestState that their callers have
}

// dialogue is a call whose caller can be asked, from its first round to its end.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
type dialogue struct {
	*questions
	parking *parking
	session *pooled
	cancel  func()        // ends the exchange; set by begin
	held    bool          // the call's place is kept; only the present round touches this
	done    chan struct{} // closed when the exchange ended, after the next two were set
	result  mcp.Object
	err     error

	timing sync.Mutex  // guards the field below
	expiry *time.Timer // of the round that waits for its repeat
}

var errNotParked = mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: the call with this requestState does not wait for an answer")

// begin runs a call of a caller who can be asked, on a seat that it leaves, until its first round ends.
func (p *parking) begin(ctx context.Context, who auth.Owner, s *seat, i *item, c *registry.Call) (mcp.Object, error) {
	d := &dialogue{questions: newQuestions(who, c, &p.strict, p.count), parking: p, session: s.Session, done: make(chan struct{})}
	d.session.calls.enter(d.questions)
	cancel, ok := p.room.Go(func(ctx context.Context) {
		defer p.room.Leave(s, seats.Call)
		d.run(ctx, s, i, c)
	})
	if !ok {
		d.session.calls.leave(d.questions)
		p.room.Leave(s, seats.Call)
		return mcp.Object{}, p.server.unavailable(false, wire.ErrGone)
	}
	d.cancel = cancel
	return d.round(ctx, c)
}

// resume is the repeat of a call that waits for answers. Each round is repeated once.
func (p *parking) resume(ctx context.Context, who auth.Owner, c *registry.Call, state string) (mcp.Object, error) {
	answers, err := answersOf(c)
	if err != nil {
		return mcp.Object{}, err
	}
	d := p.find(state)
	if d == nil || d.owner != who {
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
		return mcp.Object{}, p.server.forCaller(ctx, err)
	}
	return d.round(ctx, c)
}

// park keeps a call whose round has ended until its repeat claims it. It returns false when there are too many.
func (p *parking) park(state string, d *dialogue) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || len(p.waiting) >= parkedMax {
		return false
	}
	p.waiting[state] = d
	p.asked.Store(true)
	return true
}

// find returns the call that waits with that state, nil when there is none.
func (p *parking) find(state string) *dialogue {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting[state]
}

// claim tells whether the caller is the one who goes on with the call, which is the first who asks.
func (p *parking) claim(state string, d *dialogue) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting[state] != d {
		return false
	}
	delete(p.waiting, state)
	return true
}

// shut lets no call be parked any more, and none of those that are go on. When the calls have ended, finish ends what else
// there is of them.
func (p *parking) shut() (finish func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	waiting := p.waiting
	p.waiting = nil
	return func() {
		for _, d := range waiting {
			d.stopExpiry()
		}
	}
}

// run runs the exchange to its end, and leaves no question without an answer.
func (d *dialogue) run(ctx context.Context, s *seat, i *item, c *registry.Call) {
	ctx, stop := context.WithTimeout(ctx, lifeLimit)
	defer stop()
	exchange := func() (mcp.Object, error) { return d.session.session.run(ctx, i, c, d.questions) }
	if c.Tasks == mcp.TasksAsked && c.Task == "" {
		d.result, d.err = d.parking.tasks.tracked(s, c, exchange)
	} else {
		d.result, d.err = exchange()
	}
	var answered *mcp.Error
	if d.err != nil && !errors.As(d.err, &answered) {
		d.session.calls.abandon(d.owner)
	}
	switch {
	case d.err == nil:
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		d.err = d.parking.server.unavailable(true, errLong)
	case ctx.Err() != nil: // its own, and not that of any caller
		d.err = d.parking.server.unavailable(true, wire.ErrGone)
	}
	others := d.session.calls.leave(d.questions)
	left, release := d.finish(others > 0)
	d.pass(ctx, left)
	if release != nil {
		release()
	}
	close(d.done)
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
			if d.unanswered() > 0 {
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

// park ends the round with the open questions. The result is empty when there are none any more.
func (d *dialogue) park(c *registry.Call) (mcp.Object, error) {
	state := rand.Text()
	if !d.parking.park(state, d) {
		d.cancel()
		<-d.done
		return mcp.Object{}, d.parking.server.unavailable(true, errCrowded)
	}
	var release func()
	if !d.held && c.Hold != nil {
		release = c.Hold()
	}
	requests, ok := d.detach(release)
	if !ok {
		d.parking.claim(state, d)
		if release != nil {
			release()
		}
		return mcp.Object{}, nil
	}
	d.held = d.held || release != nil
	d.startExpiry(state)
	return inputRequired(requests, state), nil
}

func inputRequired(requests mcp.Object, state string) mcp.Object {
	return mcp.NewObject(
		mcp.Member{Name: "resultType", Value: mcp.String("input_required")},
		mcp.Member{Name: "inputRequests", Value: requests.JSON()},
		mcp.Member{Name: "requestState", Value: mcp.String(state)},
	)
}

// startExpiry ends a call whose round is not repeated in time.
func (d *dialogue) startExpiry(state string) {
	d.timing.Lock()
	defer d.timing.Unlock()
	d.expiry = time.AfterFunc(parkLimit, func() {
		if d.parking.claim(state, d) {
			d.cancel()
			<-d.done                         // the server hears first that the call is over
			d.giveBack(context.Background()) // there is no caller
		}
	})
}

func (d *dialogue) stopExpiry() {
	d.timing.Lock()
	defer d.timing.Unlock()
	if d.expiry != nil {
		d.expiry.Stop()
	}
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

// answer passes the answers on to the server, each once. Questions without one stay open.
func (d *dialogue) answer(ctx context.Context, answers mcp.Object, refusals map[string]*mcp.Error) error {
	d.stopExpiry()
	for _, body := range d.answered(answers, refusals) {
		if err := d.session.session.link.Send(ctx, body); err != nil && !d.over() {
			return d.parking.server.from(err)
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

// giveBack passes on what nobody answers any more in a call that has ended.
func (d *dialogue) giveBack(ctx context.Context) { d.pass(ctx, d.drop()) }

// pass passes questions on to other calls of the same caller, or tells the server that they end with this one.
func (d *dialogue) pass(ctx context.Context, left []question) {
	if len(left) == 0 {
		return
	}
	for _, answer := range d.session.calls.pass(d.owner, left) {
		d.session.session.link.Tell(ctx, answer)
	}
}
