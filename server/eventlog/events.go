package eventlog

import (
	"iter"
	"time"
)

// events are those of one stream that were not dropped, in order of sequence. They are a
// chain and not a slice, since most streams have few: a slice that grows leaves behind
// one array after the other, and with a notice to each of thousands of streams that is
// more than the events. The zero events are none.
type events struct {
	first, newest *memoryEvent // nil: none
	count         int
}

// memoryEvent is one event and when it came.
type memoryEvent struct {
	sequence uint64
	data     []byte
	at       time.Duration // since the Memory was made
	next     *memoryEvent  // nil: it is the newest
}

// add adds an event with a sequence that is higher than all others.
func (es *events) add(e *memoryEvent) {
	if es.newest == nil {
		es.first = e
	} else {
		es.newest.next = e
	}
	es.newest = e
	es.count++
}

// drop takes the oldest event out. There must be one.
func (es *events) drop() *memoryEvent {
	oldest := es.first
	es.first = oldest.next
	if es.first == nil {
		es.newest = nil
	}
	es.count--
	return oldest
}

// all yields the events, the oldest first.
func (es *events) all() iter.Seq[*memoryEvent] {
	return func(yield func(*memoryEvent) bool) {
		for e := es.first; e != nil && yield(e); e = e.next {
		}
	}
}
