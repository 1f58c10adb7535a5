package wire

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// TestReadersOfOneServerShareItsPace has several streams of one server read messages of
// several sizes for ten seconds.
func TestReadersOfOneServerShareItsPace(t *testing.T) {
	t.Parallel()
	for _, streams := range []int{1, 40} {
		for size, each := range map[int]int{100: 1, 5 << 10: 6} {
			synctest.Test(t, func(t *testing.T) {
				throttle, read := &Throttle{}, make(chan int, streams)
				stop := time.Now().Add(10 * time.Second)
				for range streams {
					go func() {
						r, n := reader{count: func(Anomaly, int) {}, throttle: throttle}, 0
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
				want := (throttleBurst + 10*throttleRate) / each
				if total < want*9/10 || total > want*11/10 {
					t.Errorf("%d streams with messages of %d bytes: %d were read, want about %d", streams,
						size, total, want)
				}
			})
		}
	}
}

// TestAFloodIsOverWhenItEnds has many streams of a server bring large messages for a
// minute. Soon after that, a message makes nobody pause.
func TestAFloodIsOverWhenItEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		throttle, stop := &Throttle{}, time.Now().Add(time.Minute)
		for range 40 {
			go func() {
				for r := (reader{count: func(Anomaly, int) {}, throttle: throttle}); time.Now().Before(stop); {
					r.pace(nil, 1<<20)
				}
			}()
		}
		time.Sleep(time.Minute + 5*time.Second)
		if pause := throttle.take(100); pause > 0 {
			t.Errorf("five seconds after the flood: got a pause of %v, want none", pause)
		}
	})
}

// TestWhatSaysNothingIsPaced reads 8 MiB from servers that send everything but messages.
func TestWhatSaysNothingIsPaced(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"comments":               ": x\n\n",
		"short lines of data":    "data: x\n",
		"empty lines":            "\n",
		"ids":                    "id: 1\n\n",
		"events of another type": "event: other\ndata: x\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, flood := time.Now(), strings.NewReader(strings.Repeat(line, 8<<20/len(line)))
				r := reader{count: func(Anomaly, int) {}, throttle: &Throttle{}}
				if err := r.stream(t.Context(), flood, &progress{}, nil,
					func(*mcp.Message) bool { return false }); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < time.Second {
					t.Errorf("it was read in %v, as fast as it came", took)
				}
			})
		})
	}
}

// TestChildrenThatSayNothingArePaced has a child flood its standard output with empty
// lines, or with lines that are no messages, or its standard error.
func TestChildrenThatSayNothingArePaced(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"output": strings.Repeat("\n", 2<<20),
		"words":  strings.Repeat("it works\n", 20_000),
		"object": strings.Repeat("{ state: 'up' }\n", 20_000),
		"error":  strings.Repeat(strings.Repeat("e", 100)+"\n", 20_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filled(t, text)
			synctest.Test(t, func(t *testing.T) {
				began, r := time.Now(), reader{count: func(Anomaly, int) {}, throttle: &Throttle{}}
				k := &Child{
					duplex: newDuplex(&eventRecorder{}, r, Memory{}), stdout: file, stderr: file,
					said: &LastLines{}, logger: slog.New(slog.DiscardHandler), silent: make(chan struct{}),
				}
				if name == "error" {
					k.readErrors(t.Context())
				} else if err := k.receive(t.Context()); !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				if took := time.Since(began); took < time.Second {
					t.Errorf("it was read in %v, as fast as it came", took)
				}
			})
		})
	}
}

// filled returns a file that holds the text.
func filled(t *testing.T, text string) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "output")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func TestAPauseEndsWithItsStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, hurry := time.Now(), make(chan struct{})
		close(hurry)
		r := reader{count: func(Anomaly, int) {}, throttle: &Throttle{}}
		for range 1000 {
			r.pace(hurry, maxMessage)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v, want no time", took)
		}
	})
}

// TestTheLatestProgressIsKept fills the room for notifications of a call whose taker is
// slow.
func TestTheLatestProgressIsKept(t *testing.T) {
	t.Parallel()
	note := func(method string, n int) *mcp.Message {
		params, err := mcp.ParseObject(fmt.Appendf(nil, `{"progress":%d}`, n))
		if err != nil {
			t.Fatal(err)
		}
		return &mcp.Message{Method: method, Params: params}
	}
	for method, want := range map[string]int64{
		mcp.NotifyProgress: notesMax + 9,
		mcp.NotifyMessage:  notesMax - 1,
	} {
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
			t.Errorf("%s: %d wait, the last is %d, %d dropped; want %d, %d, 10", method, left, last, dropped,
				notesMax, want)
		}
	}
}

// TestALargeNoteWaitsBehindNoOther keeps a slow taker from holding a queue of
// notifications that are as large as a message may be.
func TestALargeNoteWaitsBehindNoOther(t *testing.T) {
	t.Parallel()
	for _, method := range []string{mcp.NotifyProgress, mcp.NotifyMessage} {
		small := &mcp.Message{Method: method}
		large := &mcp.Message{Method: method, Params: mcp.NewObject(
			mcp.Member{Name: "message", Value: mcp.String(strings.Repeat("x", noteMax))})}
		notes := NewNotes(nil)
		if !notes.Keep(large) || !notes.Keep(small) || notes.Keep(large) {
			t.Errorf("%s: want the first and one behind it that is small, and no other large one", method)
		}
		waiting := 0
		notes.Each(func(*mcp.Message) { waiting++ })
		if waiting != 2 || !notes.Keep(large) {
			t.Errorf("%s: %d waited, want 2, and then room for a large one again", method, waiting)
		}
	}
}
