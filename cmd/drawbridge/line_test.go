package main

import (
	"context"
	"io"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/server"
)

// hostile are texts that someone may send so that a line is cut, a terminal obeys, or a
// reader sees something else.
func hostile() []string {
	texts := []string{
		"", "tools/call", `"`, `\`, `","level":"ERROR"`, "a\nb\rc\td\be\ff\x00g\x1b[31m\x7f",
		"a\u0085b\u009b8m", "\xff", "a\xc3", "\xe2\x80", "\xed\xa0\x80",
		"\u2028\u2029\u202e\ufeff\u00ad\ufffd\u2800\ufe0f", "\U000e0041\U0001f600\U0010ffff",
		"<script>&amp;</script>", "päth/日本", " a=b ", strings.Repeat("x", 5000),
		strings.Repeat("\x1b\u202e\xff", 2000),
	}
	for c := range rune(0x3000) {
		texts = append(texts, "a"+string(c)+"b")
	}
	for c := range 256 {
		texts = append(texts, string([]byte{byte(c)}), string([]byte{'x', byte(c), 0x80}))
	}
	return texts
}

// bothLines logs with slog and with HandleLine, and returns both.
func bothLines(t *testing.T, at time.Time, level slog.Level, message string,
	attrs ...slog.Attr,
) (slow, fast string) {
	t.Helper()
	buffer := newLineBuffer(io.Discard)
	handler := newLogger(buffer, slog.LevelDebug, "json").Handler()
	record := slog.NewRecord(at, level, message, 0)
	record.AddAttrs(attrs...)
	if err := handler.Handle(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	middle := len(buffer.lines)
	if err := handler.(server.LineHandler).HandleLine(t.Context(), at, level, message, attrs); err != nil {
		t.Fatal(err)
	}
	return string(buffer.lines[:middle]), string(buffer.lines[middle:])
}

// TestALineByHandIsThatOfSlog compares the bytes of lines that are written by hand with
// those that slog writes.
func TestALineByHandIsThatOfSlog(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.November, 22, 3, 4, 5, 60_000, time.FixedZone("", -5400))
	compare := func(message string, attrs ...slog.Attr) {
		t.Helper()
		if slow, fast := bothLines(t, at, slog.LevelInfo, message, attrs...); fast != slow {
			t.Errorf("%+q with %+v:\n got %q\nwant %q", message, attrs, fast, slow)
		}
	}
	for _, text := range hostile() {
		compare(text, slog.String("text", text), slog.String(text, "x"))
	}
	for _, f := range []float64{
		0, math.Copysign(0, -1), 1, 0.001234567, 1e-6, 9.99e-7, 1e-9, 123456.789,
		1e20, 1e21, 1e300, -3.5, math.Inf(1), math.NaN(), math.SmallestNonzeroFloat64,
	} {
		compare("request", slog.Float64("duration_seconds", f))
	}
	compare("request")
	compare("request", slog.Int("status", 200), slog.Int64("least", math.MinInt64),
		slog.Int64("most", math.MaxInt64))
	compare("request", slog.String("reason", "a"), slog.String("reason", "b"))
	for _, other := range []slog.Attr{ // what slog has to write
		{},
		slog.Bool("b", true), slog.Duration("wait", time.Second), slog.Time("t", at), slog.Any("error",
			io.EOF), slog.Uint64("u", math.MaxUint64),
		slog.Group("g", slog.String("a", "b"), slog.Group("empty")), slog.Any("nil", nil), slog.Any("list",
			[]string{"a", "\x1b"}),
	} {
		compare("request", slog.String("first", "1"), other, slog.String("last", "2"))
	}
	for _, level := range []slog.Level{
		slog.LevelDebug, slog.LevelInfo, 1, slog.LevelWarn, slog.LevelError,
		100,
	} {
		for _, at := range []time.Time{
			time.Now(), time.Now().UTC(), time.Unix(0, 0),
			time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC),
		} {
			if slow, fast := bothLines(t, at, level, "request", slog.String("a", "b")); fast != slow {
				t.Errorf("level %d at %v:\n got %q\nwant %q", level, at, fast, slow)
			}
		}
	}
}

// FuzzLine looks for a text that is written in another way by hand than by slog.
func FuzzLine(f *testing.F) {
	for _, text := range hostile()[:20] {
		f.Add(text, 0.5)
	}
	f.Fuzz(func(t *testing.T, text string, number float64) {
		slow, fast := bothLines(t, time.Unix(1, 2), slog.LevelInfo, text, slog.String(text, text),
			slog.Float64("n", number))
		if fast != slow || !utf8.ValidString(fast) || strings.Count(fast, "\n") != 1 {
			t.Errorf("%+q, %v:\n got %q\nwant %q", text, number, fast, slow)
		}
	})
}

// TestTheLineOfARequestTakesNoMemory counts what the line of a request allocates, which
// were 1,800 bytes in four pieces.
func TestTheLineOfARequestTakesNoMemory(t *testing.T) {
	buffer := newLineBuffer(io.Discard)
	buffer.lines = make([]byte, 0, maxLogBuffer)
	lines := newLogger(buffer, slog.LevelInfo, "json").Handler().(server.LineHandler)
	attrs := requestAttrs()
	if n := testing.AllocsPerRun(100, func() {
		_ = lines.HandleLine(context.Background(), time.Now(), slog.LevelInfo, "request", attrs)
	}); n > 0 { // an average, rounded down: the race detector empties pools now and then
		t.Errorf("%v allocations, want none", n)
	}
}
