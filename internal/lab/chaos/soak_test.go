package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// sound is a long run after which all is as it was.
func sound() *soak {
	const heap, rest = 8 << 20, 900 << 10 // by which a heap at rest may differ
	s := &soak{stage: stage{scene: &scene{World: &world.World{}}}, ends: map[string]int{}}
	for i := range replicas {
		s.Replicas = append(s.Replicas, &world.Replica{Name: fmt.Sprint("replica-", i)})
	}
	for i := range int64(4) {
		m := &moment{
			at: time.Duration(i) * 15 * time.Minute, lives: 15_000 * i,
			usage: map[string]world.Usage{},
			redis: holding{used: 3 << 20, kinds: map[string]kind{"replicas": {keys: 1}}},
		}
		for _, r := range s.Replicas {
			m.usage[r.Name] = world.Usage{
				Descriptors: 40, Goroutines: 70, Resident: 40 << 20,
				Heap: heap + rest*(i/2),
			}
		}
		s.moments = append(s.moments, m)
	}
	return s
}

// grow makes something more at a moment.
func (s *soak) grow(at int, r *world.Replica, by world.Usage) {
	u := s.moments[at].usage[r.Name]
	s.moments[at].usage[r.Name] = world.Usage{
		Descriptors: u.Descriptors + by.Descriptors, Goroutines: u.Goroutines + by.Goroutines,
		Resident: u.Resident + by.Resident, Heap: u.Heap + by.Heap,
	}
}

// TestALongRunHoldsOnlyIfNothingIsLostOrLeft judges runs of which each differs in one
// thing from one that holds.
func TestALongRunHoldsOnlyIfNothingIsLostOrLeft(t *testing.T) {
	const sessions = 15_000 // between the middle and the end
	killed := func(
		s *soak,
	) {
		s.inFlight, s.soon = map[ledger.Nonce]bool{1: true}, map[ledger.Nonce]bool{2: true}
	}
	for name, test := range map[string]struct {
		happens func(s *soak)
		wrong   string
	}{
		"nothing": {func(*soak) {}, ""},
		"calls fail at a kill": {func(s *soak) {
			killed(s)
			s.add(&ledger.Verdict{BrokenUnaudited: 2, Unrecorded: []ledger.Nonce{1, 2}},
				[]ledger.Failure{{Nonce: 1}, {Nonce: 2}})
		}, ""},
		"a call fails where nothing was killed": {func(
			s *soak,
		) {
			s.add(&ledger.Verdict{}, []ledger.Failure{{Nonce: 1}})
		}, "1 calls failed"},
		"a call fails that was not in flight": {func(s *soak) {
			killed(s)
			s.add(&ledger.Verdict{}, []ledger.Failure{{Nonce: 1}, {Nonce: 3}})
		}, "1 calls failed"},
		"a call is not on record": {
			func(s *soak) { s.add(&ledger.Verdict{BrokenUnaudited: 1}, nil) },
			"not on record",
		},
		"a call is not on record that was not in flight": {func(s *soak) {
			killed(s)
			s.add(&ledger.Verdict{BrokenUnaudited: 1, Unrecorded: []ledger.Nonce{3}}, nil)
		}, "not on record"},
		"a call has no stream": {
			func(s *soak) { s.add(&ledger.Verdict{Unstreamed: 1}, nil) },
			"without a stream",
		},
		"a call is executed twice": {
			func(s *soak) { s.add(&ledger.Verdict{Twice: 1}, nil) },
			"the oracle found 1",
		},
		"too few sessions": {func(s *soak) { s.lives = 1 }, "sessions were opened"},
		"each session leaves 100 bytes": {func(s *soak) {
			s.grow(1, s.longLived(), world.Usage{Heap: 900 << 10}) // so that there is no other difference
			s.grow(2, s.longLived(), world.Usage{Heap: 100 * sessions})
		}, "in the middle"},
		"each session leaves 100 bytes where a replica was replaced": {func(
			s *soak,
		) {
			s.grow(2, s.Replicas[0], world.Usage{Heap: 100 * sessions})
		}, ""},
		"a short run fills what fills up": {func(s *soak) {
			s.moments[1].at = 5 * time.Minute
			s.grow(2, s.longLived(), world.Usage{Heap: 100 * sessions})
		}, ""},
		"a heap is much larger": {func(
			s *soak,
		) {
			s.grow(2, s.Replicas[0], world.Usage{Heap: 8 << 20})
		}, "bytes in use"},
		"goroutines stay": {func(
			s *soak,
		) {
			s.grow(2, s.Replicas[0], world.Usage{Goroutines: 11})
		}, "goroutines"},
		"descriptors stay": {func(
			s *soak,
		) {
			s.grow(2, s.Replicas[0], world.Usage{Descriptors: 11})
		}, "descriptors"},
		"a key never ends": {
			func(s *soak) { s.overdue = []string{"session never ends: 1 keys"} },
			"for longer than it may",
		},
		"no key is found":              {func(s *soak) { s.moments[1].redis.kinds = nil }, "were not found"},
		"Redis keeps what is not kept": {func(s *soak) { s.moments[3].redis.used += 2 << 20 }, "Redis uses"},
	} {
		s := sound()
		test.happens(s)
		err := s.verdict()
		if test.wrong == "" && err != nil {
			t.Errorf("%s: got %v", name, err)
		}
		if test.wrong != "" && (!errors.Is(err, world.ErrBroken) ||
			!strings.Contains(err.Error(), test.wrong)) {
			t.Errorf("%s: got %v, want something with %q", name, err, test.wrong)
		}
	}
}

// TestKeysThatNeverEndAreNotTakenOut fills a Redis with keys as the gateway makes them,
// and with some as it must not.
func TestKeysThatNeverEndAreNotTakenOut(t *testing.T) {
	t.Parallel()
	store := redistest.StartOne(t)
	const day = "86400"
	good := [][]string{
		{"db2:{red}:session:a", "2220"},
		{"db2:{blue}:session:b", "60"},
		{"db2:{red}:once:c", "600"},
		{"db2:{red}:used:d", "660"},
	}
	others := [][]string{
		{"db2:generation", day},
		{"db2:pulse:e", day},
		{"db2:replicas", "10"},
		{"db2:{red}:stream:g:a", "30"},
		{"else", day},
	}
	for _, key := range append(good, others...) {
		store.Exec(t, "SET", key[0], "v", "EX", key[1])
	}
	if got := store.Exec(t, removal()...); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
	if got := store.Exec(t, "DBSIZE"); got != fmt.Sprint(len(others)) {
		t.Errorf("got %s keys left, want the %d that are none of the kinds", got, len(others))
	}
	for _, key := range []string{
		"db2:{red}:session:a", "db2:{blue}:session:b", "db2:{red}:stream:h:b",
		"db2:pulse:i",
	} {
		store.Exec(t, "SET", key, "v")
	}
	store.Exec(t, "SET", "db2:{red}:once:c", "v", "EX", "700")
	want := "once lives too long: 1 keys\npulse never ends: 1 keys\nsession never ends: 2 keys\nstream never ends: 1 keys"
	if got := store.Exec(t, removal()...); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := store.Exec(t, "EXISTS", "db2:{red}:session:a", "db2:{blue}:session:b",
		"db2:{red}:once:c"); got != "3" {
		t.Errorf("got %s keys left of three that do not end in time", got)
	}
}
