package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// act is one way in which replicas come and go. The first three replicas run when it
// begins and when it ends.
type act struct {
	name, done string // for the report
	// how many requests go through at least while it is played, in percent of those that
	// are wanted with restarts
	share   int
	deadly  bool // replicas are killed
	another bool // it needs another program of the gateway
	pass    pass
}

// pass is a part of an act.
type pass func(ctx context.Context, s *stage)

// inOrder does one part after the other, as long as it can.
func inOrder(parts ...pass) pass {
	return func(ctx context.Context, s *stage) {
		for _, do := range parts {
			do(ctx, s)
		}
	}
}

func work(ctx context.Context, s *stage) {
	s.work(ctx)
}

// further starts replicas until that many run.
func further(all int) pass {
	return func(ctx context.Context, s *stage) {
		for len(s.Replicas) < all {
			world.For(ctx, stopTime, func(ctx context.Context) { s.Add(ctx) })
		}
		for _, r := range s.Replicas[:all] {
			if !r.Runs() {
				s.join(ctx, r)
			}
		}
		s.well(ctx)
	}
}

// acts are all ways. With restarts a tenth more requests go through than are wanted,
// without those of the other program, of the act without restarts and of that with kills.
var acts = []*act{
	{
		name: "none", done: "nothing, for comparison", share: 5,
		pass: work,
	},
	{
		name: "one after the other",
		done: "each of three replicas in turn: SIGTERM, exit 0, start, ready, and the next", share: 60,
		pass: oneByOne,
	},
	{
		name: "the new one first",
		done: "a fourth one is started, and each of the others is restarted while three run; then it goes", share: 18,
		pass: inOrder(further(replicas+1), oneByOne, newestLeaves),
	},
	{
		name: "more and fewer", done: "3, 5, 1 and 3 replicas, of which four leave at once", share: 12,
		pass: inOrder(further(world.Room), work, manyLeave, work, further(replicas)),
	},
	{name: "other configs", done: "each replica in turn gets another config by a reload or by a restart, and later the old one", share: 12, pass: reconfigured},
	{name: "other keys", done: "the three steps of a rotation of `sessions.keys_file`, and a restart after each; other clients come before the last step", share: 8, pass: rekeyed},
	{
		name: "another program",
		done: "each replica in turn is replaced by another program, and then each by this one", share: 5,
		another: true, pass: replaced,
	},
	{
		name: "kill -9",
		done: "each of three replicas in turn: SIGKILL, start, ready, and the next", share: 5, deadly: true,
		pass: struck,
	},
}

func oneByOne(ctx context.Context, s *stage) {
	for _, r := range s.fleet() {
		s.restart(ctx, r)
	}
}

func newestLeaves(ctx context.Context, s *stage) {
	s.leave(ctx, s.Replicas[replicas])
}

// manyLeave stops all replicas but one at once.
func manyLeave(ctx context.Context, s *stage) {
	leaving := s.Replicas[1:]
	s.restarts += len(leaving)
	world.For(ctx, stopTime, func(ctx context.Context) {
		each(leaving, func(r *world.Replica) { s.stopClean(ctx, r) })
	})
}

// reconfigured gives each replica another config while the others have another one still:
// the first by a reload, the second by a restart, and so on; and then the old one, the
// last first.
func reconfigured(ctx context.Context, s *stage) {
	for i := range 2 * replicas {
		at := min(i, 2*replicas-1-i)
		s.reconfigure(ctx, s.Replicas[at], otherwise, at%2 == i/replicas)
	}
}

// otherwise gives a config a further server, or takes it away.
func otherwise(config string) string {
	const added = "  added: {builtin: [calculate]}\n"
	return page.Either(strings.Contains(config, added), instead(added, ""),
		below("servers", strings.TrimSpace(added)))(config)
}

// reconfigure changes the config of a replica, while it runs or between its stop and its
// start.
func (s *stage) reconfigure(ctx context.Context, r *world.Replica, change func(config string) string,
	running bool,
) {
	if !running {
		s.leave(ctx, r)
	}
	world.For(ctx, stopTime, func(ctx context.Context) { r.Rewrite(ctx, change) })
	if !running {
		s.join(ctx, r)
	}
}

// rekeyed rotates the keys that seal, as docs/keys.md says: clients that have ids of the
// old key are gone before it ends.
func rekeyed(ctx context.Context, s *stage) {
	old, fresh := keysOf(s.Replicas[0]), newKey()
	for i, keys := range []string{old + fresh, fresh + old, fresh} {
		if keys == fresh {
			s.relieve(ctx)
		}
		rekey(ctx, s.Replicas, keys)
		s.restart(ctx, s.Replicas[i])
	}
}

const keysFile = "keys" // in the folder of a replica

// keysOf returns the keys of a replica.
func keysOf(r *world.Replica) string {
	return string(must.Have(os.ReadFile(filepath.Join(r.Dir, keysFile))))
}

// newKey returns the line of a key.
func newKey() string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // it never fails
	return base64.StdEncoding.EncodeToString(random[:]) + "\n"
}

// rekey gives one replica after the other these keys, and waits until it has taken them
// if it runs.
func rekey(ctx context.Context, some []*world.Replica, keys string) {
	for _, r := range some {
		world.For(ctx, patience, func(ctx context.Context) { r.Replace(ctx, keysFile, keys) })
	}
}

// replaced replaces each replica by the other program, and then each by this one.
func replaced(ctx context.Context, s *stage) {
	for _, program := range []string{s.previous, s.current} {
		for _, r := range s.fleet() {
			r.Program(program)
		}
		oneByOne(ctx, s)
	}
}

func struck(ctx context.Context, s *stage) {
	for _, r := range s.fleet() {
		s.work(ctx)
		s.strike(ctx, r)
		s.work(ctx)
		s.join(ctx, r)
	}
}
