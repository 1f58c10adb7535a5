package main

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// sink counts the writes that reach it.
type sink struct {
	mu     sync.Mutex // guards the fields below
	text   strings.Builder
	writes int
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	return s.text.Write(p)
}

func (s *sink) seen() (text string, writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String(), s.writes
}

func TestLogLinesAreCollectedAndWrittenSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out sink
		buffer := &lineBuffer{out: &out}
		running := startTask(t.Context(), buffer.Run)
		log := newLogger(buffer, slog.LevelInfo, "json")
		for range 100 {
			log.InfoContext(t.Context(), "request")
		}
		if _, writes := out.seen(); writes != 0 {
			t.Errorf("got %d writes before the interval, want none", writes)
		}
		time.Sleep(logFlushInterval)
		synctest.Wait()
		if text, writes := out.seen(); writes != 1 || strings.Count(text, "\n") != 100 {
			t.Errorf("got %d lines in %d writes, want 100 in 1", strings.Count(text, "\n"), writes)
		}
		log.InfoContext(t.Context(), "last")
		running.stop()
		if text, _ := out.seen(); !strings.Contains(text, "last") {
			t.Error("the last line is lost")
		}
	})
}

func TestWarningsAreWrittenAtOnce(t *testing.T) {
	var out sink
	buffer := &lineBuffer{out: &out}
	log := newLogger(buffer, slog.LevelInfo, "text").With(slog.String("tenant", "acme")).WithGroup("g")
	log.InfoContext(context.Background(), "first")
	log.WarnContext(context.Background(), "second")
	text, _ := out.seen()
	first, second := strings.Index(text, "first"), strings.Index(text, "second")
	if first < 0 || second < first {
		t.Errorf("got %q, want both lines in order", text)
	}
}

func TestLogBufferIsBounded(t *testing.T) {
	var out sink
	buffer := &lineBuffer{out: &out}
	log := newLogger(buffer, slog.LevelInfo, "json")
	line := strings.Repeat("x", 1024)
	for range 2 * maxLogBuffer / len(line) {
		log.InfoContext(context.Background(), "long", slog.String("text", line))
	}
	if _, writes := out.seen(); writes < 2 {
		t.Errorf("got %d writes of %d bytes, want at least 2", writes, 2*maxLogBuffer)
	}
}
