package replica

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

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

// kindHeard is word that word of Tell was handled. It holds receipts, each followed by a space.
const kindHeard = "heard"

// Self implements Others.
func (m *Mail) Self() ID { return m.id }

// Handle implements Others.
func (m *Mail) Handle(kind string, h Handler) { m.handlers[kind] = h }

// OnReturn implements Others.
func (m *Mail) OnReturn(f func()) { m.returns = append(m.returns, f) }

// IsThere implements Others.
func (m *Mail) IsThere(id ID) bool { return id == m.id || (*m.alive.Load())[id] }

// IsNewerThere implements Others.
func (m *Mail) IsNewerThere() bool { return m.newer.Load() }

// Count returns how many replicas live as far as is known here, this one included.
func (m *Mail) Count() int {
	alive := *m.alive.Load()
	if alive[m.id] {
		return len(alive)
	}
	return len(alive) + 1
}

// Send implements Others.
func (m *Mail) Send(ctx context.Context, to ID, w Word) error { return m.put(ctx, to, w, "") }

// putting is a script that puts word into a mailbox if that is there and has room: KEYS[1] the mailbox, KEYS[2] how many
// words and bytes wait there by tenant; ARGV[1] to [3] most words, most bytes, life in milliseconds, then who says it, kind,
// tenant, receipt and data. It returns 0 if there is no mailbox, 1 if it has no room, 2 if the word is there.
var putting = redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if redis.call('TYPE', KEYS[2]).ok ~= 'hash' then redis.call('DEL', KEYS[2]) end
local tenant, size = ARGV[6], #ARGV[8]
local function waits(field) return tonumber(redis.call('HGET', KEYS[2], field) or 0) or 0 end
local words, bytes = tonumber(ARGV[1]), tonumber(ARGV[2])
if redis.call('XLEN', KEYS[1]) >= words or waits('b') + size > bytes then return 1 end
if waits('w:' .. tenant) >= words / ARGV[9] or waits('b:' .. tenant) + size > bytes / ARGV[9] then return 1 end
redis.call('XADD', KEYS[1], '*', 'f', ARGV[4], 'k', ARGV[5], 't', tenant, 'r', ARGV[7], 'd', ARGV[8])
redis.call('HINCRBY', KEYS[2], 'b', size)
redis.call('HINCRBY', KEYS[2], 'b:' .. tenant, size)
redis.call('HINCRBY', KEYS[2], 'w:' .. tenant, 1)
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return 2`)

// Before the data of word stand its number, see replays, and when it was sent by the clock of the server, in milliseconds.
const (
	numberSize = 8
	headSize   = numberSize + 8
)

// put puts word into a mailbox, if that is there. With a receipt, the receiver says when it has handled the word.
func (m *Mail) put(ctx context.Context, to ID, w Word, receipt string) error {
	sent, err := m.earliest(ctx)
	if err != nil {
		return err
	}
	plain := binary.BigEndian.AppendUint64(make([]byte, 0, headSize+len(w.Data)), m.numbers.Add(1))
	plain = append(binary.BigEndian.AppendUint64(plain, sent), w.Data...)
	sealed := m.config.Seal.SealBytes(purpose(to, m.id, w.Kind, w.Tenant, receipt), plain)
	reply, err := putting.Run(ctx, m.config.Store, []string{mailbox(to), room(to)}, []string{
		strconv.Itoa(mailboxWords), strconv.Itoa(mailboxBytes), millis(mailboxTTL),
		string(m.id), w.Kind, w.Tenant, receipt, string(sealed), strconv.Itoa(tenantPart),
	})
	if err != nil {
		return err
	}
	switch n, err := reply.Int(); {
	case err != nil:
		return err
	case n == 0:
		return ErrGone
	case n == 1:
		return ErrFull
	default:
		return nil
	}
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// purpose binds all of a word to whom it is for and who says it. No part but the last can hold a NUL.
func purpose(to, from ID, kind, tenant, receipt string) string {
	return "word 2\x00" + string(to) + "\x00" + string(from) + "\x00" + kind + "\x00" + tenant + "\x00" + receipt
}

// mailbox and room return the keys of a mailbox, and of what waits in it. They are on the same node of a cluster.
func mailbox(id ID) string { return redis.CommonKey("mail", "{"+string(id)+"}") }
func room(id ID) string    { return redis.CommonKey("mail", "{"+string(id)+"}", "room") }

// Joined tells whether word of others comes here. Until then this replica must serve nobody: what is told to all others
// would be told to all but this one, and an answer for it would find no mailbox. Where replicas with lower Formats live, it
// also waits until they know of this one, or they would take for forged what it gives to clients.
func (m *Mail) Joined() bool {
	joined := m.joined.Load()
	return joined != 0 && (!m.older.Load() || time.Since(time.Unix(0, joined)) > 2*beat)
}

// Tell implements Others. It asks who is there first: a replica that has begun since the last beat may serve already.
func (m *Mail) Tell(ctx context.Context, w Word) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	if err := m.look(ctx); err != nil {
		return err
	}
	var told errgroup.Group
	for id := range *m.alive.Load() {
		if id != m.id {
			told.Go(func() error { return m.tellOne(ctx, id, w) })
		}
	}
	return told.Wait()
}

// tellOne gives word to one replica, and waits until it has handled it. One that is gone does not have to.
func (m *Mail) tellOne(ctx context.Context, id ID, w Word) error {
	receipt, heard := m.await()
	defer m.forget(receipt)
	switch err := m.put(ctx, id, w, receipt); {
	case errors.Is(err, ErrGone):
		return nil
	case err != nil:
		return err
	}
	gone := time.NewTicker(lookAgain)
	defer gone.Stop()
	for {
		select {
		case <-heard:
			return nil
		case <-gone.C: // it may end with the word in its mailbox, and does not have to hear it then
			if m.look(ctx) == nil && !m.IsThere(id) {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("a replica was told, and has not said that it heard: %w", context.Cause(ctx))
		}
	}
}

// await returns a new receipt, and a channel that is closed when it comes.
func (m *Mail) await() (receipt string, heard chan struct{}) {
	receipt, heard = strconv.FormatUint(m.numbers.Add(1), 10), make(chan struct{})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting[receipt] = heard
	return receipt, heard
}

func (m *Mail) forget(receipt string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.waiting, receipt)
}

// heard takes receipts.
func (m *Mail) heard(_ context.Context, _ ID, w Word) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for receipt := range strings.FieldsSeq(string(w.Data)) {
		if heard := m.waiting[receipt]; heard != nil {
			close(heard)
			delete(m.waiting, receipt)
		}
	}
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

// leave removes what shows that this replica lives, so that others need not wait until that has lapsed.
func (m *Mail) leave(ctx context.Context) {
	_, err := m.config.Store.Do(ctx, redis.Command{Name: "ZREM", Key: redis.CommonKey("replicas"), Args: []string{string(m.id)}})
	if err == nil {
		_, err = m.config.Store.Do(ctx, redis.Command{Name: "DEL", Key: mailbox(m.id), Args: []string{room(m.id)}})
	}
	if err != nil {
		m.config.Logger.DebugContext(ctx, "other replicas do not know yet that this one has ended", slog.Any("error", err))
	}
}

// beating is a script that says that a replica lives. It returns what the clock of the server shows, in milliseconds, 1 if
// the replica was known before, or 0, and all replicas that live by that clock. A beat that lies in the future was written by
// somebody else, or before the clock was set. Beside the ids the set has ARGV[4], the Formats of each version that lives.
var beating = redis.NewScript(`
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then redis.call('DEL', KEYS[1]) end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. now, '+inf')
local known = redis.call('ZSCORE', KEYS[1], ARGV[1]) and 1 or 0
redis.call('ZADD', KEYS[1], now, ARGV[1], now, ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local all = redis.call('ZRANGE', KEYS[1], 0, ARGV[3])
table.insert(all, 1, string.format('%.0f', now))
table.insert(all, 2, known)
return all`)

// beat says that this replica lives, until ctx ends.
func (m *Mail) beat(ctx context.Context) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		_ = m.look(ctx) // the next one comes
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// look says that this replica lives, and learns who else does. After an error nobody is forgotten, because nothing is known.
// If the others did not know that this one lives, because it stood still for too long or somebody removed it, they have
// told it nothing meanwhile, and no call fails for that: so it is noted here.
func (m *Mail) look(ctx context.Context) error {
	asked := time.Now()
	reply, err := beating.Run(ctx, m.config.Store, []string{redis.CommonKey("replicas")}, []string{string(m.id), millis(life), strconv.Itoa(most - 1), formats(Formats)})
	if err != nil {
		return err
	}
	found, err := reply.List()
	if err == nil {
		found, err = m.set(found, asked, time.Now())
	}
	known, ids, err := living(found, err)
	if err != nil {
		m.config.Logger.WarnContext(ctx, "what redis knows of replicas has another form", slog.Any("error", err))
		return err
	}
	if !known {
		m.missed.Store(true)
	}
	m.note(ctx, ids)
	return nil
}

// formatsMark stands before a number of Formats in the set of those who live.
const formatsMark = "formats "

func formats(n int) string { return formatsMark + strconv.Itoa(n) }

// note takes what the set of those who live has: ids, and the Formats of their versions. What it does not know is of a later
// version, or of somebody else.
func (m *Mail) note(ctx context.Context, members []redis.Reply) {
	alive, newer, older := make(map[ID]bool, len(members)), false, false
	for _, one := range members {
		text, err := one.Text()
		if number, found := strings.CutPrefix(text, formatsMark); err == nil && found {
			n, err := strconv.Atoi(number)
			newer, older = newer || err == nil && n > Formats, older || err == nil && n < Formats
		} else if err == nil && len(text) == len(m.id) {
			alive[ID(text)] = true
		}
	}
	m.alive.Store(&alive)
	m.newer.Store(newer)
	m.older.Store(older)
	m.watch(ctx, len(alive))
}

// watch says in the log when more replicas live than the config allows, and when they do no more. While Redis is away each
// grants its part of every limit, and together these parts are more than the whole then.
func (m *Mail) watch(ctx context.Context, alive int) {
	if crowded := m.config.Most > 0 && alive > m.config.Most; crowded != m.crowded.Swap(crowded) {
		if !crowded {
			m.config.Logger.InfoContext(ctx, "no more replicas run than the config says", slog.Int("running", alive), slog.Int("replicas", m.config.Most))
			return
		}
		m.config.Logger.WarnContext(ctx, "more replicas run than the config says; raise replicas, or limits are exceeded while redis is away",
			slog.Int("running", alive), slog.Int("replicas", m.config.Most))
	}
}

// living reads what is left of the answer of beating, unless there is an error.
func living(found []redis.Reply, err error) (known bool, ids []redis.Reply, _ error) {
	switch {
	case err != nil:
		return false, nil, err
	case len(found) == 0:
		return false, nil, errors.New("it does not say whether this replica was known")
	}
	n, err := found[0].Int()
	return n == 1, found[1:], err
}

// errMissed says that word of others may have been lost without a fault: the mailbox was removed or has expired, or the
// others did not know of this replica.
var errMissed = errors.New("the mailbox was gone, or this replica was not known")

// read makes the mailbox, and hands out what comes, until ctx ends. After a fault it goes on after the last word that it
// has handed out, if the mailbox still has what follows.
func (m *Mail) read(ctx context.Context) {
	after := first
	for ctx.Err() == nil {
		err := m.readUntilFault(ctx, &after)
		switch {
		case ctx.Err() != nil, errors.Is(err, redis.ErrDown): // the log says so already
		case errors.Is(err, errMissed):
			m.config.Logger.WarnContext(ctx, "word of other replicas may be lost: redis has removed it, or others did not know of this one, which looks again at what it holds")
		default:
			m.config.Logger.WarnContext(ctx, "word of other replicas cannot be read", slog.Any("error", err))
		}
		select {
		case <-time.After(beat / 4):
		case <-ctx.Done():
		}
	}
}

// first is before the id of any word.
const first = "0-0"

// opening is a script that makes a mailbox, of which KEYS[1] and [2] are the keys, or goes on with it: ARGV[1] is the last id
// that was read, ARGV[2] the life in milliseconds. It returns after which id to read. If the mailbox was lost, ids of the
// new one may be smaller, because the clock is another.
var opening = redis.NewScript(`
if redis.call('TYPE', KEYS[1]).ok ~= 'stream' then redis.call('DEL', KEYS[1], KEYS[2]) end
local made = redis.call('EXISTS', KEYS[1]) == 0
redis.call('XADD', KEYS[1], '*', 'k', '')
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if made then return '0-0' end
return ARGV[1]`)

// readUntilFault makes the mailbox if it is not there, and hands out what comes after an id, which it sets, until that
// fails.
func (m *Mail) readUntilFault(ctx context.Context, after *string) error {
	keys := []string{mailbox(m.id), room(m.id)}
	reply, err := opening.Run(ctx, m.config.Store, keys, []string{*after, millis(mailboxTTL)})
	if err != nil {
		return err
	}
	if *after, err = reply.Text(); err != nil {
		return err
	}
	if err := m.look(ctx); err != nil {
		return err
	}
	m.missed.Store(false) // what was missed until now is what returns are told of
	m.joined.CompareAndSwap(0, time.Now().UnixNano())
	for _, f := range m.returns {
		f()
	}
	for size := 1; ; size = min(2*size, batch) { // small at first: too much at once may have been the fault
		entries, err := m.config.Store.ReadStream(ctx, keys[0], *after, size)
		if err != nil {
			return err
		}
		receipts := make(map[ID][]byte)
		for _, e := range entries {
			if from, receipt := m.take(ctx, e.Fields); receipt != "" {
				receipts[from] = append(append(receipts[from], receipt...), ' ')
			}
			*after = e.ID
		}
		m.thank(ctx, receipts)
		if m.missed.Load() {
			return errMissed
		}
		if len(entries) == 0 {
			continue
		}
		if _, err := clearing.Run(ctx, m.config.Store, keys, m.taken(*after, entries)); err != nil {
			return err
		}
	}
}

// clearing is a script that removes what was read from a mailbox: ARGV[1] is the last id, and then follow a tenant, how many
// words of it, and how many bytes. A mailbox that is empty has nothing that waits, whatever was counted.
var clearing = redis.NewScript(`
redis.call('XTRIM', KEYS[1], 'MINID', ARGV[1])
redis.call('XDEL', KEYS[1], ARGV[1])
if redis.call('XLEN', KEYS[1]) == 0 then return redis.call('DEL', KEYS[2]) end
for i = 2, #ARGV, 3 do
  redis.call('HINCRBY', KEYS[2], 'w:' .. ARGV[i], -ARGV[i + 1])
  redis.call('HINCRBY', KEYS[2], 'b:' .. ARGV[i], -ARGV[i + 2])
  redis.call('HINCRBY', KEYS[2], 'b', -ARGV[i + 2])
end
return 0`)

// taken returns the arguments of clearing.
func (*Mail) taken(last string, entries []redis.Entry) []string {
	words, bytes := make(map[string]int), make(map[string]int)
	for _, e := range entries {
		words[e.Fields["t"]]++
		bytes[e.Fields["t"]] += len(e.Fields["d"])
	}
	args := []string{last}
	for tenant, n := range words {
		args = append(args, tenant, strconv.Itoa(n), strconv.Itoa(bytes[tenant]))
	}
	return args
}

// take hands one word to its handler, unless somebody else than a replica has put it there, or again, or late. If the sender
// waits until the word is handled, it returns who that is, and the receipt.
func (m *Mail) take(ctx context.Context, fields map[string]string) (from ID, receipt string) {
	w := Word{Kind: fields["k"], Tenant: fields["t"]}
	if w.Kind == "" {
		return "", "" // it shows that the mailbox is there
	}
	from, receipt = ID(fields["f"]), fields["r"]
	data, err := m.config.Seal.OpenBytes(purpose(m.id, from, w.Kind, w.Tenant, receipt), []byte(fields["d"]))
	h := m.handlers[w.Kind]
	if err == nil && h == nil {
		m.dropUnknown(ctx, w.Kind)
		return "", ""
	}
	if err != nil || len(data) < headSize {
		m.config.Logger.WarnContext(ctx, "word of another replica is not understood", slog.String("kind", strconv.Quote(w.Kind)))
		return "", ""
	}
	if !m.replays.isNew(from, binary.BigEndian.Uint64(data), m.IsThere) {
		m.config.Logger.WarnContext(ctx, "word of another replica came again and is dropped", slog.String("kind", strconv.Quote(w.Kind)))
		return "", ""
	}
	age := m.clock.Load().since(binary.BigEndian.Uint64(data[numberSize:]))
	if age.Abs() > wordLife {
		m.config.Logger.WarnContext(ctx, "word of another replica was kept back and is dropped", slog.String("kind", strconv.Quote(w.Kind)))
		m.missed.Store(true) // if it was not somebody else but the clock of the server, others believe that it was heard
		return "", ""
	}
	w.Data, w.Age = data[headSize:], max(0, age)
	h(ctx, from, w)
	return from, receipt
}

// dropUnknown says once for each kind that this version does not know it. A sender that waits is not told that its word was
// handled, and so never takes for done what this replica has not done.
func (m *Mail) dropUnknown(ctx context.Context, kind string) {
	if m.unknown[kind] || len(m.unknown) >= mostUnknown {
		return
	}
	m.unknown[kind] = true
	m.config.Logger.WarnContext(ctx, "word of a later version is dropped, which this one does not know", slog.String("kind", strconv.Quote(kind)))
}

// thank says to each sender which of its word was handled: all that was read at a time in one word, and beside the reading.
// A round trip for each would have all tenants wait for the one of which most is told.
func (m *Mail) thank(ctx context.Context, receipts map[ID][]byte) {
	for from, list := range receipts {
		m.thanking.Go(func() {
			_ = m.Send(ctx, from, Word{Kind: kindHeard, Data: list}) // who does not hear of it waits in vain
		})
	}
}
