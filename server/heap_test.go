//go:build !race

package server_test

import (
	"math"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// The race detector takes memory of its own, and ten times as long to fill it: make
// allocations runs these.

// TestTheSumOfWhatIsHeldFitsTheHeap lets everything hold memory that can, each kind alone
// and then all at once, and compares what they say they hold with the memory that they
// take. Decoded arguments have a test of their own in package schema, because they are
// there only while they are checked.
func TestTheSumOfWhatIsHeldFitsTheHeap(t *testing.T) {
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range (&holdersLab{}).kinds() {
			if !yield(name) {
				return
			}
		}
	})
	for _, name := range names {
		t.Run(name, func(t *testing.T) { compareWithHeap(t, 1<<20, name) })
	}
	t.Run("all", func(t *testing.T) { compareWithHeap(t, 40<<20, names...) })
}

func compareWithHeap(t *testing.T, least float64, names ...string) {
	l := &holdersLab{text: strings.Repeat("y", mega)}
	bubble(t, func(t *testing.T, w *world) {
		l.world, l.h, l.awake = w, w.Handler(), make(chan struct{})
		l.leaving = make(chan struct{})
		stop := l.connect()
		wait(t)
		var begin []func()
		for _, name := range names {
			begin = append(begin, l.kinds()[name](t))
		}
		l.do(t, modernCall("echo")) // what is made for the first call stays
		held, live := w.config.Memory.InUse(), heap()
		for _, do := range begin {
			do()
		}
		synctest.Wait()
		heldMore, liveMore := float64(w.config.Memory.InUse()-held), float64(heap()-live)
		t.Logf("held %.2f MB, in memory %.2f MB", heldMore/1e6, liveMore/1e6)
		if ratio := liveMore / heldMore; heldMore < least || math.IsNaN(ratio) || ratio > 1.5 ||
			ratio < 1/1.5 {
			t.Errorf(
				"%s: held %.2f MB, in memory %.2f MB; want some MB, and 1.5 times as much or as little at most",
				strings.Join(names, ", "), heldMore/1e6, liveMore/1e6)
		}
		close(l.awake)
		close(l.leaving)
		stop()
		synctest.Wait()
	}, memory(512<<20), busy, l.far)
}

// TestCountsOfBodiesFitTheHeap compares what is counted of bodies with the memory that
// they take, in every way in which a body comes.
func TestCountsOfBodiesFitTheHeap(t *testing.T) {
	for _, test := range []struct {
		name string
		size int
		sent func(*http.Request) *http.Request
	}{
		{"of a declared length", 1_000_000, func(r *http.Request) *http.Request { return r }},
		{"of unknown length", 700_000, func(r *http.Request) *http.Request {
			r.ContentLength = -1
			return r
		}},
		{"small", 40_000, func(r *http.Request) *http.Request { return r }},
	} {
		bubble(t, func(t *testing.T, w *world) {
			h := w.Handler()
			calls := 16_000_000 / test.size
			body := large("slow", "alice", test.size).body
			before := heap()
			for range calls {
				m := modernCall("slow")
				m.body = body // of which all share the text that the client sends
				go record(h, test.sent(m.request(t.Context(), "")))
			}
			synctest.Wait()
			held, live := float64(w.config.Memory.InUse()), float64(heap()-before)
			if started, _ := w.counts(); started != calls {
				t.Fatalf("%s: %d of %d calls are under way", test.name, started, calls)
			}
			if ratio := live / held; math.IsNaN(ratio) || ratio > 1.5 || ratio < 1/1.5 {
				t.Errorf("bodies %s: counted %.1f MB, in memory %.1f MB", test.name, held/1e6, live/1e6)
			}
			w.letGo()
			synctest.Wait()
		}, memory(256<<20), busy)
	}
}

// heap returns the bytes of all objects that are in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // the first one may leave what pools held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestCountsOfAnswersFitTheHeap compares what is counted of answers that wait for slow
// clients with the memory that they take.
func TestCountsOfAnswersFitTheHeap(t *testing.T) {
	for _, form := range []string{"modern", "modern, streamed", "legacy"} {
		for _, size := range []int{40_000, 1_000_000} {
			bubble(t, func(t *testing.T, w *world) {
				clients := newDeafClients(w)
				call := bulkCalls(t, w)[form]
				calls := 16_000_000 / size
				before := heap()
				for range calls {
					clients.call(t, call("alice"))
				}
				synctest.Wait()
				if got := clients.waits("alice"); got != calls {
					t.Fatalf("%s: %d of %d answers wait", form, got, calls)
				}
				held, live := float64(w.config.Memory.InUse()), float64(heap()-before)
				if ratio := live / held; math.IsNaN(ratio) || ratio > 1.5 || ratio < 1/1.5 {
					t.Errorf("%s, %d bytes: counted %.1f MB, in memory %.1f MB", form, size, held/1e6,
						live/1e6)
				}
				close(clients.awake)
				synctest.Wait()
			}, memory(256<<20), busy, bulk(size))
		}
	}
}
