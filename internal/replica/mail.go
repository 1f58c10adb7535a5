package replica

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

const (
	beat       = time.Second      // how often a replica says that it lives
	life       = 5 * time.Second  // after the last beat
	mailboxTTL = 10 * time.Second // after the server was last found well
	batch      = 512              // words that are read at a time
	patience   = 2 * time.Second  // of Tell
	wordLife   = time.Minute      // of word: none waits so long, unless somebody has kept it back
	lookAgain  = patience / 8     // how often Tell asks whether a replica that has not heard is there still
	most       = 1000             // replicas that are known at most

	mostUnknown = 100 // kinds of word that are remembered as unknown
)

// What waits in a mailbox at most. A tenant may have a quarter of it, so that one whose word comes in masses, or whose
// handler does not get on, leaves room for that of others.
const (
	mailboxWords = 100_000
	mailboxBytes = 64 << 20
	tenantPart   = 4
)

// MailConfig is what Mail needs. Every field but Most is required.
type MailConfig struct {
	Store  *redis.Store
	Seal   *seal.Ring
	Logger *slog.Logger
	Most   int // replicas that the config allows; zero: nobody is told if there are more
}

// Mail is Others over Redis. Each replica has a mailbox, a stream that only it reads, and shows that it lives by an entry
// in a set. Word is sealed for the one it is meant for.
type Mail struct {
	config   MailConfig
	id       ID
	handlers map[string]Handler
	returns  []func()
	alive    atomic.Pointer[map[ID]bool]
	older    atomic.Bool  // a replica with lower Formats lives
	newer    atomic.Bool  // a replica with higher Formats lives
	crowded  atomic.Bool  // more replicas live than the config allows
	joined   atomic.Int64 // when the mailbox was first read, in nanoseconds since 1970; zero: not yet
	left     atomic.Bool  // this replica has said that it ends, and never says again that it lives
	clock    atomic.Pointer[clock]
	missed   atomic.Bool     // others may have said what did not come here: the mailbox was gone, or this replica was not known
	replays  *replays        // of the goroutine that reads, like the next
	unknown  map[string]bool // kinds that came and have no handler
	thanking sync.WaitGroup

	numbers atomic.Uint64 // of word, and of receipts
	mu      sync.Mutex    // guards waiting
	waiting map[string]chan struct{}
}

var _ Others = (*Mail)(nil)

// NewMail returns a Mail with a new id. Run makes it live.
func NewMail(cfg MailConfig) *Mail {
	m := &Mail{config: cfg, id: NewID(), handlers: make(map[string]Handler), waiting: make(map[string]chan struct{}), replays: newReplays(), unknown: make(map[string]bool)}
	m.alive.Store(&map[ID]bool{})
	m.Handle(kindHeard, m.heard)
	return m
}

// Self implements Others.
func (m *Mail) Self() ID { return m.id }

// Handle implements Others.
func (m *Mail) Handle(kind string, h Handler) { m.handlers[kind] = h }

// OnReturn implements Others.
func (m *Mail) OnReturn(f func()) { m.returns = append(m.returns, f) }

// Joined tells whether word of others comes here. Until then this replica must serve nobody: what is told to all others
// would be told to all but this one, and an answer for it would find no mailbox. Where replicas with lower Formats live, it
// also waits until they know of this one, or they would take for forged what it gives to clients.
func (m *Mail) Joined() bool {
	joined := m.joined.Load()
	return joined != 0 && (!m.older.Load() || time.Since(time.Unix(0, joined)) > 2*beat)
}

// Run lives, and hands word to its handlers, until ctx ends. Then it says so, if the server can be reached: the store must
// serve until Run has returned.
func (m *Mail) Run(ctx context.Context) error {
	var beating sync.WaitGroup
	beating.Go(func() { m.beat(ctx) })
	defer m.config.Store.Keep(mailbox(m.id), mailboxTTL, func() { m.missed.Store(true) })()
	m.read(ctx)
	m.thanking.Wait()
	beating.Wait()
	m.leave(context.WithoutCancel(ctx)) // nobody serves any more when ctx has ended
	return nil
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// purpose binds all of a word to whom it is for and who says it. No part but the last can hold a NUL.
func purpose(to, from ID, kind, tenant, receipt string) string {
	return "word 2\x00" + string(to) + "\x00" + string(from) + "\x00" + kind + "\x00" + tenant + "\x00" + receipt
}

// mailbox and room return the keys of a mailbox, and of what waits in it. They are on the same node of a cluster.
func mailbox(id ID) string { return redis.CommonKey("mail", "{"+string(id)+"}") }
func room(id ID) string    { return redis.CommonKey("mail", "{"+string(id)+"}", "room") }
