package main

import (
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/server"
)

// requestAttrs are those of the line of a usual request.
func requestAttrs() []slog.Attr {
	return []slog.Attr{
		slog.String("http_method", http.MethodPost), slog.String("path", "/mcp"), slog.Int("status",
			http.StatusOK),
		slog.String("method", "tools/call"), slog.String("tool", "files__read"), slog.String("outcome", "ok"),
		slog.Float64("duration_seconds", 0.001234567), slog.String("remote", "192.0.2.1"),
		slog.String("request_id", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"), slog.String("tenant", "acme"),
	}
}

// BenchmarkRequestLine is the line of a request, by hand as in JSON and with slog as in
// text.
func BenchmarkRequestLine(b *testing.B) {
	for _, format := range []string{"json", "text"} {
		b.Run(format, func(b *testing.B) {
			buffer := newLineBuffer(io.Discard)
			log := newLogger(buffer, slog.LevelInfo, format)
			lines, byHand := log.Handler().(server.LineHandler)
			attrs := requestAttrs()
			b.ReportAllocs()
			for b.Loop() {
				if byHand {
					_ = lines.HandleLine(b.Context(), time.Now(), slog.LevelInfo, "request", attrs)
				} else {
					log.LogAttrs(b.Context(), slog.LevelInfo, "request", attrs...)
				}
				if len(buffer.lines) >= promptLogBytes {
					buffer.flush()
				}
			}
		})
	}
}
