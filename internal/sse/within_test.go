package sse_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/drawbridge-mcp/drawbridge/internal/sse"
)

var errFull = errors.New("full")

// TestLongEventsArriveWhole reads events that are longer than what is kept between two,
// in every way to write lines.
func TestLongEventsArriveWhole(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789", 20_000)
	for _, end := range []string{"\n", "\r", "\r\n"} {
		stream := strings.ReplaceAll("\uFEFFdata: "+long+"\n\n"+"data: "+long+"\ndata:\ndata: "+long+
			"\nid: 7\n\n"+"data: short\n\n"+"data: a\ndata: "+long+"\n\n", "\n", end)
		want := []string{long, long + "\n\n" + long, "short", "a\n" + long}
		for name, from := range map[string]func() (kept [][]byte, held []int){
			"at once": func() ([][]byte,
				[]int,
			) {
				return within(t, stream, func(int) error { return nil })
			},
			"in small bits": func() ([][]byte, []int) { return halves(t, stream) },
		} {
			kept, held := from()
			if len(kept) != len(want) {
				t.Fatalf("%q %s: %d events, want %d", end, name, len(kept), len(want))
			}
			for i := range want {
				if string(kept[i]) != want[i] { // also the first, which was kept until now
					t.Errorf("%q %s: event %d has %d bytes and differs, want %d", end, name, i, len(kept[i]),
						len(want[i]))
				}
			}
			for i, most := range []int{2 * len(long), 4 * len(long), 2 * len(long), 4 * len(long)} {
				if held[i] > most {
					t.Errorf("%q %s: %d bytes are held at event %d, want at most %d", end, name, held[i], i,
						most)
				}
			}
		}
	}
}

// within reads a stream, and returns the data of its events, and how much was held when
// each was there.
func within(t *testing.T, stream string, reserve func(int) error) (kept [][]byte, held []int) {
	t.Helper()
	now := 0
	for event, err := range sse.ReadWithin(strings.NewReader(stream), 16<<20,
		func(n int) error { now = n; return reserve(n) }, func(int) {}) {
		if err != nil || event.Lost != nil {
			t.Fatalf("got %v, lost %v", err, event.Lost)
		}
		data := event.Data
		if len(data) <= sse.MaxRetained {
			data = bytes.Clone(data)
		}
		kept, held = append(kept, data), append(held, now)
	}
	return kept, held
}

func halves(t *testing.T, stream string) (kept [][]byte, held []int) {
	t.Helper()
	now := 0
	for event, err := range sse.ReadWithin(iotest.HalfReader(strings.NewReader(stream)), 16<<20,
		func(n int) error { now = n; return nil }, func(int) {}) {
		if err != nil {
			t.Fatal(err)
		}
		kept, held = append(kept, bytes.Clone(event.Data)), append(held, now)
	}
	return kept, held
}

// TestEventsWithoutRoomAreSkipped refuses memory beyond a bound. What is too large is
// lost, and shows how it began and ended; what comes before and after it arrives.
func TestEventsWithoutRoomAreSkipped(t *testing.T) {
	t.Parallel()
	long := `{"id":1,` + strings.Repeat("x", 300_000) + `,"end":2}`
	lines := `{"id":1,` + strings.Repeat("\ndata: "+strings.Repeat("y", 1000), 300) + "\ndata: " + `,"end":2}`
	for name, large := range map[string]string{"in one line": long, "in many lines": lines} {
		for _, end := range []string{"\n", "\r\n"} {
			stream := strings.ReplaceAll("data: before\n\nid: 8\ndata: "+large+"\n\ndata: after\n\ndata: "+
				large+"\n\n", "\n", end)
			most, got := 0, ""
			for event, err := range sse.ReadWithin(strings.NewReader(stream), 16<<20, func(n int) error {
				if n > 100_000 {
					return errFull
				}
				most = max(most, n)
				return nil
			}, func(int) {}) {
				switch {
				case err != nil:
					t.Fatal(err)
				case event.Lost != nil:
					if !errors.Is(event.Lost, errFull) || !bytes.HasPrefix(event.Data, []byte(`{"id":1,`)) ||
						!bytes.HasSuffix(event.End, []byte(`,"end":2}`)) ||
						len(event.Data)+len(event.End) > 1024 {
						t.Errorf("%s: lost %v, from %.20q to %q", name, event.Lost, event.Data, event.End)
					}
					got += fmt.Sprintf("lost(%s) ", event.ID)
				default:
					got += string(event.Data) + " "
				}
			}
			if got != "before lost(8) after lost() " {
				t.Errorf("%s, %q: got %q", name, end, got)
			}
		}
	}
}

// TestLinesAreTold reads a stream that has more comments, empty lines and ids than data.
func TestLinesAreTold(t *testing.T) {
	t.Parallel()
	lines, bytes := 0, 0
	stream := ": a comment\n\n\nid: 1\n\nevent: message\ndata: not told\n\nodd\n"
	for _, err := range sse.ReadWithin(strings.NewReader(stream), 1<<20, func(int) error { return nil },
		func(n int) { lines++; bytes += n }) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if want := len(": a comment" + "id: 1" + "event: message" + "odd"); lines != 9 || bytes != want {
		t.Errorf("%d lines of %d bytes, want 9 of %d", lines, bytes, want)
	}
}
