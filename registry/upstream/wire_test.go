package upstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// script is a server over Streamable HTTP that answers as a file says. A line "== era
// method name" begins what answers those requests, and has "again" behind it for a call's
// repeat; then come the status and media type, perhaps a header, and the messages, one a
// line. $id is the request's id. At "wait" the server waits for an answer to the question
// before; $answers is what it was, or what a repeat brought. A message behind "aside"
// goes to the session's own stream, with $token for the request's progress token, and
// "pause" lets a second pass.
type script struct {
	*httptest.Server
	parts map[string][]string

	mu      sync.Mutex // guards the fields below
	seen    []string
	answers map[string]chan string // by session and the question's id
	// for the one session's stream; made in the bubble of the test that needs it
	asides chan string
}

// play serves the scripts, of which later ones replace parts of those before.
func play(t testing.TB, names ...string) *script {
	t.Helper()
	s := readScript(t, names...)
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func readScript(t testing.TB, names ...string) *script {
	t.Helper()
	s := &script{parts: map[string][]string{}, answers: map[string]chan string{}}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join("testdata", "wire", name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		_, parts, _ := strings.Cut(string(text), "\n== ")
		for part := range strings.SplitSeq(parts, "\n== ") {
			lines := strings.Split(strings.TrimSpace(part), "\n")
			s.parts[lines[0]] = lines[1:]
		}
	}
	return s
}

func (s *script) config() upstream.Config { return upstream.Config{URL: s.URL} }

// asked returns how often a part was asked for.
func (s *script) asked(part string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := 0
	for _, one := range s.seen {
		if one == part {
			count++
		}
	}
	return count
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m, _ := mcp.ParseObject(body)
	era := "legacy"
	if r.Header.Get("Mcp-Protocol-Version") == mcp.Revision2607 {
		era = "modern"
	}
	session, method := r.Header.Get("Mcp-Session-Id"), m.Text("method")
	part := strings.TrimSpace(era + " " + method + " " + m.Object("params").Text("name"))
	if m.Object("params").Has("inputResponses") {
		part += " again"
	}
	s.mu.Lock()
	s.seen = append(s.seen, part)
	s.mu.Unlock()
	switch lines := s.parts[part]; {
	case r.Method == http.MethodGet && era == "legacy" && session != "":
		s.aside(r.Context(), events(w))
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case method == "":
		w.WriteHeader(http.StatusAccepted)
		s.question(session, string(m.Value("id"))) <- string(m.Value("result"))
	case !m.Has("id"):
		w.WriteHeader(http.StatusAccepted)
	case lines == nil:
		sendError(w, http.StatusNotFound, json.RawMessage(m.Value("id")), mcp.CodeMethodNotFound,
			"Method not found")
	default:
		s.perform(w, r, m, lines)
	}
}

// aside sends what belongs to no request until the stream ends.
func (s *script) aside(ctx context.Context, send func(string, ...any)) {
	asides := s.beside()
	for {
		select {
		case message := <-asides:
			send("event: message\ndata: %s\n\n", message)
		case <-ctx.Done():
			return
		}
	}
}

func (s *script) beside() chan string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asides == nil {
		s.asides = make(chan string, 8)
	}
	return s.asides
}

// question returns where the answer to a question of a session arrives.
func (s *script) question(session, id string) chan string {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := session + " " + id
	if s.answers[key] == nil {
		s.answers[key] = make(chan string, 1)
	}
	return s.answers[key]
}

// perform answers a request with the lines of a part.
func (s *script) perform(w http.ResponseWriter, r *http.Request, m mcp.Object, lines []string) {
	status, kind, _ := strings.Cut(lines[0], " ")
	answers := string(m.Object("params").Value("inputResponses"))
	send := func(message string) { fmt.Fprint(w, message) }
	lines = lines[1:]
	if name, value, ok := strings.Cut(lines[0], ": "); ok && !strings.HasPrefix(name, "{") {
		w.Header().Set(name, value)
		lines = lines[1:]
	}
	if kind == "text/event-stream" {
		stream := events(w)
		send = func(message string) { stream("event: message\r\ndata: %s\r\n\r\n", message) }
	} else {
		code, _ := strconv.Atoi(status)
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(code)
	}
	for i, line := range lines {
		if line == "wait" {
			before, _ := mcp.ParseObject([]byte(lines[i-1]))
			select {
			case answers = <-s.question(r.Header.Get("Mcp-Session-Id"), string(before.Value("id"))):
			case <-r.Context().Done():
				return
			}
			continue
		}
		if line == "pause" {
			<-time.After(time.Second)
			continue
		}
		quoted, token := quote(answers), m.Object("params").Object("_meta").Value("progressToken")
		words := strings.NewReplacer("$id", string(m.Value("id")), "$answers", quoted[1:len(quoted)-1],
			"$token", string(token))
		if message, ok := strings.CutPrefix(line, "aside "); ok {
			s.beside() <- words.Replace(message)
			continue
		}
		send(words.Replace(line))
	}
}
