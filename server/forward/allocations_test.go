//go:build !race

package forward

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// TestAllocationsOfAnAnswerThatIsPassedOn bounds the bytes that one takes: the buffer
// through which it goes is used again. The race detector has pools forget what they have,
// so the test runs without.
func TestAllocationsOfAnAnswerThatIsPassedOn(t *testing.T) {
	service := exchange.New(exchange.Config{
		Logger: slog.New(slog.DiscardHandler), Memory: share.New(1 << 20),
		Settings: func() exchange.Settings { return exchange.Settings{} },
	})
	f := New(service, oneAnswerOthers{}, 1)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", http.NoBody)
	passOn := func() {
		w := httptest.NewRecorder()
		x := service.Begin(w, r)
		f.PassOn(x.Context(), x, &http.Response{
			StatusCode: http.StatusOK,
			Body:       io.NopCloser(strings.NewReader("answer")),
		}, "1", "other")
		if got := w.Body.String(); got != "answer" {
			t.Fatalf("got %q", got)
		}
	}
	result := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			passOn()
		}
	})
	if got := result.AllocedBytesPerOp(); got > bufferSize/4 {
		t.Errorf("an answer that is passed on takes %d bytes, want at most %d", got, bufferSize/4)
	}
}
