package once

import (
	"context"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// memoryPart is the part of the memory of the process that answers may take: the budget
// divided by this.
const memoryPart = 16

// Memory is a Store in the memory of this process, for a gateway with one replica. It has
// no goroutine: each Begin drops what is too old.
type Memory struct {
	budgets budgets

	mu      sync.Mutex // guards the fields below and everything they lead to
	entries map[[32]byte]*entry
	done    []*entry // that are answered, the oldest first
}

var _ Store = (*Memory)(nil)

// entry is one key.
type entry struct {
	store   *Memory
	request Request
	flight
	size   int64   // bytes of room
	answer *Answer // nil: it runs, was freed, or its answer was not kept
	unkept bool
	lapse  time.Time // when it is dropped; zero: it runs
}

var _ Claim = (*entry)(nil)

// NewMemory returns an empty Memory. memory is the budget of the process, of bytes.
func NewMemory(memory *share.Budget) *Memory {
	return &Memory{
		budgets: budgets{share.New(memory.Total() / memoryPart), memory},
		entries: make(map[[32]byte]*entry),
	}
}

// Begin implements Store.
func (m *Memory) Begin(ctx context.Context, r Request) (Claim, *Answer, error) {
	for {
		mine, answer, other, err := m.look(r)
		if other == nil {
			return mine, answer, err
		}
		if err := other.await(ctx); err != nil {
			return nil, nil, err
		}
	}
}

// look claims a key, or returns its answer, or the other request that runs under it.
func (m *Memory) look(r Request) (mine Claim, answer *Answer, other *entry, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweepLocked(time.Now())
	e := m.entries[r.Name]
	switch {
	case e == nil:
		if err := m.budgets.take(r.User, claimCost); err != nil {
			return nil, nil, nil, err
		}
		e = &entry{store: m, request: r, size: claimCost, flight: flight{over: make(chan struct{})}}
		m.entries[r.Name] = e
		return e, nil, nil, nil
	case e.request.Body != r.Body:
		return nil, nil, nil, ErrBody
	case e.unkept:
		return nil, nil, nil, ErrUnkept
	case e.answer != nil:
		return nil, e.answer, nil, nil
	}
	e.waiting.Add(1)
	return nil, nil, e, nil
}

// sweepLocked drops what was kept for long enough.
func (m *Memory) sweepLocked(now time.Time) {
	n := 0
	for n < len(m.done) && !now.Before(m.done[n].lapse) {
		e := m.done[n]
		delete(m.entries, e.request.Name)
		m.budgets.give(e.request.User, e.size)
		m.done[n] = nil
		n++
	}
	m.done = m.done[n:]
}

// Finish implements Claim.
func (e *entry) Finish(_ context.Context, a Answer) {
	m := e.store
	m.mu.Lock()
	defer m.mu.Unlock()
	size := int64(len(a.Message))
	if e.unkept = size > MaxAnswer || m.budgets.take(e.request.User, size) != nil; !e.unkept {
		e.size += size
		e.answer = &a
	}
	e.lapse = time.Now().Add(Retention)
	m.done = append(m.done, e)
	close(e.over)
}

// Free implements Claim.
func (e *entry) Free(context.Context) {
	m := e.store
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, e.request.Name)
	m.budgets.give(e.request.User, e.size)
	close(e.over)
}
