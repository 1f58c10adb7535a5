// Package ledger answers whether anything was lost while things broke: it keeps what
// clients asked and what they got, and joins that with what servers did and with what the
// gateway put on record. It speaks no protocol, opens nothing and waits for nothing: all
// that it judges was told to it.
package ledger

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"unique"
)

// Nonce names one call in all three books: the client writes it into the arguments, the
// server finds it there and repeats it in its answer, and the gateway was told to have it
// on record. The zero Nonce names none. The upper half names the
// ledger, the lower half counts its calls from 1.
type Nonce uint64

// String returns the nonce as it stands in arguments and answers.
func (n Nonce) String() string { return fmt.Sprintf("%016x", uint64(n)) }

// ParseNonce reads what String wrote, and returns 0 for anything else.
func ParseNonce(text string) Nonce {
	if len(text) != 16 {
		return 0
	}
	n, _ := strconv.ParseUint(text, 16, 64) // 0 where it is no number
	return Nonce(n)
}

// Question is what a client is about to ask.
type Question struct {
	Tenant string
	Kind   string // of client, such as "2025 progress"; for samples
	Keyed  bool   // it may be sent more than once, under one Idempotency-Key
	Events int    // how many numbered events come before its answer, at most 64
}

// Answer is what a good answer says of itself.
type Answer struct {
	Nonce  Nonce
	Serial uint64 // of the execution
	Tenant string // whom the server worked for, as the arguments said
}

// MaxEvents is how many numbered events one call may have.
const MaxEvents = 64

// end is how a call ended, as far as is known.
type end uint8

const (
	open end = iota // in flight, or its client forgot to enter its end: both are a loss once it is judged
	answered
	refused
	broken
	silent
)

// entry is one call. It is small, because there may be millions.
type entry struct {
	serial uint64 // of the answer
	seen   uint64 // bit i: event i+1 came

	// texts that many entries share; word is the code or how it ended
	tenant, kind, word unique.Handle[string]

	end                  end
	events, last         uint8 // that are to come; number of the last one that came
	doubled, disordered  uint8 // events; at most 255 are counted
	keyed, made          bool
	wasBroken            bool // it broke, whatever came later: events may be missing
	left                 bool // its client ended it, and it had no other end since
	cancelled            bool
	plain                bool // the answer had no place for events
	foreign, otherTenant bool // answer or event of another call; of another tenant's call
}

// Ledger is what the clients of one round asked and got. It is safe for concurrent use.
// It takes about 70 bytes for each call, and while it judges twice as many again.
type Ledger struct {
	base Nonce        // the upper half of its nonces
	told atomic.Int64 // changes

	mu      sync.Mutex // guards the fields below
	entries []entry    // of nonce base+i+1
	wrong   []wrong
}

// wrong is what a client noticed beside its calls.
type wrong struct {
	counts func(*Verdict) *int // the number that it is counted in
	what   string
}

// New returns an empty ledger whose nonces no other has, except by a chance of one in
// four thousand millions.
func New() *Ledger {
	var random [4]byte
	_, _ = rand.Read(random[:]) // it never fails
	return &Ledger{base: Nonce(binary.BigEndian.Uint32(random[:])) << 32}
}

// Ask enters a call before it is sent, and names it.
func (l *Ledger) Ask(q Question) Nonce {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, entry{
		tenant: unique.Make(q.Tenant), kind: unique.Make(q.Kind), keyed: q.Keyed,
		events: uint8(min(max(q.Events, 0), MaxEvents)),
	})
	return l.base + Nonce(len(l.entries))
}

// Answered enters the answer of a call.
func (l *Ledger) Answered(n Nonce, a Answer) {
	l.with(n, func(e *entry) {
		if e.end == answered {
			e.doubled = increased(e.doubled) // it came twice
			return
		}
		e.end, e.serial, e.foreign = answered, a.Serial, e.foreign || a.Nonce != n
		e.otherTenant = e.otherTenant || a.Tenant != e.tenant.Value()
	})
}

// Plain enters that the answer of a call is plain JSON, which has no place for events:
// the gateway had no place for a stream.
func (l *Ledger) Plain(n Nonce) { l.with(n, func(e *entry) { e.plain = true }) }

// Refused enters that a call ended with an error. code is the data.code of the gateway,
// or what else names it. made tells whether the error leaves open that the call took
// effect; where it says that it did not, it must not have.
func (l *Ledger) Refused(n Nonce, code string, made bool) {
	l.with(n, func(e *entry) {
		if e.end != answered {
			e.end, e.word, e.made, e.left = refused, unique.Make(code), made || e.made, false
		}
	})
}

// Broken enters that the client saw the connection of a call break, so that it knows that
// it does not know.
func (l *Ledger) Broken(n Nonce, how string) {
	l.with(n, func(e *entry) {
		e.wasBroken, e.made = true, true
		if e.end != answered {
			e.end, e.word, e.left = broken, unique.Make(how), false
		}
	})
}

// Left is Broken where the client broke the connection itself.
func (l *Ledger) Left(n Nonce, how string) {
	l.Broken(n, how)
	l.with(n, func(e *entry) { e.left = true })
}

// Cancelled enters that the client cancelled a call, and so gets no answer. It may still
// get one that was on its way.
func (l *Ledger) Cancelled(n Nonce) {
	l.Left(n, "cancelled by its client")
	l.with(n, func(e *entry) { e.cancelled = true })
}

// Silent enters that a call got neither an answer nor an error nor a broken connection in
// all the time that its client had patience.
func (l *Ledger) Silent(n Nonce, how string) {
	l.with(n, func(e *entry) {
		if e.end != answered {
			e.end, e.word = silent, unique.Make(how)
		}
	})
}

// Event enters an event that came on the stream of call n. of and number are what it says
// of itself: the call that it belongs to, and which of its events it is, from 1 on.
func (l *Ledger) Event(n, of Nonce, number int) {
	l.with(n, func(e *entry) {
		switch {
		case of != n:
			e.foreign = true
			if other := l.entryLocked(of); other == nil || other.tenant != e.tenant {
				e.otherTenant = true
			}
		case number < 1 || number > int(e.events):
			e.disordered = increased(e.disordered)
		case e.seen&(1<<(number-1)) != 0:
			e.doubled = increased(e.doubled)
		case number < int(e.last) || e.end == answered:
			e.disordered = increased(e.disordered)
			e.seen |= 1 << (number - 1)
		default:
			e.seen |= 1 << (number - 1)
			e.last = uint8(number) //nolint:gosec // it is at most events
		}
	})
}

// Open returns the calls that are in flight: they were asked and have no end yet, or may
// be repeated by their clients, who broke the connection.
func (l *Ledger) Open() map[Nonce]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	calls := map[Nonce]bool{}
	for i := range l.entries {
		if e := &l.entries[i]; e.end == open || e.left && e.keyed {
			calls[l.base+Nonce(i)+1] = true
		}
	}
	return calls
}

// Last returns the call that was asked last, or what comes before the first one.
func (l *Ledger) Last() Nonce {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.base + Nonce(len(l.entries))
}

// Failure is a call that ended without an answer and without its client's doing.
type Failure struct {
	Nonce     Nonce
	Kind, How string // as in the question; the code of the error, or how the connection broke
}

// Failures returns all calls that ended without an answer and without their clients'
// doing. Where nothing breaks, there are none.
func (l *Ledger) Failures() (all []Failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.entries {
		e := &l.entries[i]
		if e.end != answered && e.end != open && !e.left && !e.cancelled {
			all = append(all, Failure{l.base + Nonce(i) + 1, e.kind.Value(), e.word.Value()})
		}
	}
	return all
}

// Told enters that a client was told of a change.
func (l *Ledger) Told() { l.told.Add(1) }

// Untold enters that a client was not told of a change, although its stream was open all
// the time. what says which.
func (l *Ledger) Untold(what string) {
	l.noticed(func(v *Verdict) *int { return &v.ChangesLost }, "a change was not told: "+what)
}

// Misdelivered enters that a client was told of something that is none of its business.
// what says what.
func (l *Ledger) Misdelivered(what string) {
	l.noticed(func(v *Verdict) *int { return &v.WrongTenant }, "told to the wrong client: "+what)
}

// Repeated enters that an event came again on a stream that was resumed after it. what
// says whose.
func (l *Ledger) Repeated(what string) {
	l.noticed(func(v *Verdict) *int { return &v.EventsTwice }, "an event came again: "+what)
}

func (l *Ledger) noticed(counts func(*Verdict) *int, what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, wrong{counts, what})
}

// with works on the entry of a call. A nonce of another ledger is ignored.
func (l *Ledger) with(n Nonce, do func(*entry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.entryLocked(n); e != nil {
		do(e)
	}
}

func (l *Ledger) entryLocked(n Nonce) *entry {
	if i := l.index(n, len(l.entries)); i >= 0 {
		return &l.entries[i]
	}
	return nil
}

// index returns where the entry of a call is, -1 if there is none among that many.
func (l *Ledger) index(n Nonce, entries int) int {
	if n <= l.base || uint64(n-l.base) > uint64(entries) { //nolint:gosec // a length is not negative
		return -1
	}
	return int(n-l.base) - 1 //nolint:gosec // it is at most entries
}
