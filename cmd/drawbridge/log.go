package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

const (
	logFlushInterval = 200 * time.Millisecond
	promptLogBytes   = 64 << 10    // so many bytes are written without waiting for the interval
	maxLogBuffer     = 1 << 20     // bytes kept for a writer that is slow; lines beyond are dropped
	maxSpareLog      = 256 << 10   // bytes of memory of lines that are kept for later ones
	logPatience      = time.Second // how long the end of the process waits for the last lines
)

// lineBuffer collects log lines for one goroutine that writes them. Whoever logs never
// waits for the terminal or pipe behind: a write to a pipe that nobody reads may never
// end, and it would take a call with it. Lines that find no room are dropped and counted.
//
//	logger --Write--> lines --flush, by Run: at intervals, or when woken--> out
//
// It is safe for concurrent use. Run is called once.
type lineBuffer struct {
	out io.Writer
	// the logger that writes here, set by newLogger; flush uses it to say how many lines
	// were lost
	log    *slog.Logger
	wake   chan struct{} // holds one value when lines should be written now
	lost   atomic.Uint64 // lines that were dropped or could not be written
	logged uint64        // how many of the lost lines the log has been told of; only Run uses it

	// Memory for the lines that come while others are written; only Run uses it. So two
	// pieces of memory take turns, and none grows anew for each flush.
	spare []byte

	mu    sync.Mutex // guards the field below
	lines []byte
}

// newLineBuffer returns a buffer in front of out. Nothing is written before Run.
func newLineBuffer(out io.Writer) *lineBuffer {
	return &lineBuffer{out: out, wake: make(chan struct{}, 1)}
}

// Write keeps a line for the next flush, or drops and counts it when the buffer is full.
// It never waits and never fails: there is nobody who could do anything about a failing
// log.
func (b *lineBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lines)+len(line) > maxLogBuffer {
		b.lost.Add(1)
		return len(line), nil
	}
	b.lines = append(b.lines, line...)
	if len(b.lines) >= promptLogBytes {
		b.prompt()
	}
	return len(line), nil
}

// prompt makes Run write the lines now and not at the next interval.
func (b *lineBuffer) prompt() { pace.Signal(b.wake) }

// flush writes the lines, and then logs how many were lost since it last did. It takes
// the lines away first, so that the mutex is not held while it writes. Only Run calls it.
func (b *lineBuffer) flush() {
	b.mu.Lock()
	lines := b.lines
	if len(lines) == 0 {
		b.mu.Unlock()
		return
	}
	b.lines, b.spare = b.spare, nil
	b.mu.Unlock()
	defer b.keep(lines)
	if n, err := b.out.Write(lines); err != nil {
		b.lost.Add(uint64(bytes.Count(lines[n:], []byte{'\n'}))) //nolint:gosec // a count is not negative
		// there is nowhere left to say that the log cannot be written
		return
	}
	if lost := b.lost.Load(); lost > b.logged {
		b.log.WarnContext(context.Background(), "log lines were lost, because nobody took them",
			slog.Uint64("lines", lost-b.logged))
		b.logged = lost
	}
}

// keep keeps the memory of lines that were written for later ones, unless a slow reader
// has made it large.
func (b *lineBuffer) keep(lines []byte) {
	if cap(lines) <= maxSpareLog {
		b.spare = lines[:0]
	}
}

// Run writes lines at intervals, and at once after prompt, until ctx ends. Then it writes
// the last ones.
func (b *lineBuffer) Run(ctx context.Context) error {
	for pace.WaitOr(ctx, logFlushInterval, b.wake) {
		b.flush()
	}
	b.flush()
	b.flush() // what the first one said
	return nil
}

// promptHandler hands records on, and has warnings and errors written at once: an
// operator should not wait for those.
type promptHandler struct {
	slog.Handler
	buffer *lineBuffer
}

// Handle implements slog.Handler.
func (h promptHandler) Handle(ctx context.Context, record slog.Record) error {
	err := h.Handler.Handle(ctx, record)
	if record.Level >= slog.LevelWarn {
		h.buffer.prompt()
	}
	return err
}

// WithAttrs implements slog.Handler.
func (h promptHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return promptHandler{h.Handler.WithAttrs(attrs), h.buffer}
}

// WithGroup implements slog.Handler.
func (h promptHandler) WithGroup(name string) slog.Handler {
	return promptHandler{h.Handler.WithGroup(name), h.buffer}
}

// newLogger returns a logger that writes lines into buffer, in the format "text" or
// "json".
func newLogger(buffer *lineBuffer, level slog.Leveler, format string) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: spellDuration}
	if format == "text" {
		buffer.log = slog.New(promptHandler{slog.NewTextHandler(buffer, options), buffer})
	} else {
		buffer.log = slog.New(jsonHandler{promptHandler{
			slog.NewJSONHandler(visibleLines{buffer}, options),
			buffer,
		}})
	}
	return buffer.log
}

// visibleLines escapes in lines of JSON what a terminal would hide or obey: errors may
// quote what servers said. The other format quotes such texts by itself, but for
// selectors, which change only the character before them.
type visibleLines struct{ to io.Writer }

// Write implements io.Writer.
func (v visibleLines) Write(line []byte) (int, error) {
	_, err := v.to.Write(strictjson.AppendVisible(nil, line))
	return len(line), err
}

// spellDuration writes a duration with its unit, as 2s or 1m30s; in JSON it would be a
// bare number of nanoseconds. A value for programs to compute with is logged as a number
// instead, under a key that ends in _seconds.
func spellDuration(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
