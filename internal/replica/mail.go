package replica

import (
	"context"
	"errors"
	"fmt"
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
	mailboxTTL = 10 * time.Second // after the last beat
	mailboxMax = "100000"         // words that wait, roughly
	batch      = 512              // words that are read at a time
	patience   = 2 * time.Second  // of Tell
)

// MailConfig is what Mail needs. Every field is required.
type MailConfig struct {
	Store  *redis.Store
	Seal   *seal.Ring
	Logger *slog.Logger
}

// Mail is Others over Redis. Each replica has a mailbox, a stream that only it reads, and shows that it lives by an entry
// in a set. Word is sealed for the one it is meant for.
type Mail struct {
	config   MailConfig
	id       ID
	handlers map[string]Handler
	returns  []func()
	alive    atomic.Pointer[map[ID]bool]

	sequence atomic.Uint64
	mu       sync.Mutex // guards waiting
	waiting  map[string]chan struct{}
}

var _ Others = (*Mail)(nil)

// NewMail returns a Mail with a new id. Run makes it live.
func NewMail(cfg MailConfig) *Mail {
	m := &Mail{config: cfg, id: NewID(), handlers: make(map[string]Handler), waiting: make(map[string]chan struct{})}
	m.alive.Store(&map[ID]bool{})
	m.Handle(kindHeard, m.heard)
	return m
}

// kindHeard is word that word of Tell was handled.
const kindHeard = "heard"

// Self implements Others.
func (m *Mail) Self() ID { return m.id }

// Handle implements Others.
func (m *Mail) Handle(kind string, h Handler) { m.handlers[kind] = h }

// OnReturn implements Others.
func (m *Mail) OnReturn(f func()) { m.returns = append(m.returns, f) }

// IsThere implements Others.
func (m *Mail) IsThere(id ID) bool { return id == m.id || (*m.alive.Load())[id] }

// Send implements Others.
func (m *Mail) Send(ctx context.Context, to ID, w Word) error {
	reply, err := m.config.Store.Do(ctx, m.put(to, w, ""))
	if err == nil && reply.Nil() {
		return ErrGone
	}
	return err
}

// put returns the command that puts word into a mailbox, if that is there. With a receipt, the receiver says when it has
// handled the word.
func (m *Mail) put(to ID, w Word, receipt string) redis.Command {
	sealed := m.config.Seal.SealBytes(purpose(to, m.id, w.Kind, w.Tenant, receipt), w.Data)
	return redis.Command{Name: "XADD", Key: mailbox(to), Args: []string{
		"NOMKSTREAM", "MAXLEN", "~", mailboxMax, "*", "f", string(m.id), "k", w.Kind, "t", w.Tenant, "r", receipt, "d", string(sealed),
	}}
}

// purpose binds all of a word to whom it is for and who says it. No part but the last can hold a NUL.
func purpose(to, from ID, kind, tenant, receipt string) string {
	return "word 1\x00" + string(to) + "\x00" + string(from) + "\x00" + kind + "\x00" + tenant + "\x00" + receipt
}

func mailbox(id ID) string { return redis.CommonKey("mail", string(id)) }

// Tell implements Others.
func (m *Mail) Tell(ctx context.Context, w Word) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	var commands []redis.Command
	var receipts []chan struct{}
	for id := range *m.alive.Load() {
		if id == m.id {
			continue
		}
		receipt, heard := m.await()
		defer m.forget(receipt)
		commands, receipts = append(commands, m.put(id, w, receipt)), append(receipts, heard)
	}
	if len(commands) == 0 {
		return m.config.Store.Up()
	}
	replies, err := m.config.Store.DoAll(ctx, commands...)
	if err != nil {
		return err
	}
	for i, heard := range receipts {
		if replies[i].Nil() {
			continue // it is gone
		}
		select {
		case <-heard:
		case <-ctx.Done():
			return fmt.Errorf("a replica was told, and has not said that it heard: %w", context.Cause(ctx))
		}
	}
	return nil
}

// await returns a new receipt, and a channel that is closed when it comes.
func (m *Mail) await() (receipt string, heard chan struct{}) {
	receipt, heard = strconv.FormatUint(m.sequence.Add(1), 10), make(chan struct{})
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

// heard takes a receipt.
func (m *Mail) heard(_ context.Context, _ ID, w Word) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if heard := m.waiting[string(w.Data)]; heard != nil {
		close(heard)
		delete(m.waiting, string(w.Data))
	}
}

// Run lives, and hands word to its handlers, until ctx ends.
func (m *Mail) Run(ctx context.Context) error {
	var beating sync.WaitGroup
	beating.Go(func() { m.beat(ctx) })
	defer beating.Wait()
	m.read(ctx)
	return nil
}

// beating is a script that says that a replica lives, and returns all that do, by the clock of the server.
var beating = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
return redis.call('ZRANGE', KEYS[1], 0, -1)`)

// beat says that this replica lives, until ctx ends.
func (m *Mail) beat(ctx context.Context) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		m.beatOnce(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (m *Mail) beatOnce(ctx context.Context) {
	reply, err := beating.Run(ctx, m.config.Store, []string{redis.CommonKey("replicas")}, []string{string(m.id), strconv.FormatInt(life.Milliseconds(), 10)})
	if err != nil {
		return // nobody is forgotten because nothing is known
	}
	ids, err := reply.List()
	if err != nil {
		m.config.Logger.WarnContext(ctx, "what redis knows of replicas has another form", slog.Any("error", err))
		return
	}
	alive := make(map[ID]bool, len(ids))
	for _, one := range ids {
		if id, err := one.Text(); err == nil && len(id) == len(m.id) {
			alive[ID(id)] = true
		}
	}
	m.alive.Store(&alive)
	_, _ = m.config.Store.Do(ctx, redis.Command{Name: "PEXPIRE", Key: mailbox(m.id), Args: []string{strconv.FormatInt(mailboxTTL.Milliseconds(), 10)}})
}

// read makes the mailbox, and hands out what comes, until ctx ends. After a fault it begins anew.
func (m *Mail) read(ctx context.Context) {
	for ctx.Err() == nil {
		err := m.readUntilFault(ctx)
		if ctx.Err() == nil && !errors.Is(err, redis.ErrDown) {
			m.config.Logger.WarnContext(ctx, "word of other replicas cannot be read", slog.Any("error", err))
		}
		select {
		case <-time.After(beat / 4):
		case <-ctx.Done():
		}
	}
}

// readUntilFault makes the mailbox if it is not there, and hands out what comes until that fails.
func (m *Mail) readUntilFault(ctx context.Context) error {
	key := mailbox(m.id)
	replies, err := m.config.Store.DoAll(ctx,
		redis.Command{Name: "XADD", Key: key, Args: []string{"*", "k", ""}},
		redis.Command{Name: "PEXPIRE", Key: key, Args: []string{strconv.FormatInt(mailboxTTL.Milliseconds(), 10)}})
	if err != nil {
		return err
	}
	after, err := replies[0].Text()
	if err != nil {
		return err
	}
	m.beatOnce(ctx)
	for _, f := range m.returns {
		f()
	}
	for {
		entries, err := m.config.Store.ReadStream(ctx, key, after, batch)
		if err != nil {
			return err
		}
		for _, e := range entries {
			m.take(ctx, e.Fields)
			after = e.ID
		}
		if len(entries) > 0 {
			_, _ = m.config.Store.Do(ctx, redis.Command{Name: "XTRIM", Key: key, Args: []string{"MINID", after}})
		}
	}
}

// take hands one word to its handler, unless somebody else than a replica has put it there.
func (m *Mail) take(ctx context.Context, fields map[string]string) {
	w := Word{Kind: fields["k"], Tenant: fields["t"]}
	from, receipt := ID(fields["f"]), fields["r"]
	data, err := m.config.Seal.OpenBytes(purpose(m.id, from, w.Kind, w.Tenant, receipt), []byte(fields["d"]))
	h := m.handlers[w.Kind]
	if err != nil || h == nil {
		m.config.Logger.WarnContext(ctx, "word of another replica is not understood", slog.String("kind", strconv.Quote(w.Kind)))
		return
	}
	w.Data = data
	h(ctx, from, w)
	if receipt != "" {
		_ = m.Send(ctx, from, Word{Kind: kindHeard, Data: []byte(receipt)}) // who does not hear of it waits in vain
	}
}
