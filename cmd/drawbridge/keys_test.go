package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

// keyed is the config of a replica whose lists have two pages, so that a client carries a
// cursor from one to the other.
const keyed = `listen: %s
operator: %s
sessions: {keys_file: keys}
%slists: {page_size: 1}
issuers:
  - {issuer: "https://login.example/", hmac_secret_file: secret, algorithms: [HS256], audiences: [us], tenant: acme}
tenants:
  acme: {servers: [toolbox], rules: [{allow: ["*"]}], limits: {requests: {rate: 100000, burst: 100000}}}
servers:
  toolbox: {builtin: [calculate, current_time]}
`

// keyLines returns a keys_file with these keys, and the ids of those.
func keyLines(t *testing.T, fills ...byte) (text string, ids []string) {
	t.Helper()
	for _, fill := range fills {
		secret := bytes.Repeat([]byte{fill}, seal.KeySize)
		text += base64.StdEncoding.EncodeToString(secret) + "\n"
		ring, err := seal.NewRing(secret)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, ring.IDs()...)
	}
	return text, ids
}

// startKeyed starts a replica; more is what its config has besides.
func startKeyed(t *testing.T, more string) *recorder {
	t.Helper()
	return startReplica(t, func(listen,
		operator string,
	) string {
		return fmt.Sprintf(keyed, listen, operator, more)
	})
}

// startReplica starts a replica with one key and that config, and waits until it is
// ready.
func startReplica(t *testing.T, config func(listen, operator string) string) *recorder {
	t.Helper()
	return startBuild(t, "", config)
}

// startBuild is startReplica for another build of the program.
func startBuild(t *testing.T, program string, config func(listen, operator string) string) *recorder {
	t.Helper()
	r := &recorder{directory: t.TempDir(), program: program}
	var ports [2]string
	for i := range ports {
		address, err := freeport.Address()
		if err != nil {
			t.Fatal(err)
		}
		ports[i] = address
	}
	text, _ := keyLines(t, 1)
	r.save(t, "keys", text)
	r.save(t, "secret", "f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99")
	r.save(t, "drawbridge.yaml", config(ports[0], ports[1]))
	r.url, r.operator = "http://"+ports[0]+"/mcp", ports[1]
	r.token = r.signFor(t, "acme")
	r.begin(t)
	return r
}

// begin starts the process in its directory, and waits until it is ready.
func (r *recorder) begin(t *testing.T) {
	t.Helper()
	r.start(t, func(r *recorder) { r.process.Dir = r.directory })
	r.ready(t, http.StatusOK, "")
}

// becomes replaces the process by another build of the program, at the same address.
func (r *recorder) becomes(t *testing.T, program string) {
	t.Helper()
	r.stops(t)
	r.program = program
	r.begin(t)
}

// rotate saves the keys, and waits until the process says that they are in force.
func (r *recorder) rotate(t *testing.T, fills ...byte) {
	t.Helper()
	text, ids := keyLines(t, fills...)
	r.save(t, "keys", text)
	r.hasKeys(t, ids)
}

func (r *recorder) hasKeys(t *testing.T, ids []string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%v are in force", ids), func() bool {
		_, text := fetched("http://" + r.operator + "/metrics")
		return strings.Count(text, "drawbridge_seal_keys{") == len(ids) &&
			strings.Contains(text, fmt.Sprintf(`{key="%s",use="seal"} 1`, ids[0])) &&
			(len(ids) < 2 || strings.Contains(text, fmt.Sprintf(`{key="%s",use="open"} 1`, ids[1])))
	})
}

// list asks for the tools behind the cursor, in a request that needs no session.
func (r *recorder) list(cursor string) outcome {
	params := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	if cursor != "" {
		params += `,"cursor":"` + cursor + `"`
	}
	return r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+params+`}}`,
		mcp.HeaderProtocolVersion, "2026-07-28", mcp.HeaderMethod, "tools/list")
}

var nextCursor = regexp.MustCompile(`"nextCursor":"([^"]+)"`)

// first returns the cursor at the end of the first page.
func (r *recorder) first(t *testing.T) string {
	t.Helper()
	got := r.list("")
	found := nextCursor.FindStringSubmatch(got.body)
	if found == nil {
		t.Fatalf("the first page: %v, want a cursor", got)
	}
	return found[1]
}

func (r *recorder) session(t *testing.T) string {
	t.Helper()
	opened := r.post(
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	if opened.status != http.StatusOK {
		t.Fatalf("initialize: %v", opened)
	}
	return opened.body
}

func (r *recorder) ping(session string) outcome {
	return r.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, mcp.HeaderSessionID, session)
}

// crosses pages through a list that begins at one replica and ends at the other, until
// done is closed.
func crosses(t *testing.T, from, to *recorder, session string, done <-chan struct{}, rounds *atomic.Int64) {
	for {
		select {
		case <-done:
			return
		default:
		}
		got := from.list("")
		found := nextCursor.FindStringSubmatch(got.body)
		if found == nil {
			t.Errorf("the first page: %v, want a cursor", got)
			return
		}
		if got := to.list(found[1]); !strings.Contains(got.body, "current_time") {
			t.Errorf("the second page at the other replica: %v", got)
			return
		}
		if got := from.ping(session); got.status != http.StatusOK {
			t.Errorf("a session: %v, want 200", got)
			return
		}
		rounds.Add(1)
	}
}

// TestKeysRotateUnderLoadWithoutARestart takes two processes through a rotation, step by
// step, under load: nothing that one has sealed is refused, by itself or by the other.
// What the old key has sealed is, once that is gone.
func TestKeysRotateUnderLoadWithoutARestart(t *testing.T) {
	a, b := startKeyed(t, ""), startKeyed(t, "")
	oldCursor, oldSession := a.first(t), a.session(t)
	var rounds atomic.Int64
	var group sync.WaitGroup
	done := make(chan struct{})
	bySession := b.session(t)
	group.Go(func() { crosses(t, a, b, oldSession, done, &rounds) })
	group.Go(func() { crosses(t, b, a, bySession, done, &rounds) })
	for _, fills := range [][]byte{{1, 2}, {2, 1}} {
		for _, r := range []*recorder{a, b} {
			r.rotate(t, fills...)
			so := rounds.Load()
			eventually(t, "calls go on", func() bool { return rounds.Load() > so+4 || t.Failed() })
		}
	}
	close(done)
	group.Wait()
	if got := b.list(oldCursor); !strings.Contains(got.body, "current_time") {
		t.Errorf("a cursor of the old key while it is there: %v", got)
	}
	newSession := a.session(t)
	a.rotate(t, 2)
	if got := a.list(oldCursor); !strings.Contains(got.body, "DB-CURSOR") {
		t.Errorf("a cursor of a key that is gone: %v, want DB-CURSOR", got)
	}
	if got := a.ping(oldSession); got.status != http.StatusNotFound ||
		!strings.Contains(got.body, "DB-SESSION") {
		t.Errorf("a session of a key that is gone: %v, want 404", got)
	}
	if got := a.ping(newSession); got.status != http.StatusOK {
		t.Errorf("a session of the new key: %v, want 200", got)
	}
}

// TestBadKeysAreRefusedAtAReload saves a keys_file that is damaged: the keys before it
// stay, and /readyz says where the fault is.
func TestBadKeysAreRefusedAtAReload(t *testing.T) {
	r := startKeyed(t, "")
	_, ids := keyLines(t, 1)
	session := r.session(t)
	r.save(t, "keys", "weak\n")
	r.ready(t, http.StatusOK, "keys_file: line 1: a key is the base64 text of 32 bytes")
	r.hasKeys(t, ids)
	if got := r.ping(session); got.status != http.StatusOK {
		t.Errorf("a session: %v, want 200", got)
	}
	// /readyz says it a moment before the log does
	eventually(t, "the log says that the config is refused",
		func() bool { return strings.Contains(r.log(), "config refused") })
	if strings.Contains(r.log(), "weak") {
		t.Errorf("the log has what is in the file")
	}
}

// TestProcessesMakeACallOnce sends a call with a key to two processes that share a Redis.
// The second gives the answer of the first.
func TestProcessesMakeACallOnce(t *testing.T) {
	server := redistest.Start(t)
	more := "replicas: 2\nredis: {url: \"" + server.URL() + "\", patience: 5s}\n"
	a, b := startKeyed(t, more), startKeyed(t, more)
	call := func(r *recorder) outcome {
		const params = `"name":"toolbox__calculate","arguments":{"expression":"6*7"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
		return r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+params+`}}`,
			mcp.HeaderProtocolVersion, "2026-07-28",
			mcp.HeaderMethod, "tools/call", mcp.HeaderName, "toolbox__calculate", "Idempotency-Key", `"one"`)
	}
	var first outcome
	eventually(t, "Redis is reached", func() bool { first = call(a); return first.status == http.StatusOK })
	if !strings.Contains(first.body, "42") {
		t.Fatalf("got %v, want the result", first)
	}
	var repeat outcome
	eventually(t, "Redis is reached by the other",
		func() bool { repeat = call(b); return repeat.status != http.StatusServiceUnavailable })
	if repeat != first {
		t.Errorf("at the other: got %v, want %v", repeat, first)
	}
	if _, text := fetched("http://" + b.operator + "/metrics"); strings.Contains(text,
		`drawbridge_calls_total{item="toolbox__calculate"`) {
		t.Error("the other made the call, too")
	}
}

// TestASessionCanEndAfterAReplicaHasStopped: a DELETE at another replica is answered with
// 204 soon after a process has stopped. For seconds the others waited for what that would
// say, and answered with 503.
func TestASessionCanEndAfterAReplicaHasStopped(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	more := "replicas: 2\nredis: {url: \"" + server.URL() + "\", patience: 5s}\n"
	a, b := startKeyed(t, more), startKeyed(t, more)
	session := a.session(t)
	if got := b.ping(session); got.status != http.StatusOK {
		t.Fatalf("at the other: got %v", got)
	}
	b.stops(t)
	if got := a.end(session); got != http.StatusNoContent {
		t.Errorf("DELETE: got %d, want 204", got)
	}
	if all := server.Exec(t, "HVALS", "db2:replicas"); strings.Count(all, " lives ") != 1 ||
		strings.Count(all, " left ") != 1 {
		t.Errorf("got the entries %q of who lives, want one, and one that has left", all)
	}
}
