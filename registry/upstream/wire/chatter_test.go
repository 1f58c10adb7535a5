package wire

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// TestReadersOfOneServerShareItsPace has several streams of one server read messages of several sizes for ten seconds.
func TestReadersOfOneServerShareItsPace(t *testing.T) {
	t.Parallel()
	for _, streams := range []int{1, 40} {
		for size, each := range map[int]int{100: 1, 5 << 10: 6} {
			synctest.Test(t, func(t *testing.T) {
				chatter, read := &Chatter{}, make(chan int, streams)
				stop := time.Now().Add(10 * time.Second)
				for range streams {
					go func() {
						r, n := reader{count: func(Anomaly, int) {}, chatter: chatter}, 0
						for ; time.Now().Before(stop); n++ {
							r.pace(nil, size)
						}
						read <- n
					}()
				}
				total := 0
				for range streams {
					total += <-read
				}
				want := (chatterBurst + 10*chatterRate) / each
				if total < want*9/10 || total > want*11/10 {
					t.Errorf("%d streams with messages of %d bytes: %d were read, want about %d", streams, size, total, want)
				}
			})
		}
	}
}

func TestAPauseEndsWithItsStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, hurry := time.Now(), make(chan struct{})
		close(hurry)
		r := reader{count: func(Anomaly, int) {}, chatter: &Chatter{}}
		for range 1000 {
			r.pace(hurry, maxMessage)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v, want no time", took)
		}
	})
}

// TestTheLatestProgressIsKept fills the room for notifications of a call whose taker is slow.
func TestTheLatestProgressIsKept(t *testing.T) {
	t.Parallel()
	note := func(method string, n int) *mcp.Message {
		params, err := mcp.ParseObject(fmt.Appendf(nil, `{"progress":%d}`, n))
		if err != nil {
			t.Fatal(err)
		}
		return &mcp.Message{Method: method, Params: params}
	}
	for method, want := range map[string]int64{mcp.NotifyProgress: notesMax + 9, mcp.NotifyMessage: notesMax - 1} {
		notes, dropped := NewNotes(nil), 0
		for n := range notesMax + 10 {
			if !notes.Keep(note(method, n)) {
				dropped++
			}
		}
		close(notes.queue)
		last, left := int64(-1), 0
		for m := range notes.queue {
			got, _ := m.Params.Value("progress").Int()
			if got <= last {
				t.Errorf("%s %d came after %d", method, got, last)
			}
			last = got
			left++
		}
		if last != want || left != notesMax || dropped != 10 {
			t.Errorf("%s: %d wait, the last is %d, %d dropped; want %d, %d, 10", method, left, last, dropped, notesMax, want)
		}
	}
}
