package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

const (
	purposeState = "requestState 1"
	// purposeHome is that of a state whose call waits in one replica, which stands in it. A version of the gateway that
	// does not know it refuses the state, as it refused every state of a call that waits elsewhere.
	purposeHome = "requestState 2"
	stateLife   = 10 * time.Minute
	maxInner    = 64 << 10 // bytes of a requestState of an upstream
	maxCallID   = 128      // bytes
	freeRounds  = 8        // repeats of one call that cost nothing
)

// state is what the gateway itself puts into the requestState of an input_required result, around what the upstream put
// there. The client brings it back when it repeats the call. It is valid only for the same client, user, tenant and
// request, and only until it expires.
//
//	round 1: call ─▶ … ─▶ the item asks ─▶ suspend seals a state ─▶ client
//	round 2: the client repeats the call ─▶ resume opens the state ─▶ … ─▶ a result, or another question and round 3
//
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
type state struct {
	owner    [sha256.Size]byte
	request  [sha256.Size]byte
	expires  time.Time
	spent    time.Duration // how much of the item's time all rounds have used
	nonce    nonce
	rounds   byte // how many there were; stays at 255
	held     bool // the call still has its place among the calls at once
	hasInner bool
	server   string
	callID   string // the id of the first request
	inner    string
	home     replica.ID // where the call waits; "": any replica can go on with it, or there is only one
}

// Why a state is refused, as records say it. The client is not told which of these it was.
const (
	stateForged   = "state_forged"
	stateForeign  = "state_foreign"
	stateMismatch = "state_mismatch"
	stateExpired  = "state_expired"
)

// resumed makes the repeat of a call part of that call: it opens the state of the previous round, so that the repeat
// costs no second token and continues with the place and the clock of the first round. If the result asks for input
// once more, it seals the state of this round. A request with an invalid state costs what a call costs.
func (g *Gateway) resumed(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		if sealed := c.params.Value("requestState"); sealed != nil {
			if err := g.resume(ctx, c, sealed); err != nil {
				refused := g.limited(func(context.Context, *call) (mcp.Object, error) { return mcp.Object{}, err })
				return refused(ctx, c)
			}
		}
		result, err := next(ctx, c)
		if err != nil || !c.asking {
			return result, err
		}
		return g.suspend(c, result)
	}
}

// resume makes c the next round of the call that the sealed state belongs to. Only the first use of a state is free of
// charge, or a client could repeat one forever.
func (g *Gateway) resume(ctx context.Context, c *call, sealed mcp.RawJSON) error {
	token, ok := sealed.Text()
	if !ok {
		return &stateError{stateForged}
	}
	owner := c.owner() // worked out for every state, so that the time does not tell a foreign one from a forged one
	s, ok := g.openState(token)
	now := time.Now()
	switch {
	case !ok:
		return g.unreadable(&stateError{stateForged})
	case s.owner != owner:
		return &stateError{stateForeign}
	case s.request != c.digest():
		return &stateError{stateMismatch}
	case !now.Before(s.expires):
		return &stateError{stateExpired}
	}
	c.state = s
	c.lost = g.isElsewhere(s.home) // the door would have forwarded it if that replica were there
	if g.isFirst(ctx, c, s, now) {
		c.prepaid, c.kept = c.method.free || s.rounds <= freeRounds, s.held
	}
	c.params = c.params.Without("requestState")
	if s.hasInner {
		c.params = c.params.With("requestState", mcp.String(s.inner))
	}
	return nil
}

// Home returns the replica that alone can go on with what a request names: a call that waits there for answers, or a task
// that lives there. It is "" where any can, where the request names nothing of the kind, and where the caller may not use
// the item by the config of this replica: two replicas may have different configs, and both must allow it.
func (g *Gateway) Home(caller Caller, method string, params mcp.Object) replica.ID {
	if sealed, ok := params.Value("requestState").Text(); ok {
		m := g.methods[method]
		s, ok := g.openState(sealed)
		if m == nil || !ok || !g.isElsewhere(s.home) {
			return ""
		}
		err := m.find(g, newCall(caller, &Request{Method: method, Params: params}, m))
		if _, down := errors.AsType[*registry.DownError](err); err != nil && !down {
			return ""
		}
		return s.home
	}
	if !mcp.MethodOf(method).OfTasks() {
		return ""
	}
	t, err := g.openTask(params.Text("taskId"))
	if err != nil || !g.isElsewhere(t.home) {
		return ""
	}
	if found := g.grantOf(caller).tool(t.tool); found == nil || found.Server != t.server {
		return ""
	}
	return t.home
}

// isElsewhere tells whether only another replica can go on with what that replica keeps.
func (g *Gateway) isElsewhere(home replica.ID) bool {
	return home != "" && home != g.config.Others.Self()
}

var (
	// errHomeUnreached says that it cannot be known now where a call goes on. Nothing happened to the call.
	errHomeUnreached = errors.New("the replica that keeps the call cannot be reached")
	// errHomeLost says that the home of a call has gone, and the call with it.
	errHomeLost = errors.New("the replica that kept the call is gone")
)

// errLater says that a replica of a later version runs, which may have sealed what cannot be opened here.
var errLater = fmt.Errorf("sealed by a later version, perhaps: %w", errHomeUnreached)

// unreadable returns the error for what this replica cannot open: what it takes for forged, unless a later version may have
// made it. Then the client is to try again.
func (g *Gateway) unreadable(forged error) error {
	if g.config.Others.IsNewerThere() {
		return errLater
	}
	return forged
}

// openState opens a sealed state of either version. ok is false if it is not one of ours.
func (g *Gateway) openState(token string) (s *state, ok bool) {
	purpose := purposeState
	plain, err := g.config.Seal.OpenLong(purpose, token)
	if err != nil {
		purpose = purposeHome
		plain, err = g.config.Seal.OpenLong(purpose, token)
	}
	if err != nil {
		return nil, false
	}
	return decodeState(plain, purpose == purposeHome)
}

// isFirst tells whether the state was not used before. That of a call which waits here is used nowhere else, so that no
// other replica has to be asked.
func (g *Gateway) isFirst(ctx context.Context, c *call, s *state, now time.Time) bool {
	if s.home != "" {
		return g.used.first(s.nonce, now)
	}
	return g.firsts.isFirst(ctx, c.caller.Tenant.ID, s.nonce, now)
}

// suspend puts the sealed state of this round into a result that asks for input.
func (g *Gateway) suspend(c *call, result mcp.Object) (mcp.Object, error) {
	s := &state{
		owner: c.owner(), request: c.digest(), expires: time.Now().Add(stateLife), spent: c.spent, rounds: 1,
		held: c.kept || c.place.held(), server: c.item.Server, callID: c.callID(),
	}
	s.inner, s.hasInner = result.Value("requestState").Text()
	purpose := purposeState
	if c.stays && g.self != "" {
		purpose, s.home = purposeHome, g.self
	}
	_, _ = rand.Read(s.nonce[:]) // never returns an error
	if c.state != nil {
		s.rounds = c.state.rounds
		if s.rounds < math.MaxUint8 {
			s.rounds++
		}
	}
	sealed, err := g.config.Seal.SealLong(purpose, s.encode())
	if err != nil {
		return mcp.Object{}, err
	}
	return result.With("requestState", mcp.String(sealed)), nil
}

// callID returns the id of the first request of the call, which its records in all rounds share.
func (c *call) callID() string {
	if c.state != nil {
		return c.state.callID
	}
	return c.request.ID[:min(len(c.request.ID), maxCallID)]
}

// owner returns the digest of the owner of the call.
func (c *call) owner() [sha256.Size]byte { return c.caller.Principal.Owner().Digest() }

// digest identifies what was requested. It is the same in every round of a call, whatever was answered in between.
func (c *call) digest() [sha256.Size]byte {
	arguments, err := strictjson.Compact(c.params.Value("arguments"))
	if err != nil { // there are none
		arguments = nil
	}
	return digestOf(c.request.Method, c.method.spelt(c.params), string(arguments))
}

// digestOf returns a digest of several texts that no other texts have: each is preceded by its length.
func digestOf(texts ...string) [sha256.Size]byte {
	var joined []byte
	for _, text := range texts {
		joined = appendSized(joined, text)
	}
	return sha256.Sum256(joined)
}

func appendSized(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

const (
	flagHeld = 1 << iota
	flagInner
)

// encode returns s as bytes. The home comes last but for inner, and only if there is one: purposeHome says so.
func (s *state) encode() []byte {
	plain := make([]byte, 0, 160+len(s.server)+len(s.callID)+len(s.inner))
	plain = append(append(append(plain, s.owner[:]...), s.request[:]...), s.nonce[:]...)
	plain = binary.AppendVarint(plain, s.expires.Unix())
	plain = binary.AppendVarint(plain, int64(s.spent))
	flags := byte(0)
	if s.held {
		flags |= flagHeld
	}
	if s.hasInner {
		flags |= flagInner
	}
	plain = append(plain, flags, s.rounds)
	plain = appendSized(appendSized(plain, s.server), s.callID)
	if s.home != "" {
		plain = appendSized(plain, string(s.home))
	}
	return append(plain, s.inner...)
}

// decodeState reads what encode wrote.
func decodeState(plain []byte, hasHome bool) (*state, bool) {
	r := &stateReader{rest: plain, ok: true}
	s := &state{}
	copy(s.owner[:], r.next(len(s.owner)))
	copy(s.request[:], r.next(len(s.request)))
	copy(s.nonce[:], r.next(len(s.nonce)))
	s.expires = time.Unix(r.varint(), 0)
	s.spent = time.Duration(r.varint())
	flags := r.byte()
	s.held, s.hasInner, s.rounds = flags&flagHeld != 0, flags&flagInner != 0, r.byte()
	s.server, s.callID = r.sized(), r.sized()
	if hasHome {
		s.home = replica.ID(r.sized())
	}
	s.inner = string(r.rest)
	return s, r.ok
}

// stateReader reads values from the front of rest. After the first error ok is false, and everything read is zero.
type stateReader struct {
	rest []byte
	ok   bool
}

func (r *stateReader) next(n int) []byte {
	if !r.ok || n < 0 || n > len(r.rest) {
		r.ok = false
		return nil
	}
	read := r.rest[:n:n]
	r.rest = r.rest[n:]
	return read
}

// byte reads one byte, 0 where there is none.
func (r *stateReader) byte() byte {
	if read := r.next(1); len(read) > 0 {
		return read[0]
	}
	return 0
}

func (r *stateReader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.ok = false
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *stateReader) sized() string {
	size, n := binary.Uvarint(r.rest)
	if n <= 0 || size > uint64(len(r.rest)) {
		r.ok = false
		return ""
	}
	r.rest = r.rest[n:]
	return string(r.next(int(size))) //nolint:gosec // not more than there is
}
