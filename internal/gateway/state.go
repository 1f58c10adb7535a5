package gateway

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
)

const (
	purposeState = "requestState 1"
	// purposeHome is that of a state whose call waits in one replica, which stands in it.
	// A version of the gateway that does not know it refuses the state, as it refused
	// every state of a call that waits elsewhere.
	purposeHome = "requestState 2"
	maxInner    = 64 << 10 // bytes of a requestState of an upstream
	maxCallID   = 128      // bytes
	freeRounds  = 8        // repeats of one call that cost nothing
)

// state is what the gateway itself puts into the requestState of an input_required
// result, around what the upstream put there. The client brings it back when it repeats
// the call. It is valid only for the same client, user, tenant and request, and only
// until it expires.
//
//	round 1: call ─▶ … ─▶ the item asks ─▶ suspend seals a state ─▶ client
//	round 2: the client repeats the call ─▶ resume opens the state ─▶ … ─▶ a result,
//	         or another question and round 3
//
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
type state struct {
	owner        [sha256.Size]byte
	request      [sha256.Size]byte
	expires      time.Time
	spent        time.Duration // how much of the item's time all rounds have used
	nonce        nonce
	rounds       byte // how many there were; stays at 255
	slotRetained bool // the call still has its slot among the calls at once
	hasInner     bool
	server       string
	callID       string // the id of the first request
	inner        string
	home         replica.ID // where the call waits; "": any replica can go on with it, or there is only one
}

// digestOf returns a digest of several texts that no other texts have: each is preceded
// by its length.
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
	flagSlotRetained = 1 << iota
	flagInner
)

// encode returns s as bytes. The home comes last but for inner, and only if there is one:
// purposeHome says so.
func (s *state) encode() []byte {
	plain := make([]byte, 0, 160+len(s.server)+len(s.callID)+len(s.inner))
	plain = append(append(append(plain, s.owner[:]...), s.request[:]...), s.nonce[:]...)
	plain = binary.AppendVarint(plain, s.expires.Unix())
	plain = binary.AppendVarint(plain, int64(s.spent))
	flags := byte(0)
	if s.slotRetained {
		flags |= flagSlotRetained
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
	s.slotRetained, s.hasInner, s.rounds = flags&flagSlotRetained != 0, flags&flagInner != 0, r.byte()
	s.server, s.callID = r.sized(), r.sized()
	if hasHome {
		s.home = replica.ID(r.sized())
	}
	s.inner = string(r.rest)
	return s, r.ok
}

// stateReader reads values from the front of rest. After the first error ok is false, and
// everything read is zero.
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

// task is what the id of a task, as clients have it, says. The server keeps the task
// itself, and the id is valid on every replica and for as long as the server has the
// task. One of 2025-11-25 lives in a session of the server, so that requests about it go
// to the replica that has the session. The id is valid only for whoever made the call,
// and only while that caller may use the tool.
// https://modelcontextprotocol.io/extensions/tasks
type task struct {
	owner        [sha256.Size]byte
	form         mcp.Tasks
	server, tool string     // the tool as exposed
	callID       string     // the id of the request that made the task
	own          string     // the id that the server knows it by
	home         replica.ID // the replica that reaches it; "": every one does
}

const (
	purposeTask      = "task 1"
	purposeLocalTask = "task 2"         // of a task that only one replica can reach, which stands in its id
	maxTaskID        = 512              // bytes of the id that a server gives a task
	resultTime       = 30 * time.Minute // that one tasks/result waits for its task
)
