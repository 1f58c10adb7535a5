package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// memory gives the world a budget for what is held for clients.
func memory(size int64) func(*world) {
	return func(w *world) { w.config.Memory = share.New(size) }
}

// busy lets the tenants have many calls at once.
func busy(w *world) {
	many := 10_000
	for i := range w.tenants {
		w.tenants[i].Limits.Concurrency = &many
	}
}

// large is a call with an argument of about that many bytes.
func large(tool, token string, size int) message {
	m := modernCall(tool)
	m.token = token
	m.body = strings.Replace(m.body, `"text":"x"`, `"text":"`+strings.Repeat("x", size)+`"`, 1)
	return m
}

// TestSlowBodiesLeaveRoomForOthers lets one tenant send the beginnings of many bodies and
// wait. What is not sent holds nothing, so that another tenant is answered as if it were
// alone.
func TestSlowBodiesLeaveRoomForOthers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		h := w.Handler()
		for _, length := range []int64{-1, 1 << 20} {
			var ends []io.Closer
			for range 64 {
				slow := modernCall("echo").request(t.Context(), "")
				from, to := io.Pipe()
				slow.ContentLength, slow.Body = length, from
				go record(h, slow)
				io.WriteString(to, `{"jsonrpc":`)
				ends = append(ends, to)
			}
			synctest.Wait()
			quiet := modernCall("echo")
			quiet.token = "alice-globex"
			for n := range 40 {
				if got := record(h, quiet.request(t.Context(), "")); got.Code != http.StatusOK {
					t.Errorf("length %d: call %d of the quiet tenant: got %d %s", length, n, got.Code,
						got.Body)
				}
			}
			if got := w.config.Memory.InUse(); got != 0 {
				t.Errorf("length %d: a few bytes each hold %d", length, got)
			}
			for _, end := range ends {
				end.Close()
			}
			synctest.Wait()
		}
	}, memory(8<<20))
}

// TestBodiesStayWithinTheirShare lets one user send as many large bodies as it can. It is
// told that its share is used up; a colleague and another tenant find room; and all is
// given back in the end.
func TestBodiesStayWithinTheirShare(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		h := w.Handler()
		refused := func(token string, size int) *httptest.ResponseRecorder {
			t.Helper()
			for range 200 {
				done := make(chan *httptest.ResponseRecorder, 1)
				go func() { done <- record(h, large("slow", token, size).request(t.Context(), "")) }()
				time.Sleep(50 * time.Millisecond) // as long as the largest takes at the pace of what is large
				synctest.Wait()
				select {
				case got := <-done:
					return got
				default: // it is under way
				}
			}
			t.Fatalf("%s: 200 calls are under way at once", token)
			return nil
		}
		want := func(who string, got *httptest.ResponseRecorder, status int, code string) {
			t.Helper()
			if got.Code != status || stable(t, got.Body) != code || got.Header().Get("Retry-After") != "1" {
				t.Errorf("%s: got %d %v %s, want %d %s", who, got.Code, got.Header(), got.Body, status, code)
			}
		}
		want("a user that takes all", refused("alice", 1_000_000), http.StatusTooManyRequests,
			"DB-LIMIT-MEMORY")
		want("a colleague that does too", refused("bob", 1_000_000), http.StatusTooManyRequests,
			"DB-LIMIT-MEMORY")
		want("a third of that tenant", refused("alice-issuer", 5_000_000), http.StatusTooManyRequests,
			"DB-LIMIT-MEMORY")
		want("more than is left", refused("alice-globex", 7<<20), http.StatusServiceUnavailable,
			"DB-OVERLOAD-MEMORY")
		if got := record(h, large("echo", "alice-globex", 1_000_000).request(t.Context(),
			"")); got.Code != http.StatusOK {
			t.Errorf("another tenant beside them: got %d %s", got.Code, got.Body)
		}
		if top := w.config.Memory.Top(1); len(top) != 1 || top[0].TenantID != "acme" {
			t.Errorf("got %v as the largest holder, want acme", top)
		}
		w.letGo()
		synctest.Wait()
		if got := w.config.Memory.InUse(); got != 0 {
			t.Errorf("%d bytes are held after all calls have ended", got)
		}
	}, memory(32<<20), busy, func(w *world) { w.config.MaxBody = 1 << 30 })
}

// TestABodyThatNeverFitsIsToldSo sends bodies that a user could not hold even if nobody
// held anything: to try again later would be no use. A smaller one passes, whether it
// says how long it is or not.
func TestABodyThatNeverFitsIsToldSo(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		h := w.Handler()
		most := int(w.config.Memory.Most())
		for _, announced := range []bool{true, false} {
			for size, want := range map[int]int{
				most + share.Step:   http.StatusRequestEntityTooLarge,
				most - 2*share.Step: http.StatusOK,
			} {
				r := large("echo", "usual", size).request(t.Context(), "")
				if !announced {
					r.ContentLength = -1
				}
				got := record(h, r)
				if got.Code != want || want != http.StatusOK && (stable(t, got.Body) != "DB-BODY-SIZE" ||
					!strings.Contains(got.Body.String(), "(limits.memory), "+
						mcp.InBytes(int64(most/share.Step*share.Step))) ||
					got.Header().Get("Retry-After") != "") {
					t.Errorf("%d of %d bytes, announced %t: got %d %v %.300s, want %d", size, most, announced,
						got.Code, got.Header(), got.Body, want)
				}
			}
		}
	}, memory(4<<20), busy, func(w *world) { w.config.MaxBody = 1 << 30 })
}

// TestTheLeastMemoryServesALargeCall: with the least memory that a config may ask for, of
// which half is set aside for the places among the calls, a call and its answer of 64 KiB
// pass.
func TestTheLeastMemoryServesALargeCall(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		if got := record(w.Handler(), large("echo", "usual", 64<<10).request(t.Context(),
			"")); got.Code != http.StatusOK || strings.Contains(got.Body.String(), "DB-") {
			t.Errorf("got %d %.300s", got.Code, got.Body)
		}
	}, memory(2<<20))
}

// TestDecodedArgumentsStayWithinTheirShare sends arguments that take fifty times their
// text while they are checked: they are wrong, and to say why they have to be decoded.
// Right ones of the same size need no decoding with this schema.
func TestDecodedArgumentsStayWithinTheirShare(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		memory int64
		text   string
		status int
		stable string
	}{
		{16 << 20, `7`, http.StatusTooManyRequests, "DB-LIMIT-MEMORY"},
		{16 << 20, `"x"`, http.StatusOK, ""},
		{256 << 20, `7`, http.StatusOK, ""},
	} {
		w := newWorld(t, memory(test.memory))
		rows := modernCall("echo")
		rows.body = strings.Replace(rows.body, `"text":"x"`, `"text":`+test.text+`,"rows":[`+
			strings.Repeat(`{"a":1},`, 20_000)+`{}]`, 1)
		got := w.do(t, rows)
		if got.Code != test.status || stable(t, got.Body) != test.stable {
			t.Errorf("%d MiB: got %d %.300s, want %d %s", test.memory>>20, got.Code, got.Body, test.status,
				test.stable)
		}
		if held := w.config.Memory.InUse(); held != 0 {
			t.Errorf("%d MiB: %d are held in the end", test.memory>>20, held)
		}
		if got := w.do(t, modernCall("echo")); got.Code != http.StatusOK {
			t.Errorf("%d MiB: a small call after it: got %d %s", test.memory>>20, got.Code, got.Body)
		}
	}
}
