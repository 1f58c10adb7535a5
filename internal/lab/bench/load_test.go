package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// upstreamOf starts the upstream for a test, with the files of a certificate for TLS, and
// returns its address.
func upstreamOf(t *testing.T, files ...string) string {
	t.Helper()
	addr, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- upstream.NewQuick(false).Serve(ctx, addr, files...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the upstream: %v", err)
		}
	})
	err = world.Within(ctx, time.Minute, "the upstream listens", func() bool {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// TestEveryKindIsAnswered calls the upstream itself in each of the ways that are
// measured.
func TestEveryKindIsAnswered(t *testing.T) {
	addr := upstreamOf(t)
	for name, target := range map[string]*target{
		"plain":          {tool: "echo", revision: mcp.LatestModern},
		"in a session":   {tool: "echo", revision: mcp.LatestLegacy, handshake: true},
		"event stream":   {tool: "stream", revision: mcp.LatestModern, meta: `"progressToken":"p"`},
		"question":       {tool: "ask", revision: mcp.LatestLegacy, handshake: true},
		"64 KiB of text": {tool: "text_65536", revision: mcp.LatestModern, arguments: "{}"},
	} {
		target.addr = addr
		c := target.connect(t.Context())
		defer c.close()
		for range 2 {
			if err := must.Try(c.call); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := c.line.Conn.Traffic(); name == "64 KiB of text" && (got < 2*65536 || got > 2*66560) {
			t.Errorf("two answers of 64 KiB took %d bytes", got)
		}
		target.before = 4 // more messages than any answer has before it
		if err := must.Try(c.call); err == nil {
			t.Errorf("%s: messages that never came are no error", name)
		}
	}
}

// TestCallsOfASessionHaveIDsOfTheirOwn: replicas that share Redis refuse an id that is
// given back just now.
func TestCallsOfASessionHaveIDsOfTheirOwn(t *testing.T) {
	var ids []int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct{ ID int64 }
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		ids = append(ids, request.ID)
		asJSON(w, []byte(`{"result":"`+upstream.Message+`"}`))
	}))
	defer server.Close()
	c := (&target{
		addr: strings.TrimPrefix(server.URL, "http://"), tool: "echo",
		revision: mcp.LatestModern,
	}).connect(t.Context())
	defer c.close()
	for range 12 {
		c.call()
	}
	for i, id := range ids {
		if want := int64(100_000_001 + i); id != want {
			t.Errorf("call %d has the id %d, want %d", i, id, want)
		}
	}
}

func TestLoadCountsCallsAndBytes(t *testing.T) {
	target := &target{name: "direct", addr: upstreamOf(t), tool: "echo", revision: mcp.LatestModern}
	s := target.load(t.Context(), 3, time.Millisecond)
	if s.calls < 3 || len(s.latency) != s.calls || s.bytes < int64(s.calls*len(upstream.Message)) ||
		s.counted {
		t.Errorf("%d calls with %d latencies, %d bytes, counted %v", s.calls, len(s.latency), s.bytes,
			s.counted)
	}
}

// TestWrongAnswersFailTheRun lets a server say something else, in each form that an
// answer has.
func TestWrongAnswersFailTheRun(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter){
		"another text": func(
			w http.ResponseWriter,
		) {
			asJSON(w, []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
		},
		"a refusal": func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) },
		"a short event": func(
			w http.ResponseWriter,
		) {
			asEvent(w, `data: {"jsonrpc":"2.0","method":"notifications/progress"}`)
		},
		"no message": func(w http.ResponseWriter) { asEvent(w, "data: {") },
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
			_ *http.Request,
		) {
			answer(w)
		}))
		target := &target{
			name: name, addr: strings.TrimPrefix(server.URL, "http://"), tool: "echo",
			revision: mcp.LatestModern,
		}
		if must.Try(func() { target.load(t.Context(), 1, time.Second) }) == nil {
			t.Errorf("%s counts as an answer", name)
		}
		server.Close()
	}
}

func asJSON(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}

func asEvent(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, text+"\n\n")
}

func TestStdioUpstreamAnswersEachLine(t *testing.T) {
	var out strings.Builder
	in := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
		(&target{tool: "echo", revision: mcp.LatestModern}).callBody() + "\n"
	if err := upstream.NewQuick(false).ServeStdio(strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 2 ||
		!strings.Contains(lines[1], upstream.Message) {
		t.Errorf("got %q", lines)
	}
}

// TestUpstreamWithTLSIsTrustedByItsAuthorityAlone calls it with the certificate that the
// parts are given, and without.
func TestUpstreamWithTLSIsTrustedByItsAuthorityAlone(t *testing.T) {
	l := &lab{Lab: &world.Lab{Dir: t.TempDir()}}
	redistest.Certificates(t, l.Dir)
	addr := upstreamOf(t, l.certificate(), l.key())
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM([]byte(read(t, l.certificate()))) {
		t.Fatal("the authority has no certificate")
	}
	for _, pool := range []*x509.CertPool{trusted, x509.NewCertPool()} {
		client := &http.Client{Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: pool},
			ForceAttemptHTTP2: true,
		}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+addr+"/mcp",
			strings.NewReader((&target{tool: "echo"}).callBody()))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if (err == nil) != (pool == trusted) {
			t.Fatalf("trusted %v: %v", pool == trusted, err)
		}
		if err == nil {
			text, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if !strings.Contains(string(text), upstream.Message) || response.ProtoMajor != 2 {
				t.Errorf("over HTTP/%d: %s", response.ProtoMajor, text)
			}
		}
		client.CloseIdleConnections()
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
