package replica

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// How word is sent. Send puts it into one mailbox. Tell puts it into those of all others, each with a receipt, and waits until
// all receipts have come back, or their replicas are gone:
//
//	Tell ──▶ tellOne ──▶ put ──▶ mailbox of the other ──▶ its handler
//	            ▲                                            │
//	            └── heard ◀── own mailbox ◀── thank ◀────────┘

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

// kindHeard is word that word of Tell was handled. It holds receipts, each followed by a space.
const kindHeard = "heard"

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
