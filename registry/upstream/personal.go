package upstream

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"golang.org/x/sync/semaphore"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

const (
	// personalWait is how long a request waits for the lists of its user. The reading
	// goes on without it.
	personalWait = 5 * time.Second
	// personalReadings is how many users' lists of a server are read at once.
	personalReadings = 16
	// renewGap is the least time between two words that somebody's lists differ.
	renewGap = time.Second
)

// personal are the lists of a server for each user, read with what the calls of that user
// carry. They are kept by user and credential, a bounded number. Users to whom the server
// offers the same share what is made of it, as an item is for any caller:
//
//	a request of a user ──▶ Lists ── known and fresh ──▶ registry.Lists
//	                          │ else: one reading at a time       ▲
//	                          └──▶ read, as calls of the user ────┘ by content
//	                                 │ differs from what the user had
//	                                 └──▶ Registry.Renew: who sees something else is told
//
// It belongs to one control connection, and is safe for concurrent use.
type personal struct {
	reg    *registry.Registry
	conn   *control
	ctx    context.Context //nolint:containedctx // readings outlive the request that asks, and end with the connection
	end    context.CancelFunc
	work   sync.WaitGroup
	slots  *semaphore.Weighted // of readings at once
	cache  *credential.Cache[ownLists]
	shared *sharedLists

	// counts what the server announced; readings of an earlier one are outdated
	epoch atomic.Uint64

	mu      sync.Mutex  // guards the field below; held while a reading begins, and while all end
	renewal *time.Timer // tells that somebody's lists differ; nil: there is nothing to tell
}

// sharedLists are those of personal by content, for as long as somebody has them. It does
// not lead to what is kept of users: what gives their memory back leads here, and would
// hold all lists of a connection that has ended for good.
type sharedLists struct {
	mu    sync.Mutex         // guards the fields below
	claim *share.Reservation // holds all lists
	size  int64              // bytes of all lists
	all   map[[sha256.Size]byte]weak.Pointer[registry.Lists]
}

var _ registry.Personal = (*personal)(nil)

// ownLists are those of one user and credential.
type ownLists struct {
	mu       sync.Mutex      // guards the fields below
	lists    *registry.Lists // nil: there are none
	err      error           // why the last reading failed, for callers; nil: it did not
	due      time.Time       // when they are to be read again; zero: they were not read
	epoch    uint64          // of personal, when the reading began
	failures int             // readings in a row
	missed   bool            // somebody was told that there are none, and no reading has come since
	reading  chan struct{}   // closed when the one under way ends; nil: none is
}

func newPersonal(ctx context.Context, reg *registry.Registry, c *control) *personal {
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	return &personal{
		reg: reg, conn: c, ctx: ctx, end: end, slots: semaphore.NewWeighted(personalReadings),
		cache: credential.NewCache(func(*ownLists) bool { return false }),
		shared: &sharedLists{
			claim: c.cfg.Memory.Reserve(share.Server(c.cfg.Name)),
			all:   map[[sha256.Size]byte]weak.Pointer[registry.Lists]{},
		},
	}
}

// close ends all readings, and waits for them. What was read stays known.
func (p *personal) close() {
	p.mu.Lock()
	p.end()
	if p.renewal != nil {
		p.renewal.Stop()
	}
	p.mu.Unlock()
	p.work.Wait()
}

// outdated has everybody's lists read again when they are next asked for: at once for
// those whose streams wait for news.
func (p *personal) outdated() {
	p.epoch.Add(1)
	p.reg.Renew(p.conn.cfg.Name)
}

// Known implements registry.Personal. Lists that the server may have changed are read
// beside it.
func (p *personal) Known(who *auth.Principal) *registry.Lists {
	own := p.cache.Peek(p.conn.cfg.Credential.CacheKey(who))
	if own == nil {
		return nil
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	if epoch := p.epoch.Load(); own.epoch != epoch {
		p.beginLocked(own, who, epoch)
	}
	return own.lists
}

// beginLocked begins a reading, unless one is under way or the last one failed just now.
func (p *personal) beginLocked(own *ownLists, who *auth.Principal, epoch uint64) {
	if own.reading != nil || p.conn.gone.Load() || own.failures > 0 && time.Now().Before(own.due) {
		return
	}
	p.mu.Lock() // else close could have waited before the goroutine is counted
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return
	}
	own.reading, own.epoch = make(chan struct{}), epoch
	caller := *who
	p.work.Go(func() { p.read(own, &caller) })
}

// Lists implements registry.Personal. Lists that are only old are read again beside the
// request; it waits where there are none, or the server has announced others.
func (p *personal) Lists(ctx context.Context, who *auth.Principal) (*registry.Lists, error) {
	own := p.cache.At(p.conn.cfg.Credential.CacheKey(who), func() *ownLists { return &ownLists{} })
	epoch := p.epoch.Load()
	own.mu.Lock()
	outdated := own.due.IsZero() || own.epoch != epoch
	if outdated || !time.Now().Before(own.due) {
		p.beginLocked(own, who, epoch)
	}
	reading := own.reading
	if reading == nil || own.lists != nil && !outdated {
		defer own.mu.Unlock()
		return own.seenLocked()
	}
	own.mu.Unlock()
	select {
	case <-reading:
	case <-time.After(personalWait):
	case <-ctx.Done():
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	return own.seenLocked()
}

// seenLocked returns what a caller of Lists is told.
func (o *ownLists) seenLocked() (*registry.Lists, error) {
	o.missed = o.missed || o.lists == nil
	return o.lists, o.err
}

// read is the goroutine of one reading. What a user was offered goes on for as long as
// the server cannot be asked, and ends when it, or the endpoint that gives tokens,
// refuses the user.
func (p *personal) read(own *ownLists, who *auth.Principal) {
	var (
		lists *registry.Lists
		fresh time.Duration
	)
	err := p.slots.Acquire(p.ctx, 1)
	if err == nil {
		err = p.conn.cfg.saved(p.ctx, func() (err error) {
			lists, fresh, err = p.ask(who)
			return err
		})
		p.slots.Release(1)
	}
	own.mu.Lock()
	before := own.lists
	own.err = p.conn.server.unread(err)
	if err == nil {
		own.lists, own.failures, own.due = lists, 0, time.Now().Add(fresh)
	} else {
		fault := credential.FaultOf(err)
		if fault != "" && fault != credential.FaultAway || isAnswer(err) {
			own.lists = nil
		}
		own.due = time.Now().Add(pace.Backoff(own.failures + 4))
		own.failures++
	}
	differs := own.lists != before && (before != nil || own.missed)
	// What was announced meanwhile may have come too late for this reading, and those who
	// were told began no other beside it.
	outdated := own.epoch != p.epoch.Load()
	own.missed = own.missed && own.lists == nil
	close(own.reading)
	own.reading = nil
	own.mu.Unlock()
	if differs || outdated {
		p.tell()
	}
	if err != nil && p.ctx.Err() == nil {
		p.conn.cfg.Logger.WarnContext(p.ctx, "the lists of a user cannot be read",
			slog.String("tenant", who.TenantID), slog.String("problem", problem(err)))
	}
}

// ask reads all lists as the user: each page as a call of the user would be made.
func (p *personal) ask(who *auth.Principal) (lists *registry.Lists, fresh time.Duration, err error) {
	l := newLists(p.conn, func(ctx context.Context, method string, params mcp.Object) (mcp.Object, error) {
		return p.conn.peer.call(ctx, p.conn.newItem(method, "", nil), &registry.Call{
			Method: method, Principal: *who, Params: params,
			Notify: func(context.Context, mcp.Notification) error { return nil },
		})
	})
	if err := l.readOwn(p.ctx, everyTopic, func() {}); err != nil {
		return nil, 0, err
	}
	fresh = freshMax
	sum := sha256.New()
	for _, one := range l.all() {
		if !one.read.IsZero() {
			fresh = min(fresh, one.fresh)
		}
		_, _ = sum.Write(append(one.text, 0)) // a hash takes all
	}
	var digest [sha256.Size]byte
	sum.Sum(digest[:0])
	lists, err = p.made(digest, l)
	return lists, fresh, err
}

// made returns what is made of lists, which others may have that are alike. The budget
// holds it for as long as it is in memory, in the name of the server.
func (p *personal) made(digest [sha256.Size]byte, l *lists) (*registry.Lists, error) {
	if known := p.shared.find(digest); known != nil {
		return known, nil
	}
	made, left := p.reg.NewLists(l.source(nil))
	made, err := p.shared.add(digest, made)
	if err != nil {
		return nil, &registry.MemoryError{Err: err}
	}
	if len(left) > 0 {
		p.conn.cfg.Logger.InfoContext(p.ctx, "a definition of a user's lists was left out",
			slog.String("problem", problem(left[0].Err)))
	}
	return made, nil
}

func (s *sharedLists) find(digest [sha256.Size]byte) *registry.Lists {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[digest].Value()
}

// add holds lists until nobody has them any more, and returns them, or those that are
// alike and were added while these were made.
func (s *sharedLists) add(digest [sha256.Size]byte, made *registry.Lists) (*registry.Lists, error) {
	size := made.Bytes()
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.all[digest].Value(); known != nil {
		return known, nil
	}
	if err := s.holdLocked(size); err != nil {
		return nil, err
	}
	s.all[digest] = weak.Make(made)
	runtime.AddCleanup(made, func(digest [sha256.Size]byte) {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = s.holdLocked(-size) // becoming smaller succeeds
		if s.all[digest].Value() == nil {
			delete(s.all, digest)
		}
	}, digest)
	return made, nil
}

// holdLocked counts more memory, or less, for all lists together: each alone may be so
// small that it would count nothing.
func (s *sharedLists) holdLocked(more int64) error {
	if err := s.claim.Resize(s.size + more); err != nil {
		return err
	}
	s.size += more
	return nil
}

// tell has clients look again at what they see, soon.
func (p *personal) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.renewal == nil && p.ctx.Err() == nil {
		p.renewal = time.AfterFunc(renewGap, func() {
			p.mu.Lock()
			p.renewal = nil
			p.mu.Unlock()
			p.reg.Renew(p.conn.cfg.Name)
		})
	}
}
