package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
)

// growing is a server whose tool grow adds one more tool, and which says so only on the
// stream of that call, as servers made with FastMCP do. Its lists hold for so long that
// nobody reads them again unless told.
func growing(t *testing.T) *httptest.Server {
	t.Helper()
	var added, sessions atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &m); err != nil || m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		answer := func(
			result string,
		) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
		}
		switch m.Method {
		case "initialize":
			w.Header().Set(mcp.HeaderSessionID, fmt.Sprint("s", sessions.Add(1)))
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w,
				answer(
					`{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"growing","version":"1"}}`))
		case "tools/list":
			tools := `{"name":"grow","inputSchema":{"type":"object"}}`
			for i := range added.Load() {
				tools += fmt.Sprintf(`,{"name":"new%d","inputSchema":{"type":"object"}}`, i+1)
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer(`{"tools":[`+tools+`],"ttlMs":3600000}`))
		case "tools/call":
			if strings.Contains(string(body), `"grow"`) {
				added.Add(1)
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w,
				"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n"+
					"data: "+answer(`{"content":[{"type":"text","text":"done"}]}`)+"\n\n")
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer(`{}`))
		}
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server
}

// TestListsThatChangeInACallChangeAtAllReplicas has a server say in the session of a call
// that its tools have changed: only the replica of the call hears that. All others list
// and call the new tool soon.
func TestListsThatChangeInACallChangeAtAllReplicas(t *testing.T) {
	t.Parallel()
	server, redis := growing(t), redistest.Start(t)
	config := func(listen, operator string) string {
		text := fmt.Sprintf(keyed, listen, operator, "replicas: 3\nredis: {url: \"redis://"+redis.Address+
			"\", patience: 5s}\n")
		text = strings.Replace(text, "page_size: 1", "page_size: 100", 1)
		text = strings.Replace(text, "servers: [toolbox]", "servers: [toolbox, grower]", 1)
		return text + "  grower: {url: \"" + server.URL + "\", private_addresses: true}\n"
	}
	var all []*recorder
	for range 3 {
		all = append(all, startReplica(t, config))
	}
	for _, r := range all {
		eventually(t, "the server's tools are there",
			func() bool { return strings.Contains(r.list("").body, "grower__grow") })
	}
	for i, r := range all {
		session, tool := r.session(t), fmt.Sprintf("grower__new%d", i+1)
		got := r.post(
			`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"grower__grow","arguments":{}}}`,
			mcp.HeaderSessionID, session)
		wantText(t, "the call", got, "done")
		for n, other := range all {
			eventually(t, fmt.Sprintf("replica %d lists what replica %d has heard of", n, i), func() bool {
				return strings.Contains(other.list("").body, tool)
			})
			wantText(t, "a call of it", other.call(tool, ""), "done")
		}
	}
}

// TestListsThatChangeWhileAReplicaIsGoneChangeThere has a replica be gone for the others
// for a while, in which both they and it hear of lists that have changed, and a third one
// comes.
func TestListsThatChangeWhileAReplicaIsGoneChangeThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub replicatest.Hub
		join := func() (*replicatest.Member, *relisting, *[]string) {
			var read []string
			m := hub.Join()
			r := newRelisting(m, func(server string) { read = append(read, server) },
				func() { read = append(read, "all") })
			ctx, stop := context.WithCancel(t.Context())
			var over sync.WaitGroup
			over.Go(func() { _ = r.run(ctx) })
			t.Cleanup(func() { stop(); over.Wait() })
			return m, r, &read
		}
		member, gone, goneRead := join()
		_, there, thereRead := join()
		hub.Leave(member)
		there.add("crm")
		gone.add("wiki")
		<-time.After(2 * time.Second)
		_, _, newRead := join()
		hub.Rejoin(member)
		member.Return()
		time.Sleep(2 * time.Second)
		synctest.Wait() // what is told in this second has been heard
		for name, test := range map[string]struct {
			got  *[]string
			want string
		}{
			"who was gone": {goneRead, "all"}, "who was there": {thereRead, "wiki"}, "who came": {newRead, "wiki"},
		} {
			if !slices.Contains(*test.got, test.want) {
				t.Errorf("%s read the lists of %q, want %q among them", name, *test.got, test.want)
			}
		}
	})
}

// TestOnlyWhoDidNotTakeItIsToldAgain has a replica that takes a message only at the fifth
// time, and one that may lead nothing for a while: those that were told read no lists
// again meanwhile.
func TestOnlyWhoDidNotTakeItIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub replicatest.Hub
		here, there, deaf := hub.Join(), hub.Join(), hub.Join()
		var read []string
		newRelisting(there, func(server string) { read = append(read, server) }, func() {})
		tries := 0
		deaf.Handle(kindLists, func(context.Context, replica.ID, replica.Message) ([]byte, error) {
			if tries++; tries < 5 {
				return nil, errors.New("not taken")
			}
			return nil, nil
		})
		r := newRelisting(here, func(string) {}, func() {})
		ctx, stop := context.WithCancel(t.Context())
		var over sync.WaitGroup
		over.Go(func() { _ = r.run(ctx) })
		defer func() { stop(); over.Wait() }()
		wait := func() {
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		r.add("crm")
		wait()
		if !slices.Equal(read, []string{"crm"}) || tries != 5 {
			t.Errorf("read %q, and told the other one %d times, want crm once and 5", read, tries)
		}
		here.SetLeads(false)
		r.add("wiki")
		wait()
		if !slices.Equal(read, []string{"crm", "wiki"}) {
			t.Errorf("told by who may lead nothing: read %q, want wiki once", read)
		}
		here.SetLeads(true)
		wait()
		if !slices.Equal(read, []string{"crm", "wiki", "wiki"}) {
			t.Errorf("when all are known there again: read %q, want wiki once more", read)
		}
	})
}
