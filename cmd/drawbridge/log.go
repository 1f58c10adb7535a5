package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	logFlushInterval = 200 * time.Millisecond
	promptLogBytes   = 64 << 10    // that wait for no interval
	maxLogBuffer     = 1 << 20     // bytes kept for a writer that is slow; lines beyond are dropped
	logPatience      = time.Second // for the last lines, when the process ends
)

// lineBuffer collects log lines for one goroutine that writes them, so that nobody else waits for a terminal or a pipe:
// a write to one that nobody reads never ends. It is safe for concurrent use.
type lineBuffer struct {
	out  io.Writer
	log  *slog.Logger  // that writes here, set by newLogger; Run says with it what was dropped
	wake chan struct{} // holds a value when lines should be written now
	lost atomic.Uint64 // lines that were dropped or could not be written
	told uint64        // for Run: how many of them the log says

	mu    sync.Mutex // guards the field below
	lines []byte
}

func newLineBuffer(out io.Writer) *lineBuffer {
	return &lineBuffer{out: out, wake: make(chan struct{}, 1)}
}

// Write keeps a line for the next flush, or drops it when there are too many. It never waits and never fails.
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

// prompt lets lines be written now.
func (b *lineBuffer) prompt() {
	select {
	case b.wake <- struct{}{}:
	default: // somebody said so already
	}
}

// flush writes what is kept, and then says what was lost. Only Run calls it.
func (b *lineBuffer) flush() {
	b.mu.Lock()
	lines := b.lines
	b.lines = nil
	b.mu.Unlock()
	if len(lines) == 0 {
		return
	}
	if n, err := b.out.Write(lines); err != nil {
		b.lost.Add(uint64(bytes.Count(lines[n:], []byte{'\n'}))) //nolint:gosec // a count is not negative
		return                                                   // there is nowhere left to say that the log cannot be written
	}
	if lost := b.lost.Load(); lost > b.told {
		b.log.WarnContext(context.Background(), "log lines were lost, because nobody took them", slog.Uint64("lines", lost-b.told))
		b.told = lost
	}
}

// Run writes lines regularly until ctx ends, and then the last ones.
func (b *lineBuffer) Run(ctx context.Context) error {
	ticker := time.NewTicker(logFlushInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			b.flush()
			b.flush() // what the first one said
			return nil
		case <-ticker.C:
		case <-b.wake:
		}
		b.flush()
	}
}

// promptHandler lets be written at once what an operator must not wait for.
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

// newLogger returns a logger that writes lines of the given format into buffer, before that runs.
func newLogger(buffer *lineBuffer, level slog.Leveler, format string) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: spellDuration}
	buffer.log = slog.New(promptHandler{slog.NewJSONHandler(buffer, options), buffer})
	if format == "text" {
		buffer.log = slog.New(promptHandler{slog.NewTextHandler(buffer, options), buffer})
	}
	return buffer.log
}

// spellDuration writes a duration with its unit, as 2s or 1m30s: in JSON it would be a bare number of nanoseconds. A key
// that ends in _seconds is a number that somebody computes with, and no duration here.
func spellDuration(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
