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
	size    int64         // bytes of room
	waiting int           // repeats that wait
	over    chan struct{} // closed when it is answered or free
	answer  *Answer       // nil: it runs, was freed, or its answer was not kept
	unkept  bool
	lapse   time.Time // when it is dropped; zero: it runs
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
		m.mu.Lock()
		m.sweepLocked(time.Now())
		e := m.entries[r.Name]
		switch {
		case e == nil:
			mine, err := m.claimLocked(r)
			m.mu.Unlock()
			if err != nil {
				return nil, nil, err
			}
			return mine, nil, nil
		case e.request.Body != r.Body:
			m.mu.Unlock()
			return nil, nil, ErrBody
		case e.unkept:
			m.mu.Unlock()
			return nil, nil, ErrUnkept
		case e.answer != nil:
			m.mu.Unlock()
			return nil, e.answer, nil
		}
		e.waiting++
		m.mu.Unlock()
		if err := e.wait(ctx); err != nil {
			return nil, nil, err
		}
	}
}

func (m *Memory) claimLocked(r Request) (*entry, error) {
	if err := m.budgets.take(r.User, claimCost); err != nil {
		return nil, err
	}
	e := &entry{store: m, request: r, size: claimCost, over: make(chan struct{})}
	m.entries[r.Name] = e
	return e, nil
}

// wait returns when the request that runs is over, or with the error of ctx.
func (e *entry) wait(ctx context.Context) error {
	defer func() {
		e.store.mu.Lock()
		e.waiting--
		e.store.mu.Unlock()
	}()
	select {
	case <-e.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
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

// Wanted implements Claim.
func (e *entry) Wanted() bool {
	e.store.mu.Lock()
	defer e.store.mu.Unlock()
	return e.waiting > 0
}
