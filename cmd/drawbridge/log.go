package main

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	logFlushInterval = 200 * time.Millisecond
	maxLogBuffer     = 64 << 10 // bytes kept before a line waits for the writer
)

// lineBuffer collects log lines, so that a request does not wait for a write to the terminal or to a pipe. It is safe for concurrent use.
type lineBuffer struct {
	out io.Writer

	writing sync.Mutex // held while writing to out: keeps the order of lines
	mu      sync.Mutex // guards the field below
	lines   []byte
}

// Write keeps p for the next flush.
func (b *lineBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	b.lines = append(b.lines, p...)
	full := len(b.lines) >= maxLogBuffer
	b.mu.Unlock()
	if full {
		b.flush()
	}
	return len(p), nil
}

// flush writes what is kept.
func (b *lineBuffer) flush() {
	b.writing.Lock()
	defer b.writing.Unlock()
	b.mu.Lock()
	lines := b.lines
	b.lines = nil
	b.mu.Unlock()
	if len(lines) > 0 {
		_, _ = b.out.Write(lines) // there is nowhere left to say that the log cannot be written
	}
}

// Run flushes regularly until ctx ends.
func (b *lineBuffer) Run(ctx context.Context) error {
	ticker := time.NewTicker(logFlushInterval)
	defer ticker.Stop()
	defer b.flush()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			b.flush()
		}
	}
}

// promptHandler flushes at once what an operator must not wait for.
type promptHandler struct {
	slog.Handler
	buffer *lineBuffer
}

// Handle implements slog.Handler.
func (h promptHandler) Handle(ctx context.Context, record slog.Record) error {
	err := h.Handler.Handle(ctx, record)
	if record.Level >= slog.LevelWarn {
		h.buffer.flush()
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

// newLogger returns a logger that writes lines of the given format into buffer.
func newLogger(buffer *lineBuffer, level slog.Leveler, format string) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == "text" {
		return slog.New(promptHandler{slog.NewTextHandler(buffer, options), buffer})
	}
	return slog.New(promptHandler{slog.NewJSONHandler(buffer, options), buffer})
}
