package replica

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// How word is read. One goroutine makes the mailbox, reads it, and hands word to the handlers, one after the other. What was
// read is removed. After a fault, and when word may have been lost, it begins again, and OnReturn tells those who must know:
//
//	opening ──▶ look ──▶ OnReturn ──▶ ReadStream ──▶ take ──▶ handler
//	   ▲                                ▲              │
//	   │                                └─ clearing ◀──┴──▶ thank: who waits for a receipt gets it
//	   └── the mailbox is gone, or others did not know of this replica

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
