package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

const (
	purposeState = "requestState 1"
	stateLife    = 10 * time.Minute
	maxInner     = 64 << 10 // bytes of a requestState of an upstream
	maxCallID    = 128      // bytes
	freeRounds   = 8        // repeats of one call that cost nothing
)

// state is what the requestState of an input_required result carries from one round of a call to the next, beside what
// the upstream put into its own. It serves the same client, user and tenant for the same request until it expires.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
type state struct {
	owner    [sha256.Size]byte
	request  [sha256.Size]byte
	expires  time.Time
	spent    time.Duration // of the item's time
	nonce    nonce
	rounds   byte // until now
	held     bool // the call's place is still taken
	hasInner bool
	server   string
	callID   string // the id of the first request
	inner    string
}

// What a state is refused for, in records. The client is told the same for all.
const (
	stateForged   = "state_forged"
	stateForeign  = "state_foreign"
	stateMismatch = "state_mismatch"
	stateExpired  = "state_expired"
)

// resumed opens the state of the round before, so that the repeat of a call costs no second token and finds its place
// and its clock, and seals the state of this round. A state that does not serve costs what a call costs.
func (g *Gateway) resumed(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		if sealed := c.params.Value("requestState"); sealed != nil {
			if err := g.resume(c, sealed); err != nil {
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

// resume makes c the next round of the call that its state is of. The first use of a state is free of charge.
func (g *Gateway) resume(c *call, sealed mcp.RawJSON) error {
	token, ok := sealed.Text()
	if !ok {
		return &stateError{stateForged}
	}
	plain, err := g.config.Seal.OpenLong(purposeState, token)
	if err != nil {
		return &stateError{stateForged}
	}
	s, ok := decodeState(plain)
	now := time.Now()
	switch {
	case !ok:
		return &stateError{stateForged}
	case s.owner != c.owner():
		return &stateError{stateForeign}
	case s.request != c.digest():
		return &stateError{stateMismatch}
	case !now.Before(s.expires):
		return &stateError{stateExpired}
	}
	c.state = s
	if g.used.first(s.nonce, now) {
		c.prepaid, c.kept = c.method.free || s.rounds <= freeRounds, s.held
	}
	c.params = c.params.Without("requestState")
	if s.hasInner {
		c.params = c.params.With("requestState", mcp.String(s.inner))
	}
	return nil
}

// suspend puts the sealed state of this round into a result that asks for input.
func (g *Gateway) suspend(c *call, result mcp.Object) (mcp.Object, error) {
	s := &state{
		owner: c.owner(), request: c.digest(), expires: time.Now().Add(stateLife), spent: c.spent, rounds: 1,
		held: c.kept || c.place.held(), server: c.item.Server, callID: c.callID(),
	}
	s.inner, s.hasInner = result.Value("requestState").Text()
	_, _ = rand.Read(s.nonce[:]) // never returns an error
	if c.state != nil {
		s.rounds = c.state.rounds
		if s.rounds < math.MaxUint8 {
			s.rounds++
		}
	}
	sealed, err := g.config.Seal.SealLong(purposeState, s.encode())
	if err != nil {
		return mcp.Object{}, err
	}
	return result.With("requestState", mcp.String(sealed)), nil
}

// callID returns the id of the call's first request.
func (c *call) callID() string {
	if c.state != nil {
		return c.state.callID
	}
	return c.request.ID[:min(len(c.request.ID), maxCallID)]
}

// owner returns a digest of who makes the call.
func (c *call) owner() [sha256.Size]byte { return c.caller.Principal.Owner().Digest() }

// digest identifies the request: the same in every round, whatever was answered.
func (c *call) digest() [sha256.Size]byte {
	arguments, err := strictjson.Compact(c.params.Value("arguments"))
	if err != nil { // there are none
		arguments = nil
	}
	return digestOf(c.request.Method, c.method.spelt(c.params), string(arguments))
}

// digestOf returns a digest of texts that no others have.
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

// encode returns s as bytes.
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
	return append(appendSized(appendSized(plain, s.server), s.callID), s.inner...)
}

// decodeState reads what encode wrote.
func decodeState(plain []byte) (*state, bool) {
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
	s.inner = string(r.rest)
	return s, r.ok
}

// stateReader reads from the front of rest; after an error it reads nothing.
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
