package sse_test

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/internal/sse"
)

// collect reads all events, with copies of their data.
func collect(r io.Reader, limit int) ([]sse.Event, error) {
	var events []sse.Event
	for e, err := range sse.Read(r, limit) {
		if err != nil {
			return events, err
		}
		if e.Data != nil {
			e.Data = append([]byte{}, e.Data...)
		}
		events = append(events, e)
	}
	return events, nil
}

func data(text string) sse.Event { return sse.Event{Data: []byte(text)} }

func TestRead(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, stream string
		want         []sse.Event
	}{
		{"one event", "data: a\n\n", []sse.Event{data("a")}},
		{"no space after the colon", "data:a\n\n", []sse.Event{data("a")}},
		{"only one space is taken", "data:  a\n\n", []sse.Event{data(" a")}},
		{"several data lines", "data: a\ndata\ndata: b\n\n", []sse.Event{data("a\n\nb")}},
		{"CR", "data: a\rdata: b\r\rdata: c\r\r", []sse.Event{data("a\nb"), data("c")}},
		{"CRLF", "data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", []sse.Event{data("a\nb"), data("c")}},
		{"LF CR is two line ends", "data: a\n\rdata: b\n\n", []sse.Event{data("a"), data("b")}},
		{"BOM at the start", "\uFEFFdata: a\n\n", []sse.Event{data("a")}},
		{"only one BOM", "\uFEFF\uFEFFdata: a\n\n", nil},
		{"BOM later is part of a name", "data: a\n\n\uFEFFdata: b\n\n", []sse.Event{data("a")}},
		{"all fields", "id: 7\nevent: message\nretry: 1500\ndata: x\n\n", []sse.Event{
			{ID: "7", HasID: true, Type: "message", Retry: 1500 * time.Millisecond, Data: []byte("x")},
		}},
		{"an id is of its event only", "id: 7\ndata: a\n\ndata: b\n\n", []sse.Event{
			{ID: "7", HasID: true, Data: []byte("a")}, data("b"),
		}},
		{"empty id", "id\ndata: a\n\n", []sse.Event{{HasID: true, Data: []byte("a")}}},
		{"NUL in an id", "id: 1\x002\ndata: a\n\n", []sse.Event{data("a")}},
		{"NUL in data", "data: a\x00b\n\n", []sse.Event{data("a\x00b")}},
		{
			"retry that is no number",
			"retry: +5\nretry: 1e3\nretry: -1\nretry: 99999999999999999999\ndata: a\n\n",
			[]sse.Event{data("a")},
		},
		{"comments", ": hi\n:\ndata: a\n: there\ndata: b\n\n: bye\n\n", []sse.Event{data("a\nb")}},
		{"unknown fields", "Data: a\n data: b\ndata : c\nfoo: d\nbar\ndata: e\n\n", []sse.Event{data("e")}},
		{"empty data", "data\n\ndata: \n\n", []sse.Event{data(""), data("")}},
		{"priming event", "id: 1\ndata: \n\n", []sse.Event{{ID: "1", HasID: true, Data: []byte{}}}},
		{"id alone", "id: 1\n\n", []sse.Event{{ID: "1", HasID: true}}},
		{"retry alone", "retry: 3000\n\n", []sse.Event{{Retry: 3 * time.Second}}},
		{"a type alone tells nothing and is forgotten", "event: x\n\ndata: a\n\n", []sse.Event{data("a")}},
		{"an event cut short", "data: a\n\ndata: b\n", []sse.Event{data("a")}},
		{"a line cut short", "data: a\n\ndata: b", []sse.Event{data("a")}},
		{"blank lines", "\n\r\n\r\n\ndata: a\n\n\n\n", []sse.Event{data("a")}},
		{"colons in data", "data: a: b:\n\n", []sse.Event{data("a: b:")}},
		{"empty stream", "", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			readers := map[string]io.Reader{
				"at once":           strings.NewReader(test.stream),
				"byte by byte":      iotest.OneByteReader(strings.NewReader(test.stream)),
				"error beside data": iotest.DataErrReader(strings.NewReader(test.stream)),
			}
			for how, r := range readers {
				got, err := collect(r, 100)
				if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
					t.Errorf("%s: Read(%q): error %v, -want +got:\n%s", how, test.stream, err, diff)
				}
			}
		})
	}
}

// TestReadDoesNotWaitForLF shows that an event which ends with CR is told before anything
// follows.
func TestReadDoesNotWaitForLF(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	next := make(chan string)
	go func() {
		defer close(next)
		for e, err := range sse.Read(r, 100) {
			if err != nil {
				t.Errorf("Read: %v", err)
				return
			}
			next <- string(e.Data)
		}
	}()
	for _, step := range []struct{ write, want string }{
		{"data: a\r\r", "a"},
		{"\ndata: b\r\n\r", "b"},
		{"\ndata: c\n\n", "c"},
	} {
		if _, err := io.WriteString(w, step.write); err != nil {
			t.Fatal(err)
		}
		if got := <-next; got != step.want {
			t.Errorf("after %q: got %q, want %q", step.write, got, step.want)
		}
	}
	w.Close()
	if text, open := <-next; open {
		t.Errorf("event after the end: %q", text)
	}
}

func TestReadErrors(t *testing.T) {
	t.Parallel()
	cut := errors.New("cut")
	tests := []struct {
		name   string
		source io.Reader
		want   error
		events int
	}{
		{"at the limit", strings.NewReader("data:34567890\n\n"), nil, 1},
		{
			"at the limit, byte by byte", iotest.OneByteReader(strings.NewReader("data:34567890\n\n")), nil,
			1,
		},
		{"a line over the limit", strings.NewReader("data: 56789012345678\n\n"), sse.ErrTooLong, 0},
		{
			"an endless line", io.MultiReader(strings.NewReader("data: a\n\n"), endless("x")), sse.ErrTooLong,
			1,
		},
		{"an endless event", endless("data: a\n"), sse.ErrTooLong, 0},
		{"an endless event of empty lines", endless("data\n"), sse.ErrTooLong, 0},
		{
			"id, type and data together", strings.NewReader("id: 12345\nevent: 12345\ndata: 12345\n\n"),
			sse.ErrTooLong, 0,
		},
		{"an error of the source", io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"),
			iotest.ErrReader(cut)), cut, 1},
		{"a source that brings nothing", silent{}, io.ErrNoProgress, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			events, err := collect(test.source, 13)
			if !errors.Is(err, test.want) || len(events) != test.events {
				t.Errorf("got %d events and error %v, want %d and %v", len(events), err, test.events,
					test.want)
			}
		})
	}
}

// endless repeats its text for ever.
func endless(text string) io.Reader { return &repeater{text: text} }

type repeater struct {
	text string
	at   int
}

func (r *repeater) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = r.text[r.at%len(r.text)]
		r.at++
	}
	return len(p), nil
}

type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }

// TestT32CommentFlood shows that comments, however many, neither end a stream nor gather
// in memory.
func TestT32CommentFlood(t *testing.T) {
	const size = 8 << 20
	flood := io.LimitReader(endless(": still here, still here, still here\n"), size)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	events, err := collect(io.MultiReader(flood, strings.NewReader("\n\ndata: a\n\n")), 1000)
	runtime.ReadMemStats(&after)
	if err != nil || len(events) != 1 {
		t.Fatalf("got %d events and error %v, want 1 and none", len(events), err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("%d bytes allocated for %d bytes of comments", grown, size)
	}
}

// TestT32NothingInAnEventPassesForAField writes what a hostile server may want to smuggle
// into a stream.
func TestT32NothingInAnEventPassesForAField(t *testing.T) {
	t.Parallel()
	hostile := []string{
		"a\n\ndata: {\"evil\":1}\n\n", "a\r\rdata: evil\r\r", "a\r\n\r\nid: 9\r\nevent: evil\r\n\r\n", "\n",
		"\r", "\r\n", "a\n", "a\r",
		"{\n  \"pretty\": \"printed\"\n}", strings.Repeat("x", 10<<20),
	}
	for _, text := range hostile {
		stream := sse.Append(nil, sse.Event{ID: text, HasID: true, Type: text, Data: []byte(text)})
		stream = sse.AppendComment(stream, text)
		stream = sse.Append(stream, data("next"))
		events, err := collect(bytes.NewReader(stream), 64<<20)
		if err != nil || len(events) != 2 {
			t.Fatalf("%.40q: got %d events and error %v, want 2 and none", text, len(events), err)
		}
		breaks := strings.NewReplacer("\r\n", "\n", "\r", "\n")
		want := breaks.Replace(text)
		if got := string(events[0].Data); got != want {
			t.Errorf("%.40q: got data %.40q, want %.40q", text, got, want)
		}
		if name := strings.NewReplacer("\r", "", "\n", "").Replace(text); events[0].ID != name &&
			strings.TrimPrefix(name, " ") != events[0].ID || events[0].Type != events[0].ID {
			t.Errorf("%.40q: got id %.40q and type %.40q", text, events[0].ID, events[0].Type)
		}
		if diff := cmp.Diff(data("next"), events[1]); diff != "" {
			t.Errorf("%.40q: the next event differs, -want +got:\n%s", text, diff)
		}
	}
}

func TestAppend(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		event sse.Event
		want  string
	}{
		{"message", data(`{"a":1}`), "data: {\"a\":1}\n\n"},
		{"all fields", sse.Event{
			ID: "s1-7", HasID: true, Type: "endpoint", Retry: 2 * time.Second,
			Data: []byte("/m"),
		}, "id: s1-7\nevent: endpoint\nretry: 2000\ndata: /m\n\n"},
		{"priming", sse.Event{ID: "s1-0", HasID: true, Data: []byte{}}, "id: s1-0\ndata: \n\n"},
		{"retry alone", sse.Event{Retry: time.Second}, "retry: 1000\n\n"},
		{"an id that was not set", sse.Event{ID: "1", Data: []byte("a")}, "data: a\n\n"},
	}
	for _, test := range tests {
		if got := string(sse.Append([]byte("x"), test.event)); got != "x"+test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, "x"+test.want)
		}
	}
	if got, want := string(sse.AppendComment(nil, "a\nb")), ": a\n: b\n"; got != want {
		t.Errorf("comment: got %q, want %q", got, want)
	}
}

// TestEmptyLinesCostTheSameWhateverEndsThem holds for many that came at once, into the
// buffer of a long line before them.
func TestEmptyLinesCostTheSameWhateverEndsThem(t *testing.T) {
	const many = 1 << 20
	read := func(end string) time.Duration {
		stream := ":" + strings.Repeat("x", 2*many) + "\n" + strings.Repeat(end, many)
		least := time.Hour // others may have had the processor meanwhile
		for range 3 {
			begun := time.Now()
			if _, err := collect(strings.NewReader(stream), 3*many); err != nil {
				t.Fatal(err)
			}
			least = min(least, time.Since(begun))
		}
		return least
	}
	if feeds, returns := read("\n"), read("\r"); returns > time.Second+30*feeds {
		t.Errorf("%d lines took %v with CR and %v with LF", many, returns, feeds)
	}
}
