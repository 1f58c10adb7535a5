package upstream_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// answers are what hostile, broken and odd servers send for a call.
var answers = map[string]struct {
	send func(w http.ResponseWriter, r *http.Request, m wire)
	want string // "ok", or which error
}{
	"HTML": {func(w http.ResponseWriter, _ *http.Request, _ wire) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html>secret</html>")
	}, "protocol"},
	"no type": {func(w http.ResponseWriter, _ *http.Request, _ wire) {
		w.Header()["Content-Type"] = nil
		fmt.Fprint(w, "{}")
	}, "protocol"},
	"odd type": {func(w http.ResponseWriter, _ *http.Request, _ wire) {
		w.Header().Set("Content-Type", ";;")
		fmt.Fprint(w, "{}")
	}, "protocol"},
	"accepted": {func(w http.ResponseWriter, _ *http.Request,
		_ wire,
	) {
		w.WriteHeader(http.StatusAccepted)
	}, "protocol"},
	"no content": {func(w http.ResponseWriter, _ *http.Request,
		_ wire,
	) {
		w.WriteHeader(http.StatusNoContent)
	}, "protocol"},
	"redirect 302": {func(w http.ResponseWriter, r *http.Request, _ wire) {
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}, "protocol"},
	"redirect 307": {func(w http.ResponseWriter, r *http.Request, _ wire) {
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}, "protocol"},
	"wrong id": {func(w http.ResponseWriter, _ *http.Request,
		_ wire,
	) {
		sendJSON(w, []byte("123456"), okResult)
	}, "protocol"},
	"id as text": {func(w http.ResponseWriter, _ *http.Request, m wire) {
		sendJSON(w, []byte(quote(string(m.ID))), okResult)
	}, "protocol"},
	"two answers in an array": {func(w http.ResponseWriter, _ *http.Request, m wire) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(
			w, `[{"jsonrpc":"2.0","id":77777,"result":{}},{"jsonrpc":"2.0","id":%s,"result":%s},{"jsonrpc":"2.0","id":%s,"result":{}}]`, m.ID, okResult, m.ID)
	}, "ok"},
	"two answers in a stream": {func(w http.ResponseWriter, _ *http.Request, m wire) {
		send := events(w)
		send("%s", data(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, okResult))
		send("%s", data(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID))
	}, "ok"},
	"foreign answer in a stream": {func(w http.ResponseWriter, _ *http.Request, m wire) {
		send := events(w)
		send("%s", data(`{"jsonrpc":"2.0","id":123456,"result":{"content":[]}}`))
		send("%s", data(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, okResult))
	}, "ok"},
	"array in an event": {func(w http.ResponseWriter, _ *http.Request, m wire) {
		events(w)(
			"%s", data(`[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":%s,"result":%s}]`,
				m.ID, okResult))
	}, "ok"},
	"priming, comments, line breaks, other events": {func(w http.ResponseWriter, _ *http.Request, m wire) {
		send := events(w)
		send("\ufeffid: 1\ndata:\n\n: comment\n\nevent: other\ndata: {not json\n\n")
		send("%s", strings.ReplaceAll(data("{\n \"jsonrpc\":\"2.0\",\n\"id\":%s,\n\"result\":%s}", m.ID,
			okResult), "\n", "\r\n"))
	}, "ok"},
	"stream that stays open": {func(w http.ResponseWriter, r *http.Request, m wire) {
		events(w)("%s", data(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, okResult))
		<-r.Context().Done()
	}, "ok"},
	"stream that ends": {
		func(w http.ResponseWriter, _ *http.Request, _ wire) { events(w)(": nothing\n\n") },
		"sent",
	},
	"garbage in a stream": {func(w http.ResponseWriter, _ *http.Request, m wire) {
		send := events(w)
		send("data: <html>\n\n")
		send("%s", data(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, okResult))
	}, "protocol"},
	"endless line in a stream": {func(w http.ResponseWriter, r *http.Request, _ wire) {
		send := events(w)
		for r.Context().Err() == nil {
			send("%s", strings.Repeat("x", 1<<20))
		}
	}, "protocol"},
	"endless comments": {func(w http.ResponseWriter, r *http.Request, _ wire) {
		send := events(w)
		for r.Context().Err() == nil {
			send(": comment\n\n")
		}
	}, "deadline"},
	"slow drip": {func(w http.ResponseWriter, r *http.Request, _ wire) {
		send := events(w)
		for wait(r.Context(), 20*time.Millisecond) {
			send("d")
		}
	}, "deadline"},
	"silence":    {func(_ http.ResponseWriter, r *http.Request, _ wire) { <-r.Context().Done() }, "deadline"},
	"not JSON":   {jsonBody("{"), "protocol"},
	"empty":      {jsonBody(""), "protocol"},
	"array":      {jsonBody("[]"), "protocol"},
	"null":       {jsonBody("null"), "protocol"},
	"name twice": {jsonBody(`{"jsonrpc":"2.0","id":1,"result":{"content":[],"content":[]}}`), "protocol"},
	"deep":       {jsonBody(strings.Repeat("[", 1000) + strings.Repeat("]", 1000)), "protocol"},
	"too large": {func(w http.ResponseWriter, r *http.Request, m wire) { // made here, not in every fake at its start
		jsonBody(`{"x":"`+strings.Repeat("x", 17<<20)+`"}`)(w, r, m)
	}, "protocol"},
	"announces a gigabyte": {func(w http.ResponseWriter, _ *http.Request, _ wire) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1073741824")
		fmt.Fprint(w, "{")
	}, "protocol"},
	"gzip bomb": {func(w http.ResponseWriter, _ *http.Request, _ wire) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb())
	}, "protocol"},
	"cut body": {func(w http.ResponseWriter, _ *http.Request, _ wire) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, `{"jsonrpc":"2.0"`)
		panic(http.ErrAbortHandler)
	}, "sent"},
	"reset": {
		func(http.ResponseWriter, *http.Request, wire) { panic(http.ErrAbortHandler) },
		"sent",
	},
	"401": {code(401), "not sent"},
	"403": {code(403), "not sent"},
	"429": {code(429), "not sent"},
	"418": {code(418), "not sent"},
	"500": {code(500), "sent"},
	"502": {code(502), "sent"},
	"503": {code(503), "sent"},
	"999": {code(999), "protocol"},
	"error in 200": {func(w http.ResponseWriter, _ *http.Request,
		m wire,
	) {
		sendError(w, 200, m.ID, -32602, "no")
	}, "error"},
	"error in 400": {func(w http.ResponseWriter, _ *http.Request,
		m wire,
	) {
		sendError(w, 400, m.ID, -32602, "no")
	}, "error"},
	"other's error, 400": {func(w http.ResponseWriter, _ *http.Request,
		_ wire,
	) {
		sendError(w, 400, []byte("99999"), -32602, "no")
	}, "not sent"},
	"type with charset": {func(w http.ResponseWriter, _ *http.Request, m wire) {
		w.Header().Set("Content-Type", "Application/JSON; charset=utf-8")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, okResult)
	}, "ok"},
	"pretty, chunked": {func(w http.ResponseWriter, _ *http.Request, m wire) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, "\n{\n  \"jsonrpc\": \"2.0\",\r\n \"id\": %s,", m.ID)
		_ = http.NewResponseController(w).Flush()
		fmt.Fprintf(w, "\n\t\"result\": %s\n}\n", okResult)
	}, "ok"},
}

func jsonBody(body string) func(http.ResponseWriter, *http.Request, wire) {
	return func(w http.ResponseWriter, _ *http.Request, _ wire) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, body)
	}
}

func code(status int) func(http.ResponseWriter, *http.Request, wire) {
	return func(w http.ResponseWriter, _ *http.Request, _ wire) { w.WriteHeader(status) }
}

// bomb is 32 MiB in a small room.
var bomb = sync.OnceValue(func() []byte {
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	for range 32 {
		_, _ = z.Write(make([]byte, 1<<20))
	}
	_ = z.Close()
	return packed.Bytes()
})

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// TestT9UnknownAnswersNeverPass sends each answer in both eras. Nothing but a well-formed
// answer to this very request passes, and the next call is unharmed.
func TestT9UnknownAnswersNeverPass(t *testing.T) {
	t.Parallel()
	for name, test := range answers {
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/modern=%v", name, modern), func(t *testing.T) {
				t.Parallel()
				var elsewhere atomic.Bool
				hostile := func(w http.ResponseWriter, r *http.Request, m wire) {
					switch {
					case r.URL.Path == "/elsewhere":
						elsewhere.Store(true)
					case m.Params.Arguments["hostile"] == true:
						test.send(w, r, m)
					default:
						sendJSON(w, m.ID, okResult)
					}
				}
				r := start(t, serve(t, &web{modern: modern, call: hostile}).config())
				r.untilTool("tool")
				r.must("tool", `{}`) // there is a session, so that the deadline is the call's alone
				ctx, cancel := context.WithTimeout(t.Context(), deadlineFor(test.want))
				defer cancel()
				began := time.Now()
				result, err := r.call(ctx, "tool", `{"arguments":{"hostile":true}}`, nil)
				if got := kindOf(result, err); got != test.want {
					t.Errorf("got %s (%s, %s), want %s", got, result.JSON(), cause(err), test.want)
				}
				if test.want == "deadline" && time.Since(began) > limit/2 {
					t.Errorf("took %v, want the deadline", time.Since(began))
				}
				r.untilTool("tool")
				r.must("tool", `{}`)
				if elsewhere.Load() {
					t.Error("a redirect was followed")
				}
			})
		}
	}
}

func deadlineFor(want string) time.Duration {
	if want == "deadline" {
		return time.Second
	}
	return limit
}

func kindOf(result mcp.Object, err error) string {
	var (
		unavailable *registry.UnavailableError
		broken      *registry.ProtocolError
		answered    *mcp.Error
		down        *registry.DownError
	)
	switch {
	case err == nil && text(result) == "ok":
		return "ok"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline"
	case errors.As(err, &unavailable) && unavailable.Sent:
		return "sent"
	case errors.As(err, &unavailable), errors.As(err, &down):
		return "not sent"
	case errors.As(err, &broken) &&
		!errors.As(err, &answered): // or it would be told as the server's own error
		return "protocol"
	case errors.As(err, &answered):
		return "error"
	}
	return fmt.Sprint("unknown: ", err)
}

// TestReasonOfAFailedHandshakeIsClean puts hidden text into the error of a handshake,
// which operators read.
func TestReasonOfAFailedHandshakeIsClean(t *testing.T) {
	t.Parallel()
	refuse := func(w http.ResponseWriter, _ *http.Request, m wire) {
		sendError(w, http.StatusOK, m.ID, -32000, "no \u202enu\u2062ts\u200b")
	}
	s := serve(t, &web{other: map[string]func(w http.ResponseWriter, r *http.Request,
		m wire){"tools/list": refuse}})
	r := start(t, s.config())
	r.until("the attempt has ended", func() bool { return r.last().Tried })
	if got := r.last().Problem; !strings.Contains(got, "no nuts") {
		t.Errorf("got %+q, want the words without what is hidden", got)
	}
}
