package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
)

// scenario is what happens to a few sessions at two replicas, and what must come of it.
type scenario struct {
	replicas [2]eventlog.Log
	run      string // part of the names of sessions, so that each story has its own
	streams  map[string]*line
	ended    map[string]bool
}

// line is a stream: its events in order.
type line struct {
	ids, data []string
	last      bool
	dropped   int // events that are gone
	home      int // the replica that began it; -1: none did
}

func (s *scenario) key(name string) eventlog.Key {
	return eventlog.Key{Name: s.run + name, Owner: share.User{TenantID: "acme", Subject: "alice"}}
}

// pick draws a session, a stream and a replica, and returns what is known of the stream.
func (s *scenario) pick(t *rapid.T) (in, stream string, at int, known *line) {
	in, stream = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "session"),
		rapid.SampledFrom([]string{"p1", "p2", "q1"}).Draw(t, "stream")
	at = rapid.IntRange(0, 1).Draw(t, "replica")
	return in, stream, at, s.streams[in+stream]
}

func (s *scenario) begin(t *rapid.T) {
	in, stream, at, known := s.pick(t)
	if stream == "q1" || known != nil && (known.home != at || known.last) {
		t.Skip("a stream is begun by one replica, before anything else")
	}
	lasting, err := s.replicas[at].Begin(context.Background(), s.key(in), stream)
	switch {
	case s.ended[in] != errors.Is(err, eventlog.ErrUnknown) || !s.ended[in] && (err != nil || !lasting):
		t.Fatalf("begin %s of %s: got %t, %v", stream, in, lasting, err)
	case err == nil && known == nil:
		s.streams[in+stream] = &line{home: at}
	}
}

func (s *scenario) append(t *rapid.T) {
	in, stream, at, known := s.pick(t)
	if known == nil && stream != "q1" {
		t.Skip("it has not begun")
	}
	if known != nil && known.home >= 0 {
		at = known.home // what others append, it hears of later
	}
	data, last := rapid.StringMatching(`[a-z]{0,5}`).Draw(t, "data"), rapid.IntRange(0, 5).Draw(t,
		"last") == 0
	id, err := s.replicas[at].Append(context.Background(), s.key(in), stream, []byte(data), last)
	if refused := s.ended[in] || known != nil && known.last; refused != (err != nil) ||
		refused != errors.Is(err, eventlog.ErrUnknown) {
		t.Fatalf("append to %s of %s: got %q, %v", stream, in, id, err)
	}
	if err != nil {
		return
	}
	if known == nil {
		known = &line{home: -1}
		s.streams[in+stream] = known
	}
	known.ids, known.data, known.last = append(known.ids, id), append(known.data, data), last
}

func (s *scenario) read(t *rapid.T) {
	in, stream, at, known := s.pick(t)
	if known == nil {
		t.Skip("it has not begun")
	}
	n := rapid.IntRange(0, len(known.ids)).Draw(t, "after")
	after := eventlog.FirstID(stream)
	if n > 0 {
		after = known.ids[n-1]
	}
	refused := s.ended[in] || n < known.dropped
	events, more, err := s.replicas[at].Read(context.Background(), s.key(in), stream, after)
	if refused != errors.Is(err, eventlog.ErrUnknown) || !refused && err != nil {
		t.Fatalf("read %s of %s after %s: got %v, want refused %t", stream, in, after, err, refused)
	}
	if _, found := s.replicas[at].Find(context.Background(), s.key(in), after); (found != nil) != refused {
		t.Fatalf("find %s of %s: got %v, want refused %t", after, in, found, refused)
	}
	if refused {
		return
	}
	var got, want []string
	for _, e := range events {
		got = append(got, fmt.Sprintf("%s %s %t %t", e.ID, e.Data, e.Last, e.LocalOnly))
	}
	for i := n; i < len(known.ids); i++ {
		want = append(want, fmt.Sprintf("%s %s %t false", known.ids[i], known.data[i], known.last &&
			i == len(known.ids)-1))
	}
	if strings.Join(got, ",") != strings.Join(want, ",") || more == known.last {
		t.Fatalf("read %s of %s after %s: got %v, more %t; want %v, more %t", stream, in, after, got, more,
			want, !known.last)
	}
}

func (s *scenario) drop(t *rapid.T) {
	in, stream, at, known := s.pick(t)
	if known == nil || known.home != at || len(known.ids) == 0 {
		t.Skip("there is nothing of this replica")
	}
	n := rapid.IntRange(1, len(known.ids)).Draw(t, "through")
	s.replicas[at].Drop(context.Background(), s.key(in), stream, known.ids[n-1])
	known.dropped = max(known.dropped, n)
	eventually(t, "what was dropped is dropped for the other replica", func() bool {
		_, err := s.replicas[1-at].Find(context.Background(), s.key(in), eventlog.FirstID(stream))
		return errors.Is(err, eventlog.ErrUnknown)
	})
	if known.dropped > 1 {
		eventually(t, "all that was dropped is dropped for the other replica", func() bool {
			_, err := s.replicas[1-at].Find(context.Background(), s.key(in), known.ids[known.dropped-2])
			return errors.Is(err, eventlog.ErrUnknown)
		})
	}
}

func (s *scenario) end(t *rapid.T) {
	in, _, at, _ := s.pick(t)
	if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
		t.Skip("not yet")
	}
	s.replicas[at].End(s.key(in))
	s.replicas[1-at].End(s.key(in))
	s.ended[in] = true
}

// stories tells stories of two replicas, which may be one.
func stories(t *testing.T, a, b eventlog.Log) {
	t.Helper()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		s := &scenario{
			replicas: [2]eventlog.Log{a, b}, run: fmt.Sprint("s", run, "x"),
			streams: make(map[string]*line), ended: make(map[string]bool),
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin": s.begin, "append": s.append, "append2": s.append, "read": s.read, "drop": s.drop,
			"end": s.end,
		})
	})
}

func TestStoriesOfOneReplica(t *testing.T) {
	t.Parallel()
	l := eventlog.NewMemory(eventlog.MemoryConfig{})
	stories(t, l, l)
}

func TestStoriesOfTwoReplicas(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	stories(t, h.join(t), h.join(t))
	if n := h.refused.Load(); n != 0 {
		t.Errorf("%d values of replicas were taken for forged ones", n)
	}
}
