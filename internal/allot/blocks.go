package allot

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
)

const (
	renewal = time.Second // between two looks at all blocks
	// that a block counts for others whose replica they do not know: it may have just
	// started
	young   = 5 * time.Second
	keyLife = time.Hour       // of what all replicas hold; a block is renewed in half that time
	trust   = 4 * time.Second // in which a block counts that Redis may not know
	// after which a block of which nothing is taken is not needed if others lack slots
	quiet   = 2 * time.Second
	idle    = 30 * time.Second // after which it is given up in any case
	pause   = renewal / 2      // after a refusal, in which no larger block is asked for
	first   = 8                // slots that are asked for at first, at most
	abreast = 64               // renewals under way at once
)

// Config of Blocks. Every field is required.
type Config struct {
	Store    *redis.Store
	Self     string // names this replica among those that share the slots
	Replicas int    // how many there are at most
	// Leads tells whether no other replica can have taken this one for gone, and since
	// when that is so without a gap. Blocks that were granted before are nobody's.
	Leads func() (since time.Time, leads bool)
	// Living returns the replicas that live, as is known here: it may be a few seconds
	// late.
	Living func() []replica.ID
	// Used returns how many slots of a kind are taken here for the tenant.
	Used func(kind Kind, tenant string) int
}

// Blocks is Slots of which several replicas hold blocks, in Redis.
type Blocks struct {
	config  Config
	growing pace.Once[struct{}] // askings for larger blocks, by name

	mu     sync.Mutex // guards the fields below and the fields of blocks
	blocks map[name]*block
}

var _ Slots = (*Blocks)(nil)

// name names the slots of a tenant.
type name struct {
	kind   Kind
	tenant string
}

// block is what this replica holds of the slots of a tenant.
type block struct {
	name

	// holds a value while Redis is asked, so that the newest answer is the one that
	// counts
	turn    chan struct{}
	limit   int       // the tenant's, as it was last said
	slots   int       // that may be given out
	since   time.Time // what Leads said when they were granted; zero: none were granted yet
	granted time.Time // when they were asked for
	lost    time.Time // since when Redis is asked in vain; zero: it is not
	touched time.Time // when somebody last asked
	refused time.Time // when a larger block was last refused
}

// NewBlocks returns Blocks of which none is held. Run renews them.
func NewBlocks(cfg Config) *Blocks {
	return &Blocks{config: cfg, blocks: make(map[name]*block)}
}

// Recheck has Run ask for all blocks again, because Redis may have lost what it granted
// last, as in a failover, or others may have taken this replica for gone. It returns at
// once.
func (b *Blocks) Recheck() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.blocks {
		one.loseLocked()
	}
}

// loseLocked notes that it is not known whether Redis knows of the block.
func (one *block) loseLocked() {
	if one.lost.IsZero() {
		one.lost = time.Now()
	}
}

// Here implements Slots.
func (b *Blocks) Here(kind Kind, tenant string, limit int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hereLocked(b.blockLocked(name{kind, tenant}, limit))
}

// blockLocked returns the block of that name, which somebody asks for now.
func (b *Blocks) blockLocked(n name, limit int) *block {
	one := b.blocks[n]
	if one == nil {
		one = &block{name: n, turn: make(chan struct{}, 1)}
		b.blocks[n] = one
	}
	one.limit, one.touched = limit, time.Now()
	return one
}

// hereLocked returns how many slots of a block may be given out. Until Redis has
// answered for the first time that is none, and More asks. While Redis is away a block
// counts for as long as the others may take this replica for alive, and the share counts
// at once.
func (b *Blocks) hereLocked(one *block) int {
	slots, away := 0, !one.lost.IsZero() || b.config.Store.Up() != nil
	if since, leads := b.config.Leads(); leads && one.since.Equal(since) &&
		(one.lost.IsZero() || time.Since(one.lost) < trust) {
		slots = one.slots
	}
	if away {
		slots = max(slots, b.share(one.limit))
	}
	return min(slots, one.limit)
}

// More implements Slots. All who want more slots of a tenant at the same time wait for
// the same answer.
func (b *Blocks) More(ctx context.Context, kind Kind, tenant string, limit int) {
	b.mu.Lock()
	one := b.blockLocked(name{kind, tenant}, limit)
	before := b.hereLocked(one)
	refused := before >= limit || time.Since(one.refused) < pause
	b.mu.Unlock()
	if refused {
		return
	}
	// the patience of the store bounds it, and Here says what came of it
	_, _ = b.growing.Do(ctx, string(kind)+" "+tenant, func(ctx context.Context) (struct{}, error) {
		b.grow(ctx, one, before)
		return struct{}{}, nil
	})
}

// grow asks for twice as many slots as there were before. Whoever wants more may do so
// while some are free here, which are for other users, or for calls at other servers.
func (b *Blocks) grow(ctx context.Context, one *block, before int) {
	b.ask(ctx, one, func(d *demand) { d.wanted = max(2*d.taken, 2*d.granted, b.least(d.limit)) })
	b.mu.Lock()
	defer b.mu.Unlock()
	if here := b.hereLocked(one); here <= before || here <= b.config.Used(one.kind, one.tenant) {
		one.refused = time.Now()
	}
}

// least returns how many of that many slots are asked for at first: no more than an even
// part, or a tenant with few would find none at the next replica while none is taken.
func (b *Blocks) least(limit int) int { return min(b.share(limit), first) }

// share returns an even part of that many slots, one at least.
func (b *Blocks) share(limit int) int { return max(limit/max(b.config.Replicas, 1), 1) }

// demand is what a replica asks Redis for, of the slots of a tenant.
type demand struct {
	limit   int
	granted int // the block before
	taken   int // slots that are taken here
	needed  int // that it should have even if others lack some
	wanted  int // that it takes if nobody lacks any
}

// ask asks for a block, and notes what was granted. If there is no answer, what was
// granted before counts until it cannot be relied on any more.
func (b *Blocks) ask(ctx context.Context, one *block, want func(*demand)) {
	one.turn <- struct{}{}
	defer func() { <-one.turn }()
	sent := time.Now()
	since, _ := b.config.Leads()
	b.mu.Lock()
	d := demand{limit: one.limit, granted: one.slots, taken: b.config.Used(one.kind, one.tenant)}
	if d.taken > 0 || sent.Sub(one.touched) < quiet {
		d.needed = d.taken + d.taken/2 + 1
	}
	want(&d)
	if d.wanted == 0 {
		one.slots = 0 // from now on, so that nothing is given out of a block that is given up
	}
	b.mu.Unlock()
	slots, err := b.grant(ctx, one.name, d)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		one.loseLocked()
	} else {
		one.lost = time.Time{}
		one.slots, one.since, one.granted = slots, since, sent
	}
}

// Run renews the blocks that need it every second until ctx ends, and then gives them up,
// if Redis can be reached: the store must serve until Run has returned. Those of which
// slots are taken even then last for a few seconds more.
func (b *Blocks) Run(ctx context.Context) error {
	pace.Every(ctx, renewal, func(ctx context.Context) {
		b.forEach(func(one *block) { b.renew(ctx, one) })
	})
	last := context.WithoutCancel(ctx)
	b.forEach(func(one *block) { b.ask(last, one, func(d *demand) { d.needed, d.wanted = 0, 0 }) })
	return nil
}

// forEach calls do for each block, several at once.
func (b *Blocks) forEach(do func(*block)) {
	all := b.all()
	pace.AtOnce(len(all), abreast, func(i int) { do(all[i]) })
}

// all returns the blocks that there are now.
func (b *Blocks) all() []*block {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.blocks))
}

// renew asks for a block again if something has changed: it was used, it has more slots
// than are taken, others may have taken this replica for gone since, or Redis may have
// forgotten it. It asks for a quarter less than before, but for twice what is taken at
// least, so that a block does not come and go with each call. A block that nobody asks
// for shrinks to what is taken, and one of which nothing is taken for long is given up.
func (b *Blocks) renew(ctx context.Context, one *block) {
	b.mu.Lock()
	taken, now := b.config.Used(one.kind, one.tenant), time.Now()
	since, _ := b.config.Leads()
	used := one.touched.After(one.granted)
	over := taken == 0 && now.Sub(one.touched) > idle
	due := used || !one.lost.IsZero() || one.slots > taken || over ||
		!one.since.Equal(since) || now.Sub(one.granted) > keyLife/2
	b.mu.Unlock()
	if !due {
		return
	}
	b.ask(ctx, one, func(d *demand) {
		switch {
		case over:
		case used:
			d.wanted = max(2*d.taken, d.granted-d.granted/4, b.least(d.limit))
		default:
			d.wanted = max(d.taken, d.granted-max(d.granted/4, 1))
		}
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	// One of which Redis was told in vain stays, to be given up again: the others count
	// it for as long as this replica lives.
	if over && time.Since(one.touched) > idle && one.slots == 0 && one.lost.IsZero() {
		delete(b.blocks, one.name)
	}
}
