package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// TestProcessesShareASecuredMaster has two processes that find the master through a
// sentinel, over TLS with certificates on both sides, as the user of the operator's page.
// Then the master is killed.
func TestProcessesShareASecuredMaster(t *testing.T) {
	dir := t.TempDir()
	w := redistest.StartSecure(t, dir, slices.Concat([]string{"--user", "drawbridge", "on", ">first"},
		redistest.Rule(t))...)
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	redis := fmt.Sprintf(
		"{url: %q, user: drawbridge, password_file: %q, ca_file: %q, certificate_file: %[3]q, certificate_key_file: %q, patience: 10s}",
		w.Sentinel.URL(), password, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	shareAll(t, redis, func() { w.FailOver(t) })
}

// TestProcessesShareACluster has two processes that share a cluster. Then the slot of the
// tenant moves to another node.
func TestProcessesShareACluster(t *testing.T) {
	c := redistest.StartCluster(t)
	shareAll(t, fmt.Sprintf("{url: %q, patience: 10s}", c.URL()), func() {
		c.Exec(t, "SCRIPT", "FLUSH")
		c.Move(t, "db2:{acme}:")
		c.Exec(t, "CLIENT", "KILL", "TYPE", "normal")
	})
}

// shareAll leads two processes through what they share, before and after a fault.
func shareAll(t *testing.T, redis string, fault func()) {
	t.Helper()
	more := "replicas: 2\nredis: " + redis + "\n"
	a, b := startKeyed(t, more), startKeyed(t, more)
	ended, kept := a.open(t), a.open(t)
	b.pings(t, ended, http.StatusOK)
	b.pings(t, kept, http.StatusOK)
	once := func(r *recorder) (o outcome) {
		t.Helper()
		const params = `"name":"toolbox__current_time","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
		eventually(t, "a call with a key is answered", func() bool {
			o = r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+params+`}}`,
				mcp.HeaderProtocolVersion, "2026-07-28",
				mcp.HeaderMethod, "tools/call", mcp.HeaderName, "toolbox__current_time", "Idempotency-Key",
				`"one"`)
			return o.status == http.StatusOK
		})
		return o
	}
	first := once(a)
	a.closes(t, ended)
	for i, r := range []*recorder{a, b} {
		r.pings(t, ended, http.StatusNotFound)
		if got := once(r); got != first {
			t.Errorf("process %d makes a call again: got %v, want %v", i, got, first)
		}
	}
	fault()
	for i, r := range []*recorder{b, a} {
		r.pings(t, kept, http.StatusOK)
		r.pings(t, ended, http.StatusNotFound)
		r.ready(t, http.StatusOK, `"redis":"up"`)
		if got := once(r); got != first {
			t.Errorf("after the fault process %d makes a call again: got %v, want %v", i, got, first)
		}
	}
	later := b.open(t)
	a.pings(t, later, http.StatusOK)
	a.closes(t, later)
	b.pings(t, later, http.StatusNotFound)
}

// open opens a session, and returns the headers of it.
func (r *recorder) open(t *testing.T) []string {
	t.Helper()
	var opened outcome
	eventually(t, "a session is opened", func() bool {
		opened = r.post(
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
		return opened.status == http.StatusOK
	})
	headers := []string{mcp.HeaderSessionID, opened.body, mcp.HeaderProtocolVersion, "2025-11-25"}
	r.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, headers...)
	return headers
}

// pings uses a session until the answer is not 503, and expects it to be that one.
func (r *recorder) pings(t *testing.T, session []string, want int) {
	t.Helper()
	var got outcome
	eventually(t, "Redis answers", func() bool {
		got = r.post(`{"jsonrpc":"2.0","id":2,"method":"ping"}`, session...)
		return got.status != http.StatusServiceUnavailable
	})
	if got.status != want {
		t.Errorf("a ping: got %v, want %d", got, want)
	}
}

// closes ends a session, and returns when that is done.
func (r *recorder) closes(t *testing.T, session []string) {
	t.Helper()
	eventually(t, "the session is ended", func() bool {
		request, err := r.request(t.Context(), http.MethodDelete, r.url, "", session)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		response.Body.Close()
		// which it is after a DELETE that was answered with 503
		return response.StatusCode < 300 || response.StatusCode == http.StatusNotFound
	})
}
