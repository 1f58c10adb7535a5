package main

import (
	"context"
	"io"
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
		buffer := newLineBuffer(&out)
		log := newLogger(buffer, slog.LevelInfo, "json")
		running := startTask(t.Context(), buffer.Run)
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

// TestLogHidesNothing logs an error that quotes a server, whose characters a terminal
// would hide or obey.
func TestLogHidesNothing(t *testing.T) {
	for format, want := range map[string]string{
		"json": `"a\u202e\u009b8m\udb40\udc41é"`,
		"text": `"a\u202e\u009b8m\U000e0041é"`,
	} {
		var out sink
		buffer := newLineBuffer(&out)
		newLogger(buffer, slog.LevelInfo, format).InfoContext(t.Context(), "call failed inside", "error",
			"a\u202e\u009b8m\U000E0041é")
		buffer.flush()
		if text, _ := out.seen(); !strings.Contains(text, want) {
			t.Errorf("%s: got %+q, want %s in it", format, text, want)
		}
	}
}

func TestWarningsAreWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out sink
		buffer := newLineBuffer(&out)
		log := newLogger(buffer, slog.LevelInfo, "text").With(slog.String("tenant", "acme")).WithGroup("g")
		running := startTask(t.Context(), buffer.Run)
		log.InfoContext(t.Context(), "first")
		log.WarnContext(t.Context(), "second")
		synctest.Wait()
		text, _ := out.seen()
		first, second := strings.Index(text, "first"), strings.Index(text, "second")
		if first < 0 || second < first {
			t.Errorf("got %q, want both lines in order", text)
		}
		running.stop()
	})
}

func TestManyLinesAreWrittenBeforeTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out sink
		buffer := newLineBuffer(&out)
		log := newLogger(buffer, slog.LevelInfo, "json")
		running := startTask(t.Context(), buffer.Run)
		for range promptLogBytes / 1024 {
			log.InfoContext(t.Context(), "long", slog.String("text", strings.Repeat("x", 1024)))
		}
		synctest.Wait()
		if _, writes := out.seen(); writes == 0 {
			t.Errorf("%d bytes wait for the interval", promptLogBytes)
		}
		running.stop()
	})
}

// stuck is standard error that nobody reads until it is opened.
type stuck struct {
	sink

	opened chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.opened
	return s.sink.Write(p)
}

// TestLogThatNobodyReads shows that nobody waits for a log that nobody reads, that its
// memory is bounded, that what is lost is counted and said once somebody reads, and that
// it does not hold up the end of the process.
func TestLogThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := stuck{opened: make(chan struct{})}
		buffer := newLineBuffer(&out)
		log := newLogger(buffer, slog.LevelInfo, "json")
		running := startTask(t.Context(), buffer.Run)
		started := time.Now()
		log.WarnContext(t.Context(), "first")
		synctest.Wait() // its write does not end
		line := strings.Repeat("x", 1024)
		for range 2 * maxLogBuffer / len(line) {
			log.WarnContext(t.Context(), "long", slog.String("text", line))
		}
		if len(buffer.lines) > maxLogBuffer || buffer.lost.Load() < maxLogBuffer/1024 {
			t.Errorf("%d bytes kept and %d lines lost, want %d bytes at most and the rest lost",
				len(buffer.lines), buffer.lost.Load(), maxLogBuffer)
		}
		late := startTask(t.Context(), func(context.Context) error { <-out.opened; return nil })
		late.stopWithin(logPatience)
		if took := time.Since(started); took > logPatience {
			t.Errorf("took %v, want %v at most", took, logPatience)
		}
		close(out.opened)
		running.stop()
		if text, _ := out.seen(); !strings.Contains(text, "log lines were lost") {
			t.Errorf("got %d bytes that do not say that lines were lost", len(text))
		}
	})
}

// TestFlushesReuseTheMemoryOfTheLog looks at the memory of lines, which two pieces of
// memory take turns to be.
func TestFlushesReuseTheMemoryOfTheLog(t *testing.T) {
	buffer := newLineBuffer(io.Discard)
	line := make([]byte, 1000)
	write := func(n int) (into *byte) {
		for range n {
			_, _ = buffer.Write(line)
		}
		into = &buffer.lines[:1][0]
		buffer.flush()
		return into
	}
	first, second := write(100), write(100)
	if third, fourth := write(100), write(100); third != first || fourth != second {
		t.Error("memory was not used again")
	}
	large := write(maxLogBuffer / len(line))
	if write(1); write(1) == large || cap(buffer.lines) > maxSpareLog || cap(buffer.spare) > maxSpareLog {
		t.Errorf("%d and %d bytes are kept of a time when nobody read", cap(buffer.lines), cap(buffer.spare))
	}
}

// broken is standard error whose reader is gone.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestLinesForAReaderWhoIsGoneAreCounted(t *testing.T) {
	buffer := newLineBuffer(broken{})
	log := newLogger(buffer, slog.LevelInfo, "json")
	for range 3 {
		log.InfoContext(t.Context(), "request")
	}
	buffer.flush()
	if got := buffer.lost.Load(); got != 3 {
		t.Errorf("%d lines counted as lost, want 3", got)
	}
}

func TestDurationsAreNotNanoseconds(t *testing.T) {
	for format, want := range map[string][]string{
		"json": {`"delay":"2s"`, `"limits":{"read":"1m30s"}`, `"wait":"500ms"`},
		"text": {"delay=2s", "limits.read=1m30s", "wait=500ms"},
	} {
		buffer := newLineBuffer(io.Discard)
		log := newLogger(buffer, slog.LevelInfo, format).With(slog.Duration("delay", 2*time.Second))
		log.InfoContext(t.Context(), "text", slog.Group("limits", slog.Duration("read", 90*time.Second)),
			"wait", 500*time.Millisecond)
		for _, text := range want {
			if !strings.Contains(string(buffer.lines), text) {
				t.Errorf("%s: got %s, want in it %s", format, buffer.lines, text)
			}
		}
	}
}
