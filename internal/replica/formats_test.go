package replica_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

// TestALaterVersionIsNoticed lets a replica of a later version live beside this one for a while, in whose entries there is
// something that this one does not know.
func TestALaterVersionIsNoticed(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	m := post(t, server, ring, func(replica.ID, replica.Word) {})
	if m.IsNewerThere() {
		t.Error("a later version is said to run, and this one is alone")
	}
	later := fmt.Sprintf("formats %d", replica.Formats+1)
	now := strings.ReplaceAll(server.Exec(t, "EVAL", "local t = redis.call('TIME') return string.format('%.0f', t[1] * 1000)", "0"), "\"", "")
	server.Exec(t, "ZADD", "db1:replicas", now, later, now, "something else", now, "formats many", now, "0123456789abcdef")
	redistest.Wait(t, func() error {
		if !m.IsNewerThere() || !m.IsThere("0123456789abcdef") || m.Count() != 2 {
			return fmt.Errorf("newer: %v, known: %v, %d in all", m.IsNewerThere(), m.IsThere("0123456789abcdef"), m.Count())
		}
		return nil
	})
	redistest.Wait(t, func() error { // nobody renews it
		if m.IsNewerThere() || m.Count() != 1 {
			return errors.New("what has gone is still there")
		}
		return nil
	})
}

// TestWordOfAKindThatIsNotKnown is told by a later version. Who told it must not believe that it was heeded.
func TestWordOfAKindThatIsNotKnown(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	got := make(chan string, 1)
	a := post(t, server, ring, func(replica.ID, replica.Word) {})
	b := post(t, server, ring, func(_ replica.ID, w replica.Word) { got <- string(w.Data) })
	if err := a.Tell(t.Context(), replica.Word{Kind: "news 2", Tenant: "acme"}); err == nil {
		t.Error("word that nobody understands counts as heeded")
	}
	if err := a.Send(t.Context(), b.Self(), replica.Word{Kind: "news 1", Data: []byte("what follows")}); err != nil {
		t.Fatal(err)
	}
	if text := <-got; text != "what follows" {
		t.Errorf("got %q", text)
	}
}

// log is where a replica logs to.
type log struct {
	mu   sync.Mutex // guards the field below
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// TestMoreReplicasRanThanTheConfigSaid: nobody was told of it, and without Redis limits were exceeded.
func TestMoreReplicasRanThanTheConfigSaid(t *testing.T) {
	t.Parallel()
	server, ring, lines := redistest.Start(t), seal.RandomRing(), &log{}
	first := replica.NewMail(replica.MailConfig{Store: server.Store(t), Seal: ring, Logger: slog.New(slog.NewTextHandler(lines, nil)), Most: 2})
	go func() { _ = first.Run(t.Context()) }() // ends with the test
	const warning = "more replicas run than the config says; raise replicas"
	said := func(warnings, ends int) {
		t.Helper()
		redistest.Wait(t, func() error {
			if lines.count(warning) != warnings || lines.count("no more replicas run than the config says") != ends {
				return fmt.Errorf("%d warnings, and %d that it is over", lines.count(warning), lines.count("no more replicas run"))
			}
			return nil
		})
	}
	post(t, server, ring, func(replica.ID, replica.Word) {})
	redistest.Wait(t, func() error {
		if first.Count() != 2 {
			return fmt.Errorf("%d are known", first.Count())
		}
		return nil
	})
	said(0, 0)
	ctx, leave := context.WithCancel(t.Context())
	third := replica.NewMail(replica.MailConfig{Store: server.Store(t), Seal: ring, Logger: slog.New(slog.DiscardHandler)})
	var over sync.WaitGroup
	over.Go(func() { _ = third.Run(ctx) })
	said(1, 0)
	leave()
	over.Wait()
	said(1, 1)
}

// TestWhoStoppedWasToldInVain: for seconds after a replica had stopped, each that told all others something waited for it, and
// then did not know whether they had heard.
func TestWhoStoppedWasToldInVain(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	a := post(t, server, ring, func(replica.ID, replica.Word) {})
	b := replica.NewMail(replica.MailConfig{Store: server.Store(t), Seal: ring, Logger: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(t.Context())
	var over sync.WaitGroup
	over.Go(func() { _ = b.Run(ctx) })
	redistest.Wait(t, func() error {
		if !a.IsThere(b.Self()) {
			return errors.New("it is not there yet")
		}
		return nil
	})
	stop()
	over.Wait()
	if err := a.Tell(t.Context(), replica.Word{Kind: "news 1", Tenant: "acme"}); err != nil {
		t.Errorf("after it has stopped: %v", err)
	}
	if err := a.Send(t.Context(), b.Self(), replica.Word{Kind: "news 1"}); !errors.Is(err, replica.ErrGone) {
		t.Errorf("to it: got %v, want that it is gone", err)
	}
}
