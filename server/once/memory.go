package once

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// memoryPart is the part of the memory of the process that answers may take: the budget
// divided by this.
const memoryPart = 16

// Memory is a Store in the memory of this process, for a gateway with one replica. It has
// no goroutine.
type Memory struct {
	store

	answers sync.Map // the *record of each request that is over, by its name
}

var (
	_ Store  = (*Memory)(nil)
	_ keeper = (*Memory)(nil)
)

// NewMemory returns an empty Memory. memory is the budget of the process, of bytes.
func NewMemory(memory *share.Budget) *Memory {
	m := &Memory{}
	m.kept, m.claims, m.others, m.now = m, make(map[[sha256.Size]byte]*claim), replica.NewAlone(), time.Now
	m.budgets = newBudgets(memory, memoryPart)
	return m
}

// begin implements keeper.
func (*Memory) begin(*Request) (string, error) { return "", nil }

// enter implements keeper. A claim itself is known to the store.
func (m *Memory) enter(_ context.Context, c *claim) (*record, error) {
	kept, _ := m.answers.Load(c.request.Name)
	p, _ := kept.(*record)
	return p, nil
}

// end implements keeper.
func (m *Memory) end(_ context.Context, c *claim, p *record) error {
	if p != nil {
		name := c.request.Name
		m.answers.Store(name, p)
		time.AfterFunc(Retention, func() { m.answers.Delete(name) })
	}
	return nil
}
