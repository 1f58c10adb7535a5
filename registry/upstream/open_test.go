package upstream

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// TestOpenOpensTheKindThatWasFound opens a further connection of each legacy kind: with
// capabilities, and without asking what the server is.
func TestOpenOpensTheKindThatWasFound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind kind
		want string
	}{
		"Streamable HTTP": {kindLegacy, "POST initialize, POST notifications/initialized"},
		"HTTP+SSE":        {kindSSE, "GET, POST initialize, POST notifications/initialized"},
		"modern":          {kindModern, ""},
		"unknown":         {kindUnknown, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &minimal{answers: make(chan string, 1)}
				u := New(Config{
					Name: "up", URL: "http://up.test", Client: inMemory(t, s),
					Logger: slog.New(slog.DiscardHandler),
				}, registry.New())
				u.dialer.remember(test.kind)
				c := newConnection(&Config{Name: "up"})
				roots := mcp.NewObject(mcp.Member{Name: "roots", Value: mcp.RawJSON("{}")})
				l, err := u.dialer.open(t.Context(), c, roots, &calls{strays: &strays{}})
				if test.want == "" {
					if unavailable, ok := errors.AsType[*registry.UnavailableError](err); !ok ||
						unavailable.Sent || len(s.asked) > 0 {
						t.Errorf("got error %v after %v, want unavailable without a question", err, s.asked)
					}
					return
				}
				if err != nil {
					t.Fatal(errors.Unwrap(err))
				}
				l.close(t.Context(), true)
				if got := strings.Join(s.asked, ", "); got != test.want || s.declared != `{"roots":{}}` ||
					c.version != mcp.Revision2024 {
					t.Errorf("asked %s with capabilities %s, agreed on %s; want %s", got, s.declared, c.version,
						test.want)
				}
			})
		})
	}
}

// inMemory returns a client whose connections a handler serves without a network. So time
// stands still in a bubble while they are at work.
func inMemory(t *testing.T, handler http.Handler) *http.Client {
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		theirs, ours := net.Pipe()
		server := &http.Server{Handler: handler}
		go func() { _ = server.Serve(&oneConnection{conn: theirs}) }() // which says that there is no second one
		return ours, nil
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// oneConnection listens for nothing and has one connection.
type oneConnection struct {
	conn  net.Conn
	taken bool
}

func (l *oneConnection) Accept() (net.Conn, error) {
	if l.taken {
		return nil, net.ErrClosed
	}
	l.taken = true
	return l.conn, nil
}

func (l *oneConnection) Close() error   { return nil }
func (l *oneConnection) Addr() net.Addr { return l.conn.LocalAddr() }

// minimal answers initialize, on the stream where there is one. One request is served at
// a time.
type minimal struct {
	asked    []string
	declared string
	streams  bool
	answers  chan string
}

func (s *minimal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		s.asked, s.streams = append(s.asked, "GET"), true
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: endpoint\ndata: /m\n\n")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, "data: "+<-s.answers+"\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return
	}
	body, _ := io.ReadAll(r.Body)
	m, _ := mcp.ParseObject(body)
	s.asked = append(s.asked, "POST "+m.Text("method"))
	answer := `{"jsonrpc":"2.0","id":` + string(m.Value("id")) +
		`,"result":{"protocolVersion":"2024-11-05","capabilities":{}}}`
	switch {
	case m.Text("method") != mcp.MethodInitialize:
		w.WriteHeader(http.StatusAccepted)
	case s.streams:
		s.declared = string(m.Object("params").Value("capabilities"))
		w.WriteHeader(http.StatusAccepted)
		s.answers <- answer
	default:
		s.declared = string(m.Object("params").Value("capabilities"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}
}
