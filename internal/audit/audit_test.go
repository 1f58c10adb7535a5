package audit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/corpus"
)

var noon = time.Date(2026, 7, 28, 12, 0, 0, 123456789, time.FixedZone("", 3600))

func open(t testing.TB, cfg audit.Config) *audit.Log {
	t.Helper()
	l, err := audit.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func write(t testing.TB, l *audit.Log, r *audit.Record) {
	t.Helper()
	if err := l.Write(r); err != nil {
		t.Fatal(err)
	}
}

// linesOf returns the lines of the file, each parsed.
func linesOf(t *testing.T, name string) []map[string]any {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, text)
}

func parse(t *testing.T, text []byte) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for line := range bytes.Lines(text) {
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil || line[len(line)-1] != '\n' {
			t.Fatalf("line %q: %v", line, err)
		}
		lines = append(lines, fields)
	}
	return lines
}

func TestFields(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, audit.Config{File: file})
	write(t, l, &audit.Record{Time: noon, Outcome: "ok"})
	write(t, l, &audit.Record{
		Time: noon, RequestID: "r", CallID: "f", TenantID: "t", Issuer: "i", Subject: "s", ClientID: "c",
		Remote: "192.0.2.1", Method: "tools/call", Name: "n", TokenID: "j", Claim: "a.b", Found: "[]",
		Server: "files", Item: "files__read", Outcome: "tool_error", Reason: "why", Arguments: "sha256:00",
		Duration: 1500 * time.Microsecond, Repairs: 2, Wait: time.Second, WaitedFor: "queue",
		Count: 3,
	})
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"time":"2026-07-28T11:00:00.123456789Z","outcome":"ok"}
{"time":"2026-07-28T11:00:00.123456789Z","request_id":"r","call_id":"f","tenant":"t","issuer":"i","subject":"s","name":"n","token_id":"j","client_id":"c","remote":"192.0.2.1",` +
		`"method":"tools/call","server":"files","item":"files__read","outcome":"tool_error","reason":"why","arguments":"sha256:00","duration_seconds":0.0015,"wait_seconds":1,"waited_for":"queue","repairs":2,"claim":"a.b","found":"[]","count":3}
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v and error %v, want 0600", info.Mode(), err)
	}
}

// TestT35LogInjection writes hostile texts as every field and expects as many lines as
// records, each of them JSON that holds the text and shows nothing of it that a terminal
// or a reader would take for something else.
func TestT35LogInjection(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, audit.Config{File: file})
	texts := hostileTexts(t)
	for _, text := range texts {
		write(t, l, &audit.Record{
			Time: noon, RequestID: text, CallID: text, TenantID: text, Issuer: text, Subject: text,
			ClientID: text, Remote: text,
			Method: text, Server: text, Item: text, Outcome: text, Reason: text, Arguments: text,
			Name: text, TokenID: text, Claim: text, Found: text, WaitedFor: text,
		})
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range string(raw) {
		if r != '\n' && (r < ' ' || r >= 0x7F && r <= 0xA0 || strings.ContainsRune(hiddenRunes, r) ||
			r >= 0xE0000 && r <= 0xE0FFF) {
			t.Fatalf("byte %d is part of a bare %U", i, r)
		}
	}
	lines := linesOf(t, file)
	if len(lines) != len(texts) {
		t.Fatalf("got %d lines for %d records", len(lines), len(texts))
	}
	for i, line := range lines {
		want := string([]rune(texts[i])) // with U+FFFD for each byte that is no UTF-8
		for name, value := range line {
			got, _ := value.(string)
			if name == "time" || got == want {
				continue
			}
			bound := 64
			switch name {
			case "issuer", "subject", "client_id", "item", "whole_name", "rule", "name", "found":
				bound = 256
			case "request_id", "call_id", "arguments", "token_id", "claim":
				bound = 128
			}
			if len(texts[i]) <= bound || !strings.HasPrefix(want, got) || len(got) < bound-3 {
				t.Errorf("%s: got %.300q, want %.300q or its first %d bytes", name, got, want, bound)
			}
		}
	}
}

const hiddenRunes = "\u00AD\u034F\u061C\u115F\u180E\u200B\u200E\u202E\u2028\u2029\u2060\u2066\u2800\u3164\uFE00\uFE0F\uFEFF\uFFA0"

func hostileTexts(t *testing.T) []string {
	t.Helper()
	texts := []string{
		"a\r\nb", "a\n{\"outcome\":\"ok\"}", "\",\"outcome\":\"ok", "\x1b[2J\x1b]8;;http://evil\x07",
		"\x9b31m", "\u009b31m", "\x00", "a\x7f",
		"\xff\xfe", "\xed\xa0\x80", "half \xe2\x82", "\\", `\u0000`, hiddenRunes, "\U000E0041\U000E0100",
		"\U0001F600", "é€",
		strings.Repeat("x", 10_000), strings.Repeat("€", 100), strings.Repeat("x", 255) +
			"é", strings.Repeat("\U0001F600", 65), strings.Repeat("\xff", 300),
	}
	return append(texts, slices.DeleteFunc(corpus.Strings(t), func(s string) bool { return s == "" })...)
}

func TestConcurrentWriters(t *testing.T) {
	t.Parallel()
	for _, always := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "audit.jsonl")
		l := open(t, audit.Config{File: file, Always: always})
		var group sync.WaitGroup
		for writer := range 32 {
			group.Go(func() {
				for i := range 50 {
					if err := l.Write(&audit.Record{Time: noon, RequestID: fmt.Sprintf("%d-%d", writer,
						i)}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		seen := map[any]bool{}
		for _, line := range linesOf(t, file) {
			seen[line["request_id"]] = true
		}
		if len(seen) != 32*50 {
			t.Errorf("always %v: %d different records in the file, want %d", always, len(seen), 32*50)
		}
	}
}

// TestDeviceFull shows what becomes of records where nothing can be set aside for them:
// what is booked and cannot be written is an error, and nothing more is booked. With Drop
// nobody learns of it but who counts.
func TestDeviceFull(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	l := open(t, audit.Config{File: "/dev/full"})
	if err := l.Book(); err != nil {
		t.Errorf("the first: %v", err)
	}
	if err := l.Keep(&audit.Record{Time: noon}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got error %v, want %v", err, syscall.ENOSPC)
	}
	if err := l.Book(); !errors.Is(err, syscall.ENOSPC) || !errors.Is(l.Problem(), syscall.ENOSPC) {
		t.Errorf("booked although nothing can be written: error %v, problem %v", err, l.Problem())
	}
	var dropped atomic.Int64
	l = open(t, audit.Config{File: "/dev/full", Drop: true, Dropped: func(n int) { dropped.Add(int64(n)) }})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := l.Write(&audit.Record{Time: noon}); err != nil {
				t.Errorf("got error %v, want none", err)
			}
		})
	}
	group.Wait()
	if err := l.Close(); err == nil || dropped.Load() != 8 {
		t.Errorf("closed with error %v and %d records counted as lost, want one and 8", err, dropped.Load())
	}
}

func TestReopen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // time stands still: the log has none to notice by itself
		file := filepath.Join(t.TempDir(), "audit.jsonl")
		words := make(chan error, 10)
		l := open(t, audit.Config{File: file, Moved: func(err error) { words <- err }})
		l.Reopen() // it is where it was
		write(t, l, &audit.Record{Time: noon, RequestID: "before"})
		if err := os.Rename(file, file+".1"); err != nil {
			t.Fatal(err)
		}
		write(t, l, &audit.Record{Time: noon, RequestID: "between"})
		l.Reopen()
		write(t, l, &audit.Record{Time: noon, RequestID: "after"})
		if got := len(linesOf(t, file+".1")); got != 2 {
			t.Errorf("%d lines in the old file, want 2", got)
		}
		if got := linesOf(t, file); len(got) != 1 || got[0]["request_id"] != "after" {
			t.Errorf("got %v in the new file, want the record written after", got)
		}
		if err := os.RemoveAll(filepath.Dir(file)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			l.Reopen()
			write(t, l, &audit.Record{Time: noon}) // to the old file
		}
		if len(words) != 1 || <-words == nil {
			t.Error("reopened in a directory that is gone, want one error, and no word of what was announced")
		}
	})
}

// TestFileThatIsMovedAwayIsFollowed moves and removes the file without a word to the log.
// Its lines go to another at its place soon, and it is told once each time, also that
// none can be opened.
func TestFileThatIsMovedAwayIsFollowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "records")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "audit.jsonl")
		words := make(chan error, 10)
		l := open(t, audit.Config{File: file, Moved: func(err error) { words <- err }})
		var told []error
		settle := func() {
			time.Sleep(3 * time.Second)
			synctest.Wait()
			for len(words) > 0 {
				told = append(told, <-words)
			}
		}
		write(t, l, &audit.Record{Time: noon, RequestID: "before"})
		settle()
		for n, leave := range []func() error{
			func() error { return os.Rename(file, file+".1") },
			func() error { return os.Remove(file) },
		} {
			if err := leave(); err != nil {
				t.Fatal(err)
			}
			settle()
			write(t, l, &audit.Record{Time: noon, RequestID: "after"})
			if got := linesOf(t, file); len(got) != 1 || got[0]["request_id"] != "after" ||
				len(told) != n+1 || told[n] != nil {
				t.Errorf("got %v in the new file and was told %v, want the record written after and one word",
					got, told)
			}
		}
		if got := linesOf(t, file+".1"); len(got) != 1 || got[0]["request_id"] != "before" {
			t.Errorf("got %v in the old file, want the record written before", got)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		settle()
		write(t, l, &audit.Record{Time: noon}) // to the old file
		if len(told) != 3 || told[2] == nil || l.Problem() != nil {
			t.Errorf("was told %v with the problem %v, want one more error and no problem", told, l.Problem())
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		settle()
		write(t, l, &audit.Record{Time: noon, RequestID: "back"})
		if got := linesOf(t, file); len(got) != 1 || len(told) != 4 || told[3] != nil {
			t.Errorf(
				"got %v in the file and was told %v, want the record written after its directory came back",
				got, told)
		}
	})
}

func TestClosed(t *testing.T) {
	t.Parallel()
	for _, file := range []string{filepath.Join(t.TempDir(), "audit.jsonl"), "-"} {
		l := open(t, audit.Config{File: file})
		for range 2 {
			if err := l.Close(); err != nil {
				t.Errorf("%s: close: %v", file, err)
			}
		}
		if err := l.Write(&audit.Record{}); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: write: got error %v, want %v", file, err, os.ErrClosed)
		}
		l.Reopen()
	}
}

func TestNoLog(t *testing.T) {
	t.Parallel()
	var l *audit.Log
	l.Reopen()
	if err := errors.Join(l.Write(&audit.Record{}), l.Book(), l.Keep(&audit.Record{}), l.Problem(),
		l.Close()); err != nil {
		t.Error(err)
	}
}

func TestFileThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip(err)
	}
	for _, file := range []string{"", t.TempDir(), filepath.Join(t.TempDir(), "none", "audit.jsonl"), fifo} {
		if l, err := audit.Open(audit.Config{File: file}); err == nil {
			l.Close()
			t.Errorf("%q: opened, want an error", file)
		}
	}
}

// TestPipeWithSlowReader shows that a writer waits for a reader that is slow, and that
// nothing is lost or doubled.
func TestPipeWithSlowReader(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip(err)
	}
	reader, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	l := open(t, audit.Config{File: fifo})
	written := make(chan error)
	go func() {
		record := &audit.Record{Time: noon, RequestID: strings.Repeat("x", 250)}
		for i := range 1000 { // more than a pipe holds
			if err := l.Write(record); err != nil {
				written <- fmt.Errorf("record %d: %w", i, err)
				return
			}
		}
		written <- nil
	}()
	var text bytes.Buffer
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		io.Copy(&text, iotest.OneByteReader(reader)) // ends when the log is closed
	}()
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	<-copied
	reader.Close()
	if got := len(parse(t, text.Bytes())); got != 1000 {
		t.Errorf("%d records came through the pipe, want 1000", got)
	}
}

func BenchmarkWrite(b *testing.B) {
	record := &audit.Record{
		Time: noon, RequestID: "01J8Z3V6S9T2N4", TenantID: "acme", Issuer: "https://login.acme.example/",
		Subject: "alice@acme.example", ClientID: "claude-code",
		Method: "tools/call", Server: "github", Item: "github__search_code", Outcome: "ok",
		Arguments: "sha256:" + strings.Repeat("0f", 32), Duration: 12345 * time.Microsecond,
	}
	for _, mode := range []string{"interval", "always"} {
		for _, writers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/%d", mode, writers), func(b *testing.B) {
				l := open(b, audit.Config{
					File:   filepath.Join(b.TempDir(), "audit.jsonl"),
					Always: mode == "always",
				})
				b.ReportAllocs()
				b.ResetTimer()
				var left atomic.Int64
				left.Store(int64(b.N))
				var group sync.WaitGroup
				for range writers {
					group.Go(func() {
						for left.Add(-1) >= 0 {
							if err := l.Write(record); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				group.Wait()
			})
		}
	}
}

// BenchmarkFields compares what a record costs with and without the fields that say who
// decided, from where and with what: encoded, written and now and then made durable.
func BenchmarkFields(b *testing.B) {
	less := audit.Record{
		Time: noon, RequestID: "MH2ITDUTPWTD7PR24WZCN27POB", TenantID: "acme", Issuer: "https://login.acme.example/",
		Subject: "alice@acme.example", ClientID: "claude-code",
		Method: "tools/call", Server: "github", Item: "github__search_code", Outcome: "ok",
		Arguments: "k1:" + strings.Repeat("0f", 32), Duration: 12345 * time.Microsecond,
	}
	full := less
	full.TokenID, full.Session, full.Config = "MH2ITDUTPWTD7PR24WZCN27POB", "0123456789abcdef", "0123456789ab"
	full.Scopes, full.Ruled = []string{"tools.call"}, []string{"tools.call"}
	full.Client, full.Version, full.Remote = "claude-code", "2.1.0", "192.0.2.17"
	full.Wait, full.WaitedFor, full.Upstream = 1234*time.Nanosecond, "process", 12001*time.Microsecond
	for name, record := range map[string]*audit.Record{"with": &full, "without": &less} {
		b.Run(name, func(b *testing.B) {
			l := open(b, audit.Config{File: filepath.Join(b.TempDir(), "audit.jsonl")})
			for b.Loop() {
				if err := l.Write(record); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
