package upstream_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// wired is a server without a network: time in its tests is exact.
type wired struct {
	web
	state atomic.Int32 // one of the below
	tries atomic.Int32 // requests while not up
}

const (
	answering = iota
	dead      // refuses connections
	hanging   // takes requests and stays silent
)

func (s *wired) RoundTrip(r *http.Request) (*http.Response, error) {
	switch s.state.Load() {
	case dead:
		s.tries.Add(1)
		return nil, errors.New("connection refused")
	case hanging:
		s.tries.Add(1)
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	recorder := httptest.NewRecorder()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	s.ServeHTTP(recorder, r)
	return recorder.Result(), nil
}

func (s *wired) config() upstream.Config {
	s.open = map[string]bool{}
	return upstream.Config{URL: "http://server.invalid/mcp", Client: &http.Client{Transport: s}}
}

// bubble runs an upstream on exact time.
func bubble(t *testing.T, s *wired, story func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, s.config())
		synctest.Wait()
		story(t, r)
		r.stop()
	})
}

// TestQuietDeathIsNoticed lets a server die that has no stream and is not called, and
// come back.
func TestQuietDeathIsNoticed(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		for _, state := range []int32{dead, hanging} {
			bubble(t, &wired{web: web{modern: modern}}, func(t *testing.T, r *rig) {
				s := r.server()
				if !r.last().Up {
					t.Fatalf("status: got %+v, want up", r.last())
				}
				s.state.Store(state)
				time.Sleep(80 * time.Second) // a check, and the time it may take
				synctest.Wait()
				if got := r.last(); got.Up || len(r.tools()) > 0 {
					t.Errorf("modern %v, state %d: got %+v with tools %q, want down", modern, state, got,
						r.tools())
				}
				s.state.Store(answering)
				time.Sleep(45 * time.Second) // the longest pause, and a hanging attempt
				synctest.Wait()
				if got := r.last(); !got.Up || got.Restarts != 1 || len(r.tools()) != 1 {
					t.Errorf("modern %v, state %d: got %+v, want up again", modern, state, got)
				}
			})
		}
	}
}

// TestBackoffGrowsAndHasALimit counts attempts at a dead server.
func TestBackoffGrowsAndHasALimit(t *testing.T) {
	t.Parallel()
	s := &wired{}
	s.state.Store(dead)
	bubble(t, s, func(t *testing.T, r *rig) {
		if got := r.last(); !got.Tried || got.Up || got.Problem != "connection refused" {
			t.Errorf("status: got %+v, want tried, down and why", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := s.tries.Load(); got < 3 || got > 8 {
			t.Errorf("attempts in the first second: got %d, want some", got)
		}
		time.Sleep(2 * time.Minute)
		before := s.tries.Load()
		time.Sleep(10 * time.Minute)
		if got := s.tries.Load() - before; got < 19 || got > 41 {
			t.Errorf("attempts in ten minutes: got %d, want one every 15 to 30 s", got)
		}
	})
}

// TestHangingHandshakeHasALimit shows when a silent server counts as tried.
func TestHangingHandshakeHasALimit(t *testing.T) {
	t.Parallel()
	s := &wired{}
	s.state.Store(hanging)
	bubble(t, s, func(t *testing.T, r *rig) {
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if r.last().Tried {
			t.Error("tried after 9 s, want patience")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := r.last(); !got.Tried || got.Up || got.Problem != "no answer to the handshake in time" {
			t.Errorf("status after 11 s: got %+v, want down", got)
		}
	})
}

// TestListIsPolledWhereNothingIsTold changes the list of a server that has no way to say
// so.
func TestListIsPolledWhereNothingIsTold(t *testing.T) {
	t.Parallel()
	for ttl, within := range map[string]time.Duration{
		`"ttlMs":0`: 40 * time.Second, `"ttlMs":1`: 40 * time.Second, `"x":1`: 40 * time.Second,
		`"ttlMs":120000`: 130 * time.Second, `"ttlMs":9007199254740993`: 11 * time.Minute,
		`"ttlMs":-5`: 40 * time.Second, `"ttlMs":-9000000000000000`: 40 * time.Second,
	} {
		s := &wired{web: web{modern: true}}
		var lists atomic.Int32
		s.list = func(w http.ResponseWriter, m wire) {
			lists.Add(1)
			sendJSON(w, m.ID, `{"tools":[],`+ttl+`}`)
		}
		bubble(t, s, func(t *testing.T, _ *rig) {
			first := lists.Load()
			time.Sleep(25 * time.Second)
			if got := lists.Load(); got != first {
				t.Errorf("%s: listed again %d times within 25 s", ttl, got-first)
			}
			time.Sleep(within - 25*time.Second)
			if got := lists.Load(); got != first+1 {
				t.Errorf("%s: listed again %d times within %v, want once", ttl, got-first, within)
			}
		})
	}
}
