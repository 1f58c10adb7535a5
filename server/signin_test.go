package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/server"
)

// signInPaths is an authorization server that answers what it is asked.
type signInPaths struct{}

var _ server.SignIn = signInPaths{}

func (signInPaths) Serves(path string) bool { return !strings.Contains(path, "globex") }

func (signInPaths) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/token"):
		w.WriteHeader(http.StatusUnauthorized)
	case strings.HasSuffix(r.URL.Path, "/jwks"):
		panic("a fault of the authorization server")
	}
	_, _ = w.Write([]byte(r.Method + " " + r.URL.Path))
}

// TestSignInNeedsNoToken shows that each route of the authorization server reaches it
// without a token, from any origin and with HEAD, but under no foreign host, with an id,
// and that its faults are ours. What it does not serve is not found.
func TestSignInNeedsNoToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) { w.config.SignIn = signInPaths{} })
	for _, path := range []string{
		"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration/t/acme",
		"/t/acme/.well-known/openid-configuration", "/authorize", "/t/acme/authorize", "/register", "/t/acme/register",
		"/revoke", "/consent", "/callback/corp", "/logout/corp",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS"} {
			m := message{method: method, path: path, headers: map[string]string{"Origin": "null"}}
			got := w.do(t, m)
			if got.Code != http.StatusOK || got.Header().Get("X-Request-Id") == "" {
				t.Errorf("%s %s: status %d: %s", method, path, got.Code, got.Body)
			}
			m.headers = map[string]string{"Host": "evil.test"}
			if got := w.do(t, m); got.Code != http.StatusForbidden {
				t.Errorf("%s %s under a foreign host: status %d, want 403", method, path, got.Code)
			}
		}
	}
	for path, want := range map[string]int{
		"/token": http.StatusUnauthorized, "/jwks": http.StatusInternalServerError,
		"/t/globex/token": http.StatusNotFound, "/callback/": http.StatusNotFound, "/callback/a/b": http.StatusNotFound,
		"/t/acme/%74oken": http.StatusNotFound, "/t/acme/consent": http.StatusNotFound,
	} {
		if got := w.do(t, message{method: "POST", path: path}); got.Code != want {
			t.Errorf("%s: status %d, want %d", path, got.Code, want)
		}
	}
	if got := w.do(t, message{method: "HEAD", path: "/mcp"}); got.Code != http.StatusUnauthorized ||
		got.Header().Get("WWW-Authenticate") == "" {
		t.Errorf("HEAD /mcp: status %d, %v; want 401 with a challenge", got.Code, got.Header())
	}
}

// refusing is an authorization server that refuses everybody.
type refusing struct {
	signInPaths

	record func(context.Context, audit.Record) bool
	told   int // how many refusals the log may have a line of
}

func (r *refusing) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	refusal := audit.Record{Outcome: "invalid_request", Reason: "invalid_grant", Subject: "eve"} // of no tenant
	if r.record(request.Context(), refusal) {
		r.told++
	}
	w.WriteHeader(http.StatusBadRequest)
}

// TestFloodsAtTheAuthorizationServerAreSummedUp shows that what it refuses strangers
// fills neither record nor log: the first of an address have lines, which say what was
// asked for, and one line has the number of the others. They are no refused calls.
func TestFloodsAtTheAuthorizationServerAreSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &refusing{}
		w := newWorld(t, func(w *world) { w.config.SignIn = s })
		taken := w.recording()
		s.record = w.RecordSignIn
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		for range 50 {
			w.do(t, message{method: "POST", path: "/t/acme/token"})
		}
		w.RecordSignIn(t.Context(), audit.Record{Outcome: "ended", Subject: "ann"})
		time.Sleep(2 * time.Minute)
		stop()
		<-ended
		lines := taken()
		sums, single := sumsOf(lines)
		if single != 6 || s.told != 5 || len(sums) != 1 {
			t.Errorf("%d lines, %d of them in the log, and sums %v", single, s.told, sums)
		}
		for i, line := range lines {
			if want := line.Subject != "ann"; (line.Method == "oauth/token") != want || (line.RequestID != "") != (want && line.Count == 0) {
				t.Errorf("line %d: %+v", i, line)
			}
		}
		if got := sums["192.0.2.1 invalid_request invalid_grant"]; got != 45 {
			t.Errorf("the sum is %v, want one of 45", sums)
		}
		if got := w.refused(t); got != 0 {
			t.Errorf("%v refusals of calls are counted, want none", got)
		}
	})
}

// TestFloodsOfSignInsAreSlow sends more requests to sign in than anybody has from one
// address, refused ones and registrations that succeed. What comes after the first
// hundred is answered late; strangers elsewhere and callers with a token do not wait for
// it, and neither do clients that get tokens.
func TestFloodsOfSignInsAreSlow(t *testing.T) {
	refuses := &refusing{}
	for _, test := range []struct {
		name, path string
		server     server.SignIn
		want       time.Duration
	}{
		{"registrations", "/register", signInPaths{}, time.Second},
		{"sign-ins that begin", "/t/acme/authorize", signInPaths{}, time.Second},
		{"refused tokens", "/token", refuses, time.Second},
		{"tokens", "/token", givesTokens{}, 0},
		{"metadata", "/.well-known/oauth-authorization-server", signInPaths{}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				refuses.record = w.RecordSignIn
				h := w.Handler()
				ask := func(path, from string) time.Duration {
					began := time.Now()
					r := message{method: "POST", path: path}.request(t.Context(), "")
					r.RequestURI, r.RemoteAddr = path, from
					h.ServeHTTP(httptest.NewRecorder(), r)
					return time.Since(began)
				}
				var waited time.Duration
				for n := range 110 {
					if took := ask(test.path, "192.0.2.1:1"); n < 100 && took > 0 {
						t.Fatalf("request %d had to wait", n)
					} else {
						waited += took
					}
				}
				if waited < test.want || waited > test.want*3/2 {
					t.Errorf("ten beyond the first hundred waited for %v, want %v or half of it more", waited,
						test.want)
				}
				if took := ask(test.path, "192.0.2.2:1"); took > 0 {
					t.Errorf("a stranger elsewhere waited for %v", took)
				}
				began := time.Now()
				if got := record(h, modernCall("echo").request(t.Context(), "")); got.Code != http.StatusOK || time.Since(began) > 0 {
					t.Errorf("a caller with a token: got %d after %v", got.Code, time.Since(began))
				}
			}, func(w *world) { w.config.SignIn = test.server })
		})
	}
}

// givesTokens is an authorization server that refuses nobody.
type givesTokens struct{ signInPaths }

func (givesTokens) ServeHTTP(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

// TestRegistrationsBeyondThoseThatWaitLoseTheirConnection has more clients register than
// may wait. Those beyond do not wait, and are told that their connection ends with
// the answer.
func TestRegistrationsBeyondThoseThatWaitLoseTheirConnection(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		h := w.Handler()
		ask := func() (closing bool) {
			r := message{method: "POST", path: "/register"}.request(t.Context(), "")
			r.RequestURI, r.RemoteAddr = "/register", "192.0.2.1:1"
			return record(h, r).Result().Header.Get("Connection") == "close"
		}
		for range 100 {
			ask()
		}
		var open, closing atomic.Int64
		register := func(clients int) {
			for range clients {
				go func() {
					if ask() {
						closing.Add(1)
					} else {
						open.Add(1)
					}
				}()
			}
			synctest.Wait()
		}
		register(1024)
		if closing.Load() != 0 || open.Load() != 0 {
			t.Errorf("%d of those that may wait are answered at once", closing.Load()+open.Load())
		}
		register(76)
		if closing.Load() != 76 || open.Load() != 0 {
			t.Errorf("at once %d answers close the connection and %d leave it open, want 76 and none",
				closing.Load(), open.Load())
		}
	}, func(w *world) { w.config.SignIn, w.config.MaxRequests = givesTokens{}, 2000 })
}

// slowToEnd is an authorization server whose answers have begun and do not end before it
// is told.
type slowToEnd struct {
	signInPaths
	ends chan struct{}
}

func (s slowToEnd) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusOK)
	<-s.ends
}

// TestRegistrationsThatComeTogetherDoNotPassTheWait has more clients register than may
// wait, whose answers have all begun before the first waits. None is answered at once on
// a connection that stays open.
func TestRegistrationsThatComeTogetherDoNotPassTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := slowToEnd{ends: make(chan struct{})}
		w := newWorld(t, func(w *world) { w.config.SignIn, w.config.MaxRequests = slow, 2000 })
		h := w.Handler()
		var answered atomic.Int64
		for range 1200 {
			go func() {
				r := message{method: "POST", path: "/register"}.request(t.Context(), "")
				r.RequestURI, r.RemoteAddr = "/register", "192.0.2.1:1"
				record(h, r)
				answered.Add(1)
			}()
		}
		synctest.Wait()
		close(slow.ends)
		synctest.Wait()
		if got := answered.Load(); got != 100 {
			t.Errorf("%d of 1200 are answered at once, want the hundred that may be", got)
		}
	})
}
