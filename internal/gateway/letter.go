package gateway

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// A call that waits for answers in one process, its home, can go on nowhere else. When its repeat comes to another
// replica, that one sends the repeat home, and passes on to the client what comes back. What they send each other are
// letters, each of which is one word of package replica:
//
//	replica that the client asked (errand.go)               home of the call (guest.go)
//	  the request, in parts ──────────── kindErrand ───────▶ runs it through all stages, and records it
//	  that the client has left ───────── kindErrand ───────▶ cancels it
//	  notifications for the client ◀──── kindReturn ──────── what the item says meanwhile
//	                               ◀──── kindReturn ──────── beats, as long as it runs
//	  the answer, in parts         ◀──── kindReturn ──────── result, error, or that it did not run
//
// Letters of one errand in one direction are numbered, so that one that was sent twice counts once, and one that is
// missing spoils nothing but the message that it is a part of.

// The kinds of word. Each names the form of what letter.encode writes.
const (
	kindErrand = "errand 1"
	kindReturn = "return 1"
)

// Bounds of errands. No message of a server is larger than 16 MiB before it is cleaned, and no letter may keep the
// others waiting for long.
const (
	maxPassed   = 20 << 20 // bytes of one message, from one replica to another
	partSize    = 64 << 10 // bytes of a message in one letter
	maxNotes    = 1 << 20  // bytes of notifications that wait for a client; further ones are dropped
	resendAfter = 100 * time.Millisecond

	askPatience    = 500 * time.Millisecond // of each letter of a request: the client waits
	answerPatience = 15 * time.Second       // of each letter of an answer: it cannot be had again

	watchEvery = time.Second      // how often each side looks whether the other is there
	beatEvery  = 5 * time.Second  // how often the home says that a call runs
	silence    = 15 * time.Second // after which who says nothing counts as gone
	absence    = 3 * time.Second  // for which a replica must not be there before it counts as gone
)

// errandID names an errand. It is random.
type errandID [16]byte

// letterSort is what a letter is about.
type letterSort byte

// The sorts of letters.
const (
	sortRequest letterSort = 1 + iota // to the home
	sortLeave                         // to the home: nobody waits for the answer any more
	sortBeat                          // from the home: the call runs
	sortNote                          // a notification
	sortResult                        // the result of a call, which is on record at the home
	sortError                         // the error of such a call
	sortRefused                       // an error that the home has not recorded
)

// letter is a part of a message.
type letter struct {
	errand      errandID
	number      uint32 // in its direction, from zero
	sort        letterSort
	first, last bool // of its message
	text        []byte
}

const (
	letterHead  = len(errandID{}) + 4 + 2
	flagFirst   = 1
	flagLast    = 2
	sortAt      = letterHead - 2
	flagsAt     = letterHead - 1
	numberAt    = len(errandID{})
	largestSort = sortRefused
)

// encode returns the letter as the data of a word.
func (l *letter) encode() []byte {
	data := make([]byte, letterHead, letterHead+len(l.text))
	copy(data, l.errand[:])
	binary.BigEndian.PutUint32(data[numberAt:], l.number)
	data[sortAt] = byte(l.sort)
	if l.first {
		data[flagsAt] |= flagFirst
	}
	if l.last {
		data[flagsAt] |= flagLast
	}
	return append(data, l.text...)
}

// decodeLetter reads what encode wrote. The letter aliases data.
func decodeLetter(data []byte) (l letter, ok bool) {
	if len(data) < letterHead || len(data) > letterHead+partSize {
		return letter{}, false
	}
	copy(l.errand[:], data)
	l.number, l.sort = binary.BigEndian.Uint32(data[numberAt:]), letterSort(data[sortAt])
	l.first, l.last = data[flagsAt]&flagFirst != 0, data[flagsAt]&flagLast != 0
	l.text = data[letterHead:]
	return l, l.sort >= sortRequest && l.sort <= largestSort
}

// post sends the letters of one errand in one direction. It is safe for concurrent use.
type post struct {
	others       replica.Others
	to           replica.ID
	kind, tenant string
	errand       errandID

	mu     sync.Mutex // held while a message is sent, so that its letters stay together; guards the field below
	number uint32     // of the next letter
}

// deliver sends a message. patience is how long it tries each letter again; zero: it does not. After an error the other
// side may have all of the message, or a part.
func (p *post) deliver(ctx context.Context, sort letterSort, text []byte, patience time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for first := true; first || len(text) > 0; first = false {
		n := min(len(text), partSize)
		l := letter{errand: p.errand, number: p.number, sort: sort, first: first, last: n == len(text), text: text[:n]}
		p.number++
		if err := p.put(ctx, l.encode(), patience); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// put sends one letter. A replica that has no mailbox may be about to make it anew, after Redis has lost what it had: only
// one that has none for absence counts as gone.
func (p *post) put(ctx context.Context, data []byte, patience time.Duration) error {
	for began := time.Now(); ; {
		err := p.others.Send(ctx, p.to, replica.Word{Kind: p.kind, Tenant: p.tenant, Data: data})
		limit := patience
		if patience > 0 && errors.Is(err, replica.ErrGone) {
			limit = absence
		}
		if err == nil || time.Since(began) >= limit {
			return err
		}
		select {
		case <-time.After(resendAfter):
		case <-ctx.Done():
			return err
		}
	}
}

// message is what letters make up.
type message struct {
	sort letterSort
	text []byte
}

// inbox puts the letters of one errand in one direction together. It is safe for concurrent use, and take does not
// block.
type inbox struct {
	room *share.Claim  // holds what has come and was not taken out
	news chan struct{} // holds a signal: something has come, or failed

	mu     sync.Mutex // guards the fields below
	next   uint32     // number of the next letter
	sort   letterSort // of the message that is incomplete; zero: none is
	part   []byte     // of it
	whole  []message
	held   int       // bytes of part and whole
	notes  int       // bytes of the notifications in whole
	heard  time.Time // when the last letter came
	failed error     // why no more is taken
}

// errPassed says that a message is larger than replicas pass on.
var errPassed = errors.New("a message of another replica is too large")

func newInbox(room *share.Claim) *inbox {
	return &inbox{room: room, news: make(chan struct{}, 1), heard: time.Now()}
}

// take takes a letter. A letter that came before is ignored; when one is missing, so is the message it was a part of.
func (b *inbox) take(l letter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heard = time.Now()
	if b.failed != nil || l.number < b.next {
		return
	}
	missing := l.number > b.next
	b.next = l.number + 1
	switch {
	case l.first:
		b.dropLocked()
		b.sort = l.sort
	case missing, l.sort != b.sort:
		b.dropLocked()
		return
	}
	if b.failed = b.growLocked(len(l.text)); b.failed == nil {
		b.part = append(b.part, l.text...)
		if !l.last {
			return
		}
		b.completeLocked()
	}
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// growLocked makes room for more of the message.
func (b *inbox) growLocked(more int) error {
	if len(b.part)+more > maxPassed {
		return errPassed
	}
	if more == 0 {
		return nil
	}
	if err := b.room.Resize(int64(b.held + more)); err != nil {
		return err
	}
	b.held += more
	return nil
}

// completeLocked makes what has come a whole message, unless nobody needs it.
func (b *inbox) completeLocked() {
	note := b.sort == sortNote
	if b.sort == sortBeat || note && b.notes+len(b.part) > maxNotes {
		b.dropLocked()
		return
	}
	if note {
		b.notes += len(b.part)
	}
	b.whole = append(b.whole, message{b.sort, b.part})
	b.part, b.sort = nil, 0
}

// dropLocked drops what has come of a message.
func (b *inbox) dropLocked() {
	b.held -= len(b.part)
	b.part, b.sort = nil, 0
}

// messages takes out what is complete. Its memory stays held until the next letter comes, or room says otherwise.
func (b *inbox) messages() ([]message, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	whole := b.whole
	for _, m := range whole {
		b.held -= len(m.text)
	}
	b.whole, b.notes = nil, 0
	return whole, b.failed
}

// quiet returns for how long no letter has come.
func (b *inbox) quiet() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Since(b.heard)
}

// presence notices that a replica is gone for good: a single look may be wrong, since who is there is known a little
// late.
type presence struct {
	others replica.Others
	id     replica.ID
	seen   time.Time
}

// isLost tells whether the replica was not there for absence. It is asked every watchEvery.
func (p *presence) isLost() bool {
	if p.others.IsThere(p.id) {
		p.seen = time.Now()
	}
	return time.Since(p.seen) >= absence
}
