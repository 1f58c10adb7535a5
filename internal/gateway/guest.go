package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// verifyTime is how long a token may take to be checked.
const verifyTime = 5 * time.Second

// maxGuests is how many calls of other replicas run here at once, and are told that there are too many.
const maxGuests = 1024

// guests are the calls that other replicas have sent home, because they wait here. Each has a goroutine of its own, which
// close waits for. It is safe for concurrent use.
type guests struct {
	places  *share.Budget // of those that run
	running sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	ended bool
	here  map[guestKey]*guest
	known recent
}

// recent remembers which errands have begun here lately, so that a letter which was sent again because nobody knew whether
// it had come begins none a second time.
type recent struct {
	turned        time.Time // when now was empty
	now, previous map[errandID]struct{}
}

// recentTime is for how long recent remembers at least: longer than anybody sends a letter again.
const recentTime = 30 * time.Second

// isNew tells whether no errand of that id has begun lately, and remembers it.
func (r *recent) isNew(id errandID) bool {
	if time.Since(r.turned) >= recentTime {
		r.previous, r.now, r.turned = r.now, make(map[errandID]struct{}), time.Now()
	}
	_, known := r.now[id]
	_, knew := r.previous[id]
	r.now[id] = struct{}{}
	return !known && !knew
}

// guestKey names a guest: which replica sent it, under which name.
type guestKey struct {
	from   replica.ID
	errand errandID
}

// guest is one of them.
type guest struct {
	*inbox
	key    guestKey
	tenant string
	user   share.User // whom the replica that sent it says it is of; decides nothing but whose memory it takes
	cancel context.CancelCauseFunc
	leave  sync.Once
	left   chan struct{} // closed by leave
}

// goAway ends the guest, because its client has left and nobody waits for the answer.
func (v *guest) goAway() { v.leave.Do(func() { close(v.left) }); v.cancel(nil) }

// hasLeft tells whether nobody waits for the answer.
func (v *guest) hasLeft() bool {
	select {
	case <-v.left:
		return true
	default:
		return false
	}
}

// receive takes a letter of a replica that was asked for a call that waits here.
func (g *Gateway) receive(ctx context.Context, from replica.ID, w replica.Word) {
	l, ok := decodeLetter(w.Data)
	if !ok {
		return
	}
	key := guestKey{from, l.errand}
	g.guests.mu.Lock()
	defer g.guests.mu.Unlock()
	v := g.guests.here[key]
	switch {
	case v != nil && l.sort == sortLeave:
		v.goAway()
	case v != nil:
		v.take(l)
	case l.sort == sortRequest && l.first && l.number == 0:
		g.welcomeLocked(ctx, key, w.Tenant, l)
	}
}

// welcomeLocked begins a guest with the first letter of its request. Beyond twice maxGuests nobody answers any more, and
// who asked notices by the silence.
func (g *Gateway) welcomeLocked(ctx context.Context, key guestKey, tenant string, l letter) {
	issuer, subject, rest, ok := cutUser(l.text)
	if !ok || g.guests.ended || len(g.guests.here) >= 2*maxGuests || !g.guests.known.isNew(key.errand) {
		return
	}
	l.text = rest
	user := share.User{TenantID: tenant, Issuer: issuer, Subject: subject}
	v := &guest{inbox: newInbox(g.config.Memory.Claim(user)), key: key, tenant: tenant, user: user, left: make(chan struct{})}
	v.take(l)
	run, cancel := context.WithCancelCause(ctx)
	v.cancel = cancel
	g.guests.here[key] = v
	g.guests.running.Go(func() { g.host(ctx, run, v) })
}

// end removes a guest.
func (gs *guests) end(v *guest) {
	v.cancel(nil)
	v.room.Release()
	gs.mu.Lock()
	defer gs.mu.Unlock()
	delete(gs.here, v.key)
}

// count returns how many there are.
func (gs *guests) count() int {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	return len(gs.here)
}

// close ends all guests, takes no more, and waits until they have gone, and who sent them knows why.
func (gs *guests) close() {
	gs.mu.Lock()
	gs.ended = true
	for _, v := range gs.here {
		v.cancel(ErrStopped)
	}
	gs.mu.Unlock()
	gs.running.Wait()
}

// host runs a guest. run is the context of the call, and ctx that of what is said of it.
func (g *Gateway) host(ctx, run context.Context, v *guest) {
	defer g.guests.end(v)
	request, err := g.await(run, v)
	if request == nil && err == nil {
		return
	}
	p := &post{others: g.config.Others, to: v.key.from, kind: kindReturn, tenant: v.tenant, errand: v.key.errand}
	answer := refusedHere(err)
	if err == nil {
		var watching sync.WaitGroup
		watching.Go(func() { g.watch(run, v, p) })
		room := v.room.Another()
		defer room.Release()
		answer = g.runGuest(run, v, p, room, request)
		v.cancel(nil)
		watching.Wait()
	}
	if !v.hasLeft() {
		_ = p.deliver(ctx, answer.sort, answer.text, answerPatience) // who asked notices by the silence
	}
}

// await returns the request of a guest when all of it has come, nil if the rest will not come. An error says why it
// cannot be held.
func (g *Gateway) await(ctx context.Context, v *guest) ([]byte, error) {
	look := time.NewTicker(watchEvery)
	defer look.Stop()
	sender := presence{g.config.Others, v.key.from, time.Now()}
	for {
		select {
		case <-v.news:
			if said, err := v.messages(); err != nil || len(said) > 0 {
				if err != nil {
					return nil, err
				}
				return said[0].text, nil
			}
		case <-look.C:
			if sender.isLost() || v.quiet() > silence {
				return nil, nil
			}
		case <-ctx.Done():
			// A client that has left already has its call ended by a run whose context has ended, as it would have here.
			if said, err := v.messages(); err == nil && len(said) > 0 {
				return said[0].text, nil
			}
			return nil, nil
		}
	}
}

// watch says that the guest runs, and ends it when the replica that sent it is gone, until ctx ends.
func (g *Gateway) watch(ctx context.Context, v *guest, p *post) {
	look := time.NewTicker(watchEvery)
	defer look.Stop()
	sender := presence{g.config.Others, v.key.from, time.Now()}
	for said := time.Now(); ; {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		if sender.isLost() {
			v.goAway()
			return
		}
		if time.Since(said) >= beatEvery {
			said = time.Now()
			_ = p.deliver(ctx, sortBeat, nil, 0) // the next one will do
		}
	}
}

// runGuest runs the request of a guest as if its client had sent it here: the token is checked, and what its caller may
// do is judged by the config of this replica. The request itself was paid for where it came in.
func (g *Gateway) runGuest(ctx context.Context, v *guest, p *post, room *share.Claim, text []byte) message {
	if g.guests.places.Take(v.user, 1) != nil {
		return refusedHere(errHomeUnreached)
	}
	defer g.guests.places.Give(v.user, 1)
	r, ok := decodeRequest(text)
	if !ok {
		return refusedHere(errors.New("a request of another replica that cannot be read"))
	}
	m := g.methods[r.Method]
	if m == nil || !r.mayUse(m.Tasks) {
		return refusedHere(errors.New("a request of another replica that cannot wait here"))
	}
	caller, err := g.admitGuest(ctx, v, r.Token)
	if err != nil {
		return refusedHere(err)
	}
	r.Room = room
	r.Notify = func(ctx context.Context, n mcp.Notification) error {
		return p.deliver(ctx, sortNote, encodeNote(n), 0)
	}
	c := newCall(caller, r, m)
	c.visits = true
	result, err := g.call(ctx, c)
	if err != nil {
		return message{sortError, encodeError(explain(err).told).JSON()}
	}
	if result.Size() > maxPassed {
		return refusedHere(errPassed)
	}
	return message{sortResult, result.JSON()}
}

// admitGuest returns the caller that a token stands for here. A token that is not accepted here gives no access, whatever
// the replica thinks that took it.
func (g *Gateway) admitGuest(ctx context.Context, v *guest, token string) (Caller, error) {
	who, err := g.verify(ctx, token)
	if unsure, ok := errors.AsType[*auth.Error](err); ok && unsure.Reason == "unavailable" {
		return Caller{}, errHomeUnreached
	}
	if err != nil || who.TenantID != v.tenant {
		return Caller{}, errNoAccess
	}
	c, err := g.Resolve(who)
	if err != nil {
		return Caller{}, errNoAccess
	}
	c.userKey = c.key()
	return c, nil
}

// verify returns whose the token of a guest is. It does so for a client that has left, too: see await.
func (g *Gateway) verify(ctx context.Context, token string) (auth.Principal, error) {
	if g.config.Verify == nil {
		return auth.Principal{}, errNoVerifier
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), verifyTime)
	defer stop()
	return g.config.Verify(ctx, token)
}

var (
	errNoVerifier = errors.New("nobody checks tokens here")
	errNoAccess   = mcp.Stable(mcp.CodeForbidden, "DB-TENANT", "This token gives no access to the replica that keeps the call")
)

// refusedHere returns the message that a guest did not run, or that its answer cannot be passed on. The replica that asked
// records it.
func refusedHere(err error) message {
	failure := explain(err)
	if failure.told == nil {
		return message{}
	}
	o := encodeError(failure.told).With("kind", mcp.String(failure.kind)).With("reason", mcp.String(failure.reason)).
		With("refusal", mcp.Bool(failure.refusal))
	return message{sortRefused, o.JSON()}
}
