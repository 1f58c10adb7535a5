package eventlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/drawbridge-mcp/drawbridge/internal/batch"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// RedisConfig is what a Redis needs. The fields of MemoryConfig bound what this replica
// appends, here and in the server.
type RedisConfig struct {
	MemoryConfig

	Store  *redis.Store
	Seal   *seal.Ring
	Others replica.Others
	// Quota is what this replica may put into the server, in bytes. nil: its own, of 64
	// MiB.
	Quota *share.Budget
}

// Redis is a Log of several replicas, over what they share. It is safe for concurrent
// use; Run must run.
//
//	                     ┌───────────── this replica ─────────────┐
//	Begin, Append ──────▶│ Memory: what it appended itself        │──▶ Read, Find of a stream that it alone
//	      │              └────────────────────────────────────────┘    appends to: no round trip
//	      │ one round trip
//	      ▼
//	 Redis stream ──▶ Read, Find of all other streams: one round trip
//	      │
//	      └─ who else reads it ──▶ message "appended 2" to those replicas
//
// An event is in the server before Append returns, so before any client has it. Round
// trips: one for Begin and Append, one for all that Notify at the same time; none for
// Follow, Unfollow, End and Drop. A stream that another replica has begun needs one more
// to be appended to, and again whenever that one has appended meanwhile.
//
// When the server does not answer, the streams of Begin go on in memory, and what is
// appended to them from then on is LocalOnly, until the stream ends. It is taken out of
// the server as soon as that answers, so that nobody waits there for what will not come.
//
// Nothing waits until replicas of the server have an event (WAIT): on a connection that
// all callers share, everybody's calls would wait behind it. A failover may so lose the
// newest events. The replica that appended them writes them again when the server has
// returned; where it cannot, a reader finds that the sequence has a gap, and gets
// ErrUnknown.
//
// Values are sealed for their place, so that whoever can write to the server can make the
// gateway forget, but not believe. What was not written by a replica counts as not there.
type Redis struct {
	// Memory has what this replica appended itself, who follows, and which sessions have
	// ended. Streams that other replicas began are theirs to forget.
	*Memory

	config   RedisConfig
	noticing batch.Queue[string, *writing]      // notices, by tenant
	waking   batch.Queue[replica.ID, streamKey] // what replicas that read have yet to be told of
	chores   batch.Queue[struct{}, chore]       // what is yet to be dropped in the server
	begun    chan func(context.Context)         // does the chores
	suspect  chan struct{}                      // holds a token while the server may have lost something
}

var _ Log = (*Redis)(nil)

// kindAppended says that a stream has something new.
const kindAppended = "appended 2"

// NewRedis returns a Redis. It is called before cfg.Store and cfg.Others run.
func NewRedis(cfg RedisConfig) *Redis {
	cfg.Quota = cmp.Or(cfg.Quota, share.New(defaultQuota))
	l := &Redis{
		config: cfg, Memory: NewMemory(cfg.MemoryConfig),
		begun: make(chan func(context.Context), 1), suspect: make(chan struct{}, 1),
	}
	aside := func(run func(context.Context)) { go run(context.Background()) } // it ends when nothing waits
	l.noticing.Do, l.noticing.Most, l.noticing.Go = l.appendNotices, maxBatch, aside
	l.waking.Do, l.waking.Most, l.waking.Go = l.wake, maxBatch, aside
	l.chores.Do, l.chores.Most = l.doChores, maxChores
	l.chores.Go = func(run func(context.Context)) { l.begun <- run } // one at a time: there is one key
	l.config.MemoryConfig = l.Memory.config
	l.remembered = l.config.Age
	l.Memory.dropped = l.dropped
	cfg.Others.Handle(kindAppended, l.heard)
	cfg.Others.OnReturn(l.lookAgain)
	cfg.Store.OnLoss(l.suspectLoss)
	return l
}

// life returns for how many milliseconds the server keeps a stream that nobody reads.
func (l *Redis) life() string {
	kept := l.kept()
	return redis.Millis(kept + kept/8)
}

// askTop runs topScript, and returns what it said first, and the rest.
func (l *Redis) askTop(ctx context.Context, p streamKey, args ...string) (said string, rest []redis.Reply,
	err error,
) {
	reply, err := topScript.Run(ctx, l.config.Store, p.keys(), args)
	return l.heardOf(ctx, p, reply, err)
}

// heardOf reads what a script has said of a stream, unless it has failed with that error:
// what it said first, and the rest. The error is ErrFenced if another replica leads the
// session.
func (l *Redis) heardOf(ctx context.Context, p streamKey, reply redis.Reply, failed error) (said string,
	rest []redis.Reply, err error,
) {
	if failed != nil {
		return "", nil, failed
	}
	parts, err := reply.List()
	if err == nil && len(parts) > 0 {
		said, err = parts[0].Text()
	}
	switch {
	case err != nil || len(parts) == 0:
		return "", nil, l.refuse(ctx, p)
	case said == saidFenced:
		return "", nil, ErrFenced
	case said == saidFailed:
		return "", nil, errJunk
	}
	return said, parts[1:], nil
}

// errJunk says that somebody else has written where a stream or its readers are kept.
var errJunk = fmt.Errorf("%w: a key has another type", redis.ErrDown)

// refuse notes that what is in the server was not written by a replica, or by one of a
// later version.
func (l *Redis) refuse(ctx context.Context, p streamKey) error {
	return replica.Refuse(ctx, l.config.Others, l.config.Store, ErrUnknown,
		slog.String("tenant", p.session.Owner.TenantID), slog.String("stream", p.stream))
}

// Begin implements Log.
func (l *Redis) Begin(ctx context.Context, session Key, stream string) (lasting bool, err error) {
	if session.Here {
		return l.Memory.Begin(ctx, session, stream)
	}
	p := streamKey{session, stream}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.findLocked(p.session, p.stream)
	if s == nil {
		var begun bool
		if s, begun, err = l.joinLocked(ctx, p); err == nil {
			s.shared.own = true
			if !begun {
				s.shared.joined, s.floor = s.shared.top, s.shared.top
			}
		}
	}
	if errors.Is(err, redis.ErrDown) { // it goes on in memory only
		isThere := !errors.Is(err, errFull) // or may be: the server did not say
		if s, err = l.openLocked(p, l.now()); err == nil {
			s.shared.own, s.shared.lost = true, true
			if isThere {
				l.loseLocked(p, s)
			}
		}
	}
	return err == nil && !s.shared.lost, err
}

// joinLocked has this replica append to a stream that is not here, which begins if no
// replica has begun it, and if there is room in the server. The lock is not held during
// the trip.
func (l *Redis) joinLocked(ctx context.Context, p streamKey) (s *memoryStream, begun bool, err error) {
	if err = l.endedLocked(p.session); err != nil {
		return nil, false, err
	}
	base, head := l.now(), ""
	full := l.config.Quota.Take(p.session.Owner, streamQuota)
	if full == nil {
		head = string(l.config.Seal.SealBytes(p.headPurpose(base), nil))
	}
	l.mu.Unlock()
	said, rest, err := l.askTop(ctx, p, entryID(base, false), head, l.life(),
		string(l.config.Others.Self()))
	top, last, ok := topOf(said, rest)
	switch {
	case err != nil:
	case last:
		err = ErrUnknown
	case said == saidGone && full != nil:
		err = errQuota(full)
	case !ok:
		err = l.refuse(ctx, p)
	}
	l.mu.Lock()
	if begun = err == nil && said == saidBegun; !begun { // where it begins is not known
		base = 0
	}
	if err == nil {
		if s, err = l.openLocked(p, base); err != nil && begun {
			l.forget(p)
		}
	}
	if full == nil && (err != nil || !begun) {
		l.config.Quota.Give(p.session.Owner, streamQuota)
	}
	if err != nil {
		return nil, false, err
	}
	if s.shared.top = max(top, s.shared.top); begun {
		s.shared.quota += streamQuota
	}
	return s, begun, nil
}

// openLocked returns a stream, which it makes with that base if it is not there.
func (l *Redis) openLocked(p streamKey, base uint64) (*memoryStream, error) {
	s, err := l.Memory.openLocked(p.session, p.stream, l.config.Now())
	if err == nil && s.shared == nil {
		s.shared, s.floor = newSharedStream(base), base
	}
	return s, err
}

// now returns the base of a stream that begins now.
func (l *Redis) now() uint64 { return uint64(max(1, l.config.Now().UnixMilli())) }

// loseLocked lets a stream go on in memory only.
func (l *Redis) loseLocked(p streamKey, s *memoryStream) {
	s.shared.lost = true
	l.giveQuotaLocked(s, s.shared.quota)
	l.forget(p)
}

// releaseLocked forgets a stream here alone, because another replica appends to it.
func (l *Redis) releaseLocked(s *memoryStream) {
	s.shared.over = true
	l.forgetLocked(s)
}
