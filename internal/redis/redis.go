// Package redis answers: what do the replicas of this gateway share? It is the one door
// to the server, Redis or Valkey, that keeps what any replica must be able to read:
// which replicas live, who leads a session, events of streams, counts of limits. It knows
// how to reach that server, how long an answer may take, and when to stop asking; it
// deliberately does not know what is kept there or what it is good for. What replicas
// tell each other does not go through it (package link).
//
//	a package that shares something ──▶ Store.Do, Store.DoAll, Script.Run ──▶ breaker ──▶ client ──▶ server
//	                                                                             ▲
//	                                           Store.Run: connects, probes ──────┘
//
// No call waits longer than Config.Patience, whatever the library does meanwhile: each is
// made on a goroutine of its own, because the library may dial, or wait for room, longer
// than a context says, and so that a caller that gives up takes no connection down. A
// connection that ends opens the breaker, and so does an answer that says that the server
// can write nothing now. A call that gets no answer in time has a probe made, and that
// one opens the breaker if it gets none either. From then on every call fails at once
// with ErrDown, until a probe, which writes, finds the server well again. So a slow
// server costs each caller that patience once.
//
// Redis is not where anything lives that must not be lost: whoever uses this package says
// what holds when the server is gone, or has forgotten. Values that a replica reads back
// were sealed by one (package seal), so that whoever can write to the server can make the
// gateway forget, but not believe.
//
// It is the only package that imports github.com/redis/rueidis.
package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

// ErrDown is wrapped in every error that says that the server did not do what it was
// asked to, because it could not be reached, was too slow, or refused. What was asked may
// have been done all the same.
var ErrDown = errors.New("redis cannot be used")

// ErrDenied says that the user of the gateway may not do what was asked.
var ErrDenied = errors.New("the user of redis may not do that")

// Config of a Store. Only Addresses must be set.
type Config struct {
	Addresses []string // host:port; of sentinels if Master is set, of some nodes of a cluster if Cluster is
	Master    string   // name of the master that the sentinels watch; empty: there are none
	Cluster   bool     // the addresses are nodes of a cluster
	User      string   // of the ACL; empty: default
	// Password is asked for each time that the Store connects, so it may change; nil:
	// there is none.
	Password         func() (string, error)
	SentinelUser     string                 // as User, at the sentinels
	SentinelPassword func() (string, error) // as Password, at the sentinels
	Database         int                    // must be 0 in a cluster
	TLS              *tls.Config            // nil: without TLS
	// Patience is how long a call waits for its answer. Zero: 500 ms, so that neither a
	// processor that a container may not use for a while nor a busy machine counts as a
	// fault of the server.
	Patience time.Duration
	Logger   *slog.Logger // nil: none
	// Called is told of each round trip what it was for, which is the part of its first
	// key that names what is kept there, how it came out, and how long it took, which is
	// negative where that says nothing of the server; nil: nobody is. It must return at
	// once.
	Called func(kind string, outcome Outcome, took time.Duration)
	// Opened is told each time that calls are not made any more; nil: nobody is. It must
	// return at once.
	Opened func(State)
	// Refused is called for each value that is not what a replica has written; nil:
	// nobody is told.
	Refused func()
}

// How often the server is asked whether it is well, and how long a connection may take.
const (
	defaultPatience = 500 * time.Millisecond
	probeInterval   = time.Second            // while it is
	retryInterval   = 250 * time.Millisecond // while it is not
	connectTimeout  = 2 * time.Second
	relinkAfter     = 2 * time.Second // a link of this age is replaced when a probe of it fails
	// of not being used: until then a failover may end it, and nobody has to act
	alarmAfter = 10 * time.Second
	againAfter = 5 * time.Millisecond // a script is run again whose slot moves
)

// Store is a connection to the server. It is safe for concurrent use.
type Store struct {
	config     Config
	link       atomic.Pointer[link] // nil: not connected yet
	breaker    breaker
	generation atomic.Pointer[string] // nil: not known yet
	wake       chan struct{}          // tells Run that the breaker has opened
	turns      sync.Pool              // of *turn
	localHost  atomic.Pointer[string] // see LocalHost; nil: there was no connection yet
	traffic    traffic                // what is under way

	// Set before Run.
	onUp         []func()
	onGeneration []func()

	// Of the goroutine of Run.
	memory  memory
	unwell  bool      // the last probe failed
	said    State     // what the log has said last
	since   time.Time // when the log said that the server is not used; zero: it is, or that was not said
	alarmed bool      // the log has said that this lasts
}

// New returns a Store that is not connected: Run connects it. Until then every call fails
// with ErrDown.
func New(cfg Config) *Store {
	cfg.Patience = cmp.Or(cfg.Patience, defaultPatience)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Called == nil {
		cfg.Called = func(string, Outcome, time.Duration) {}
	}
	if cfg.Opened == nil {
		cfg.Opened = func(State) {}
	}
	if cfg.Refused == nil {
		cfg.Refused = func() {}
	}
	return &Store{
		config: cfg, wake: make(chan struct{}, 1), traffic: newTraffic(), memory: newMemory(cfg.Cluster),
		turns: sync.Pool{New: newTurn},
	}
}

// OnGeneration calls f when the generation has become another, before any call is made in
// that one. f is called on the goroutine of Run, and must return at once. OnGeneration is
// called before Run.
func (s *Store) OnGeneration(f func()) { s.onGeneration = append(s.onGeneration, f) }

// OnLoss calls f when the server may have lost something: at another generation, and
// whenever calls begin to be made. Others may have written until then, and a few seconds
// of what this replica wrote may be lost. f is called on the goroutine of Run, and must
// return at once. OnLoss is called before Run.
func (s *Store) OnLoss(f func()) {
	s.OnGeneration(f)
	s.onUp = append(s.onUp, f)
}

// Generation is a text of 32 hexadecimal digits that all replicas share, and that changes
// when the server has lost what it was given: everything, or more than a minute of it. A
// failover or an outage alone does not change it. It is false until the server was
// reached for the first time; while it cannot be reached, the last known one is returned.
// It is at most about a second old, and never older than an outage that calls have
// noticed.
func (s *Store) Generation() (string, bool) {
	if text := s.generation.Load(); text != nil {
		return *text, true
	}
	return "", false
}

// Refuse notes that the server holds what no replica has written there, and of what that
// would be.
func (s *Store) Refuse(ctx context.Context, of ...slog.Attr) {
	s.config.Refused()
	s.config.Logger.LogAttrs(ctx, slog.LevelWarn,
		"redis holds what no replica has written there; it is not used", of...)
}

// Run connects, and asks the server now and then whether it is well, until ctx ends. A
// server that cannot be reached is no error: it is tried again.
func (s *Store) Run(ctx context.Context) error {
	defer s.stop()
	for {
		s.judge(ctx, s.probe(ctx))
		wait := retryInterval
		if s.Up() == nil {
			wait = probeInterval
		}
		if !pace.WaitOr(ctx, wait, s.wake) {
			return nil
		}
	}
}

// Up tells whether calls are made, and if not, why. It waits for nothing.
func (s *Store) Up() error { return s.breaker.problem() }

// State says in a word what Up says.
func (s *Store) State() State {
	err := s.Up()
	if err == nil {
		return StateUp
	}
	state, _ := stateOf(err)
	return state
}

// Reached tells whether the server was ever up.
func (s *Store) Reached() bool {
	_, ok := s.Generation()
	return ok
}

// probe connects if that is not done, and asks the server whether it takes writes and
// what it still has. A link is replaced only when a probe of it has failed: the
// connection that ended may have been that to a sentinel, and while the sentinels are
// away only this link knows the master.
func (s *Store) probe(ctx context.Context) (err error) {
	old := s.link.Load()
	if old != nil && s.unwell && time.Since(old.made) > relinkAfter {
		s.link.Store(nil)
		old.close()
		old = nil
	}
	defer func() { s.unwell = err != nil }()
	if old == nil {
		made, err := s.newLink(ctx)
		if err != nil {
			return explain(err)
		}
		s.link.Store(made)
	}
	began := time.Now()
	if err := s.check(ctx); err != nil {
		return explain(err)
	}
	if s.Up() != nil && time.Since(began) > s.config.Patience/2 {
		return explain(errLate) // so slow that calls would hardly get their answer
	}
	return nil
}

// judge draws the conclusion from a probe, and tells whoever wants to know.
func (s *Store) judge(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		if !s.Reached() {
			err = fmt.Errorf("%w; %w", err, errNotYet)
		}
		s.trip(err)
	}
	if s.Up() != nil && (err != nil || s.said == StateUp) { // or it is well at the first check
		s.tell(ctx)
	}
	if err == nil && s.Up() != nil && s.breaker.prove() {
		s.tell(ctx)
	}
}

// tell says whether the server is up, to the log and to whoever wants to know, if it was
// not said before. That somebody must act it says only when it lasts: replicas and Redis
// start in any order, and a failover takes seconds.
func (s *Store) tell(ctx context.Context) {
	state := s.State()
	s.alarm(ctx)
	if state == s.said {
		return
	}
	s.said = state
	switch err := s.Up(); state {
	case StateUp:
		s.since, s.alarmed = time.Time{}, false
		s.config.Logger.InfoContext(ctx, "redis is used")
		for _, f := range s.onUp {
			f()
		}
	case StateStarting:
		s.since = cmp.Or(s.since, time.Now())
		s.config.Logger.InfoContext(ctx, "redis was not reached yet", slog.Any("error", err))
	default:
		s.since = cmp.Or(s.since, time.Now())
		s.config.Logger.WarnContext(ctx, "redis is not used now", slog.String("state", string(state)),
			slog.Any("error", err))
	}
}

// alarm has the log say, once, that the server has not been used for alarmAfter.
func (s *Store) alarm(ctx context.Context) {
	err := s.Up()
	if err == nil || s.alarmed || s.since.IsZero() || time.Since(s.since) < alarmAfter {
		return
	}
	s.alarmed = true
	s.config.Logger.ErrorContext(ctx, "redis is still not used: docs/replicas.md says what each state means",
		slog.String("state", string(s.State())), slog.Time("since", s.since), slog.Any("error", err))
}

// trip stops calls.
func (s *Store) trip(err error) {
	if s.breaker.open(err) {
		s.config.Opened(s.State())
	}
}

// broken is called when a connection has ended on the other side.
func (s *Store) broken(err error) {
	if s.Up() == nil {
		s.fail(explain(fmt.Errorf("a connection ended: %w", err)))
	}
}

// fail stops calls, and has Run look at once.
func (s *Store) fail(err error) {
	s.trip(err)
	pace.Signal(s.wake)
}

func (s *Store) stop() {
	s.breaker.open(explain(errStopped))
	if l := s.link.Swap(nil); l != nil {
		l.close()
	}
}
