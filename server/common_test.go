package server_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lifetime/lifetimetest"
	"github.com/drawbridge-mcp/drawbridge/internal/link"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
	"github.com/drawbridge-mcp/drawbridge/server/primary/primarytest"
)

// common is what the replicas of a test share: what would be one server for all of them.
// Its log and word count round trips, and fail when told to.
type common struct {
	ring    *seal.Ring
	hub     replicatest.Hub
	log     *sharedLog
	records primarytest.Store
	trips   atomic.Int64
	worlds  []*world
}

// errStoreDown is the error of what replicas share, when it is down.
var errStoreDown = errors.New("the store is down")

// sharedLog is a log that counts each call as the round trip which it would be.
type sharedLog struct {
	eventlog.Log
	trips *atomic.Int64
	down  atomic.Bool
}

func (l *sharedLog) trip() error {
	l.trips.Add(1)
	if l.down.Load() {
		return errStoreDown
	}
	return nil
}

func (l *sharedLog) Begin(ctx context.Context, in eventlog.Key, stream string) (bool, error) {
	if l.trips.Add(1); l.down.Load() {
		return false, nil // as a log does that goes on in memory
	}
	return l.Log.Begin(ctx, in, stream)
}

// End does nothing: the log in the memory of one replica is not that of another.
func (l *sharedLog) End(eventlog.Key) {}

func (l *sharedLog) Notify(ctx context.Context, in eventlog.Key, stream string, epoch uint64,
	data []byte,
) (string, error) {
	if err := l.trip(); err != nil {
		return "", err
	}
	return l.Log.Notify(ctx, in, stream, epoch, data)
}

func (l *sharedLog) Append(ctx context.Context, in eventlog.Key, stream string, data []byte,
	last bool,
) (string, error) {
	if err := l.trip(); err != nil {
		return "", err
	}
	return l.Log.Append(ctx, in, stream, data, last)
}

func (l *sharedLog) Find(ctx context.Context, in eventlog.Key, event string) (string, error) {
	if err := l.trip(); err != nil {
		return "", err
	}
	return l.Log.Find(ctx, in, event)
}

// sharedWord is word that counts, too. When it is cut, nothing is said and nothing
// arrives; requests that are forwarded arrive after delay.
type sharedWord struct {
	*replicatest.Member
	trips *atomic.Int64
	cut   atomic.Bool
	delay time.Duration // set while nothing is forwarded
	// called once when it was said who leads, before that is heeded; set while nobody
	// asks
	said func()
}

func (o *sharedWord) Leads() (since time.Time, leads bool) {
	since, leads = o.Member.Leads()
	if said := o.said; said != nil {
		o.said = nil
		said()
	}
	return since, leads
}

func (o *sharedWord) Send(ctx context.Context, to replica.ID, w replica.Message) ([]byte, error) {
	o.trips.Add(1)
	if o.cut.Load() {
		return nil, errStoreDown
	}
	return o.Member.Send(ctx, to, w)
}

func (o *sharedWord) Forward(ctx context.Context, to replica.ID, r link.Request) (*http.Response, error) {
	o.trips.Add(1)
	if o.cut.Load() {
		return nil, replica.ErrUnreached
	}
	if !pace.Wait(ctx, o.delay) {
		return nil, link.ErrLost
	}
	return o.Member.Forward(ctx, to, r)
}

func (w *world) word() *sharedWord { return w.config.Others.(*sharedWord) }

// together opens worlds that have keys, log and generation in common, as so many
// processes would, with tools that ask.
func together(t *testing.T, worlds int, change ...func(*world)) *common {
	t.Helper()
	c := &common{ring: seal.RandomRing()}
	c.log = &sharedLog{Log: eventlog.NewMemory(eventlog.MemoryConfig{}), trips: &c.trips}
	c.records.OnTrip(func() { c.trips.Add(1) })
	for range worlds {
		c.join(t, change...)
	}
	return c
}

// join adds a replica.
func (c *common) join(t *testing.T, change ...func(*world)) *world {
	t.Helper()
	w := newWorld(t, append(slices.Clone(change), func(w *world) {
		w.config.Seal, w.config.Log, w.config.Entries = c.ring, c.log, &c.records
		w.config.Others = &sharedWord{Member: c.hub.Join(), trips: &c.trips}
	})...)
	w.asking()
	lifetimetest.Run(t, w.Run)
	w.word().Return() // as every replica does when it first reads its word
	c.worlds = append(c.worlds, w)
	return w
}

// setDown lets everything fail that the replicas share, or work again.
func (c *common) setDown(down bool) {
	c.log.down.Store(down)
	c.records.SetDown(down)
	if !down {
		c.records.SuspectLoss()
	}
}

// count returns how many round trips f causes.
func (c *common) count(f func()) int64 {
	before := c.trips.Load()
	f()
	return c.trips.Load() - before
}

// replicas opens two worlds that share keys and log, as two processes would.
func replicas(t *testing.T, change ...func(*world)) (a, b *world) {
	t.Helper()
	c := together(t, 2, change...)
	return c.worlds[0], c.worlds[1]
}
