package replica

import (
	"context"
	"log/slog"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

// TestABeatUndidThatAReplicaHadLeft has beats come after a replica has said that it has ended: one that was on its way
// meanwhile, and those of whoever looks later. Others took it for there for five seconds more.
func TestABeatUndidThatAReplicaHadLeft(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store, key := server.Store(t), redis.CommonKey("replicas")
	open := func() *Mail {
		return NewMail(MailConfig{Store: store, Seal: seal.RandomRing(), Logger: slog.New(slog.DiscardHandler)})
	}
	for name, late := range map[string]func(m *Mail, beat func() error) error{
		"on its way": func(_ *Mail, beat func() error) error { return beat() },
		"a look":     func(m *Mail, _ func() error) error { return m.look(t.Context()) },
		"word":       func(m *Mail, _ func() error) error { return m.Tell(t.Context(), Word{Kind: "news 1"}) },
		"a look, and then one on its way": func(m *Mail, beat func() error) error {
			if err := m.look(t.Context()); err != nil {
				return err
			}
			return beat()
		},
	} {
		m, other := open(), open()
		if err := m.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := other.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !other.IsThere(m.id) {
			t.Fatalf("%s: the replica is not known before it leaves", name)
		}
		args := m.says()
		m.leave(context.Background())
		beat := func() error {
			_, err := beating.Run(t.Context(), store, []string{key}, args)
			return err
		}
		other.leave(context.Background()) // so that nobody has to hear the word
		if err := late(m, beat); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		watcher := open()
		if err := watcher.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if watcher.IsThere(m.id) {
			t.Errorf("%s: a replica that has left is there again", name)
		}
		watcher.leave(context.Background())
	}
}
