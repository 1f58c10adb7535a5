package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/once"
)

// monitor counts what clients ask of a server, or of all nodes of a cluster, for its
// tenants, by command and kind of key. What scripts do is part of one question, and what
// replicas ask by themselves is for no tenant.
// https://redis.io/docs/latest/commands/monitor/
type monitor struct {
	nodes []*redistest.Server

	mu    sync.Mutex // guards the fields below
	asked map[string]int
	marks map[string]int // at how many nodes
}

func watch(t *testing.T, server *redistest.Server) *monitor {
	t.Helper()
	m := &monitor{nodes: server.Nodes, asked: make(map[string]int), marks: make(map[string]int)}
	if m.nodes == nil {
		m.nodes = []*redistest.Server{server}
	}
	for _, node := range m.nodes {
		m.hear(t, node)
	}
	return m
}

// hear counts what is asked of one node until the test ends.
func (m *monitor) hear(t *testing.T, node *redistest.Server) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", node.Address)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(conn)
	for _, command := range []string{"AUTH admin admin", "MONITOR"} { // as redistest.Server.Admin does
		_, err = io.WriteString(conn, command+"\r\n")
		if said, _ := lines.ReadString('\n'); err != nil || said != "+OK\r\n" {
			t.Fatalf("%s: %q, %v", command, said, err)
		}
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			m.note(line)
		}
	}()
	t.Cleanup(func() { _ = conn.Close(); <-over })
}

var quoted = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)

// note counts a line of MONITOR.
func (m *monitor) note(line string) {
	if strings.Contains(line, " lua] ") {
		return
	}
	var words []string
	for _, found := range quoted.FindAllStringSubmatch(line, -1) {
		words = append(words, found[1])
	}
	name, key := strings.ToLower(words[0]), 1
	if name == "evalsha" {
		key = 3
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case name == "echo":
		m.marks[words[1]]++
	case len(words) <= key: // of a connection
	case strings.HasPrefix(words[key], "db2:{"):
		kind, _, _ := strings.Cut(strings.SplitN(words[key], "}:", 2)[1], ":")
		m.asked[name+" "+kind]++
	}
}

// since returns what was asked in all since it was called last, when all of that has
// come.
func (m *monitor) since(t *testing.T, mark string) map[string]int {
	t.Helper()
	for _, node := range m.nodes {
		node.Exec(t, "ECHO", mark)
	}
	eventually(t, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.marks[mark] == len(m.nodes)
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.asked)
}

func (m *monitor) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.asked)
}

// sharingAll has a replica share all that it can.
func sharingAll(t *testing.T) func(*world) {
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() { stop(); running.Wait() })
	return func(w *world) {
		answers := once.NewRedis(once.RedisConfig{
			Store: w.store, Seal: w.config.Seal, Others: w.config.Others, Quota: share.New(128 << 20),
		})
		w.config.Once = answers
		running.Go(func() { _ = answers.Run(ctx) })
	}
}

// TestTripsOfEachKind counts what each kind of request asks of Redis, with three
// replicas, beside its limits, which package ratelimit counts. A session has a record, a
// stream begins and takes its events one after the other (session), and nothing else is
// asked: what is more would cost each call its time.
//
// A replica that is kept from running for seconds is not known to the others any more,
// and looks at all sessions again; and an answer that takes a second becomes a stream.
// What was counted meanwhile says nothing, so all is counted anew then.
func TestTripsOfEachKind(t *testing.T) {
	t.Parallel()
	var returns atomic.Int64
	server, w, _ := onRedis(t, 3, sharingAll(t), func(w *world) {
		w.config.Others.OnReturn(func() { returns.Add(1) })
	})
	m := watch(t, server)
	base := w[0].serve(t)
	for round := range 20 {
		before := returns.Load()
		wrong, slow := wrongTrips(t, w, m, base, round)
		// in the first they may have yet to hear of each other
		if returns.Load() == before && (len(wrong) == 0 || round > 0 && !slow) {
			for _, one := range wrong {
				t.Error(one)
			}
			return
		}
	}
	t.Error("a replica came back, or an answer was slow, again and again while trips were counted")
}

// wrongTrips counts trips in sessions of its own, and tells which are not as they must
// be, and whether an answer may have become a stream.
func wrongTrips(t *testing.T, w []*world, m *monitor, base string, round int) (wrong []string, slow bool) {
	t.Helper()
	id := w[0].openAsking(t, mcp.Revision2511)
	looks := 0
	eventually(t, func() bool { // each knows the session, and that nothing was missed since it joined
		m.forget()
		for _, one := range w {
			wantStatus(t, "a ping", one.do(t, inSession("POST", id, pingBody)), http.StatusOK)
		}
		looks++
		return looks > 1 && len(m.since(t, fmt.Sprint(round, " looks ", looks))) == 0
	})
	n := 0
	inFlight := func(tool string) message {
		n++
		return inSession("POST", id,
			fmt.Sprintf(
				`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s","arguments":{"text":"x"},"_meta":{"progressToken":1}}}`, 100+n, tool))
	}
	ask := func(answering *world) {
		stream := call(t.Context(), t, base,
			inSession("POST", id, strings.Replace(askRoots, `"id":1`, fmt.Sprintf(`"id":%d`, 200+n), 1)))
		n++
		question := questionID.FindStringSubmatch(stream.until(t, `"id":"q`))
		wantStatus(t, "the answer", answering.do(t, answerTo(question[1], id)), http.StatusAccepted)
		stream.until(t, `"result"`)
	}
	key, opened := fmt.Sprint("k", round), ""
	for i, test := range []struct {
		what string
		do   func()
		want map[string]int
	}{
		{"a call, 2026-07-28", func() { w[0].do(t, modernCall("echo")) }, map[string]int{}},
		{"a call of an unknown tool", func() { w[0].do(t, modernCall("nothing")) }, map[string]int{}},
		{"a call, 2025-11-25", func() { w[1].do(t, inFlight("echo")) }, map[string]int{}},
		{
			"a call, 2025-11-25, with three notices", func() { w[1].do(t, inFlight("progress")) },
			map[string]int{"evalsha session": 5},
		},
		{
			"a question that is answered at its replica", func() { ask(w[0]) },
			map[string]int{"evalsha session": 3},
		},
		{
			"a question that is answered at another", func() { ask(w[1]) },
			map[string]int{"evalsha session": 3},
		},
		{"tools/list", func() {
			w[2].do(t, inSession("POST", id, `{"jsonrpc":"2.0","id":9,"method":"tools/list"}`))
		}, map[string]int{}},
		{
			"a call with a key", func() { w[0].do(t, keyedCall("echo", key)) },
			map[string]int{"evalsha once": 2},
		},
		{
			"the same at another", func() { w[1].do(t, keyedCall("echo", key)) },
			map[string]int{"evalsha once": 1},
		},
		{
			"a session opened", func() { opened = w[0].openAsking(t, mcp.Revision2511) },
			map[string]int{"evalsha session": 1},
		},
		{"its first use", func() { w[0].do(t, inSession("POST", opened, pingBody)) }, map[string]int{}},
		{
			"its first use at another", func() { w[1].do(t, inSession("POST", opened, pingBody)) },
			map[string]int{},
		},
		{
			"its second use there", func() { w[1].do(t, inSession("POST", opened, pingBody)) },
			map[string]int{},
		},
		{
			"its end at a third", func() { w[2].do(t, inSession("DELETE", opened, "")) },
			map[string]int{"evalsha session": 1},
		},
		{
			"a message to it after that", func() { w[0].do(t, inSession("POST", opened, pingBody)) },
			map[string]int{"hgetall session": 1},
		},
	} {
		m.since(t, fmt.Sprint(round, " before ", i))
		m.forget()
		began := time.Now()
		test.do()
		slow = slow || time.Since(began) > time.Second
		got, try := map[string]int{}, 0
		eventually(t, func() bool { // what is beside the path comes a little later
			try++
			got = m.since(t, fmt.Sprint(round, " after ", i, " ", try))
			return cmp.Equal(got, test.want) || try > 50
		})
		if diff := cmp.Diff(test.want, got); diff != "" {
			wrong = append(wrong, fmt.Sprintf("%s (-want +got):\n%s", test.what, diff))
		}
	}
	return wrong, slow
}
