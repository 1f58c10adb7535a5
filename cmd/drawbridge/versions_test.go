package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// The tests in this file run this version beside a later one. There is none yet, so it is
// made: the program is built from the same sources with a few lines replaced, as somebody
// might change them. It needs no history, only the go command.

// edit replaces one text in a file of the repository.
type edit struct{ file, old, new string }

// additions are what a later version may add to what it shares, without any further care.
func additions() []edit {
	return []edit{
		{
			"server/ticket/ticket.go", "return append(out, text...)",
			"return append(append(out, text...), 1, 2, 3)",
		},
		{
			"internal/gateway/list.go", "AppendUint32(plain, uint32(last)))",
			"AppendUint64(plain, uint64(last)<<32))",
		},
		{"internal/allot/grant.go", "string.format('%d %d %d', ", "string.format('%d %d %d and more', "},
		{
			"server/legacy/listeners.go", "Parts: []string{string(l.Key[:]), epochText(epoch)},",
			"Parts: []string{string(l.Key[:]), epochText(epoch), \"more\"},",
		},
		{
			"server/sessions/lead.go", "facts = make(map[string]string)",
			"facts = map[string]string{\"more\": \"of a later version\"}",
		},
	}
}

// formatChanges are those of a version that writes what this one cannot read, although no
// version before it could. It reads the sessions of this one.
func formatChanges() []edit {
	return []edit{
		{"internal/replica/replica.go", "const Formats = 2", "const Formats = 3"},
		{"server/ticket/ticket.go", "ticketVersion = 4", "ticketVersion = 5"},
		{"server/ticket/ticket.go", "data[0] != ticketVersion", "data[0] != ticketVersion && data[0] != 4"},
		{"internal/gateway/state.go", `purposeState = "requestState 3"`, `purposeState = "requestState 4"`},
	}
}

// builtWith builds the program with these edits, and returns its path.
func builtWith(t *testing.T, edits []edit) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir, texts := t.TempDir(), make(map[string]string)
	for _, e := range edits {
		file := filepath.Join(root, e.file)
		if texts[file] == "" {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[file] = string(text)
		}
		if strings.Count(texts[file], e.old) != 1 {
			t.Fatalf("%s has %q not once; has it changed?", e.file, e.old)
		}
		texts[file] = strings.Replace(texts[file], e.old, e.new, 1)
	}
	if testing.Short() {
		t.Skip("another version is compiled and runs beside this one: make nightly")
	}
	var overlay struct{ Replace map[string]string }
	overlay.Replace = make(map[string]string)
	for file, text := range texts {
		name := filepath.Join(dir, fmt.Sprint(len(overlay.Replace), ".go"))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[file] = name
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "drawbridge")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-overlay",
		filepath.Join(dir, "overlay.json"), "-o", program, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, bytes.TrimSpace(out))
	}
	return program
}

// TestAVersionThatAddsRunsBesideThisOne uses all that clients carry from one to the
// other, both ways; then it replaces one process after the other, forth and back, while a
// session and a parked call go on.
func TestAVersionThatAddsRunsBesideThisOne(t *testing.T) {
	t.Parallel()
	later := builtWith(t, additions())
	p := startBuilds(t, later)
	p.carries(t, p.a, p.b, "a")
	p.carries(t, p.b, p.a, "b")
	made := 0
	for i := range 24 {
		if got := []*recorder{p.a, p.b}[i%2].call("asker__few", ""); strings.Contains(got.body,
			"one of few") {
			made++
		} else if !strings.Contains(got.body, "DB-LIMIT-TOOL") {
			t.Errorf("call %d of few: got %v", i, got)
		}
	}
	// one user takes half at one replica and two thirds over all; the rest is left to
	// others
	if made < 5 || made > 6 {
		t.Errorf("%d calls were made of the 5 or 6 that both together allow one user", made)
	}

	session := p.a.askable(t)
	for i, step := range []struct {
		leaves, stays *recorder
		becomes       string
	}{{p.a, p.b, later}, {p.b, p.a, ""}, {p.a, p.b, ""}} {
		parked := p.calls.Load() + 1
		asked := step.leaves.call("asker__twice", repeat(t, step.stays.call("asker__twice", ""), "one"))
		step.leaves.becomes(t, step.becomes)
		p.alive(t, step.leaves)
		for _, r := range []*recorder{step.leaves, step.stays} {
			if got := r.ping(session); got.status != http.StatusOK {
				t.Errorf("step %d: a session of the first process: got %v", i, got)
			}
		}
		wantText(t, fmt.Sprintf("step %d: a call parked at who stayed", i), step.leaves.call("asker__twice",
			repeat(t, asked, "two")), fmt.Sprintf("call %d: one two", parked))
	}
}

// alive waits until a process that has begun anew has the tools of the server.
func (p *processes) alive(t *testing.T, r *recorder) {
	t.Helper()
	eventually(t, "the server's tools are there", func() bool {
		return strings.Contains(r.call("asker__plain", "").body, "call ")
	})
}

// carries takes all that a client can get at one process to the other.
func (p *processes) carries(t *testing.T, from, to *recorder, key string) {
	t.Helper()
	if got := to.list(from.first(t)); !strings.Contains(got.body, `"tools"`) {
		t.Errorf("a cursor: got %v", got)
	}
	kept := from.call("asker__plain", "", "Idempotency-Key", `"`+key+`"`)
	if got := to.call("asker__plain", "", "Idempotency-Key", `"`+key+`"`); got.body != kept.body ||
		kept.status != http.StatusOK {
		t.Errorf("an answer that was kept: got %v, want %v", got, kept)
	}
	asked := from.call("asker__twice", "")
	asked = to.call("asker__twice", repeat(t, asked, "one"))
	wantText(t, "a parked call", from.call("asker__twice", repeat(t, asked, "two")), ": one two")

	session := from.askable(t)
	ctx, leave := context.WithCancel(t.Context())
	lines := from.reads(ctx, t, http.MethodPost,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"asker__twice","arguments":{}}}`,
		mcp.HeaderSessionID, session)
	event, question := lineWith(t, lines, "id: "), lineWith(t, lines, `"elicitation/create"`)
	leave()
	lines = to.reads(t.Context(), t, http.MethodGet, "", mcp.HeaderSessionID, session, mcp.HeaderLastEventID,
		strings.TrimPrefix(event, "id: "))
	if again := lineWith(t, lines, `"elicitation/create"`); again != question {
		t.Errorf("resumed: got %s, want %s", again, question)
	}
	to.answer(t, session, question, "uno")
	from.answer(t, session, lineWith(t, lines, `"elicitation/create"`), "due")
	if got := lineWith(t, lines, `"id":7`); !strings.Contains(got, ": uno due") {
		t.Errorf("the stream ends with %s, want the result", got)
	}
	if got := to.end(session); got != http.StatusNoContent {
		t.Errorf("DELETE: got %d", got)
	}
	for _, r := range []*recorder{from, to} {
		if got := r.ping(session); got.status != http.StatusNotFound {
			t.Errorf("after DELETE: got %v, want 404", got)
		}
	}
}

// end ends a session, and returns the status.
func (r *recorder) end(session string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	request, err := r.request(ctx, http.MethodDelete, r.url, "", []string{mcp.HeaderSessionID, session})
	if err != nil {
		return 0
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}

// TestAVersionThatChangesFormatsRunsBesideThisOne has a later version write what this one
// cannot read. No client gives up what goes on there, as long as one of that version
// runs; when it is gone, and this version is back, the client is told.
func TestAVersionThatChangesFormatsRunsBesideThisOne(t *testing.T) {
	t.Parallel()
	p := startBuilds(t, builtWith(t, formatChanges()))
	ours, theirs := p.a.session(t), p.b.session(t)
	asked := p.b.call("asker__twice", "")
	again := repeat(t, asked, "one")
	for range 3 {
		for _, r := range []*recorder{p.a, p.b} {
			if got := r.ping(ours); got.status != http.StatusOK {
				t.Errorf("a session of this version: got %v", got)
			}
		}
		if got := p.b.ping(theirs); got.status != http.StatusOK {
			t.Errorf("a session of the later version, there: got %v", got)
		}
		if got := p.a.ping(theirs); got.status != http.StatusServiceUnavailable || got.retry == "" ||
			!strings.Contains(got.body, "DB-REPLICAS") {
			t.Errorf("a session of the later version, here: got %v, want 503 with Retry-After", got)
		}
		if got := p.a.end(theirs); got != http.StatusServiceUnavailable {
			t.Errorf("its DELETE here: got %d, want 503", got)
		}
		wantText(t, "a state of the later version, here", p.a.call("asker__twice", again), "DB-REPLICAS")
	}
	asked = p.b.call("asker__twice", again)
	wantText(t, "there", p.b.call("asker__twice", repeat(t, asked, "two")), "call 1: one two")

	p.b.becomes(t, "")
	eventually(t, "the client of a session that nobody can read is told to open another", func() bool {
		got := p.a.ping(theirs)
		if got.status != http.StatusServiceUnavailable && got.status != http.StatusNotFound {
			t.Fatalf("got %v", got)
		}
		return got.status == http.StatusNotFound
	})
	for _, r := range []*recorder{p.a, p.b} {
		if got := r.ping(ours); got.status != http.StatusOK {
			t.Errorf("a session of this version, after the way back: got %v", got)
		}
	}
}
