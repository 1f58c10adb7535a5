package credential_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// endpoint is an authorization server that a test scripts.
type endpoint struct {
	*httptest.Server

	mu    sync.Mutex // guards the field below
	forms []url.Values
}

// newEndpoint serves answers at /token.
func newEndpoint(t *testing.T, answer func(w http.ResponseWriter, form url.Values, n int)) *endpoint {
	t.Helper()
	e := &endpoint{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm() // reads a form only where the request says that it is one
		form := r.PostForm
		if id, secret, ok := r.BasicAuth(); ok {
			form.Set("basic", id+":"+secret)
		}
		e.mu.Lock()
		e.forms = append(e.forms, form)
		n := len(e.forms)
		e.mu.Unlock()
		answer(w, form, n)
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) asked() []url.Values {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]url.Values(nil), e.forms...)
}

// give answers with a token.
func give(w http.ResponseWriter, token string, seconds int) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"bearer","expires_in":%d}`, token, seconds)
}

func (e *endpoint) client(t *testing.T) credential.Client {
	t.Helper()
	return credential.Client{TokenURL: e.URL + "/token", ID: "gw", SecretFile: written(t,
		"hunter2-hunter2-hunter2")}
}

func TestTokenIsAskedForOnceAndRenewedBeforeItsEnd(t *testing.T) {
	e := newEndpoint(t, func(w http.ResponseWriter, _ url.Values, n int) {
		give(w,
			fmt.Sprintf("token-%d", n), 100)
	})
	client := e.client(t)
	client.Scopes, client.Resource = []string{"read", "write"}, server
	var mu sync.Mutex
	now := time.Now()
	pass := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	s := source(t, credential.Config{
		Spec: credential.Spec{ClientCredentials: &client},
		Now:  func() time.Time { mu.Lock(); defer mu.Unlock(); return now },
	})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if g, err := s.For(t.Context(), nil); err != nil || bearerOf(t, g) != "token-1" {
				t.Errorf("got %v, %v, want token-1", g, err)
			}
		})
	}
	all.Wait()
	forms := e.asked()
	if len(forms) != 1 {
		t.Fatalf("got %d requests for 50 callers, want 1", len(forms))
	}
	want := url.Values{
		"grant_type": {"client_credentials"}, "scope": {"read write"}, "resource": {server},
		"basic": {"gw:hunter2-hunter2-hunter2"},
	}
	if got := forms[0].Encode(); got != want.Encode() {
		t.Errorf("got %s, want %s", got, want.Encode())
	}
	pass(85 * time.Second) // the last fifth of its life: the old one serves while the next is fetched
	if got := bearerOf(t, grant(t, s, nil)); got != "token-1" {
		t.Errorf("got %s, want token-1 until the next is there", got)
	}
	wait(t, func() bool { return bearerOf(t, grant(t, s, nil)) == "token-2" })
	if n := len(e.asked()); n != 2 {
		t.Errorf("got %d requests, want 2", n)
	}
}

// wait waits for a condition.
func wait(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); {
		if time.Now().After(end) {
			t.Fatal("got no end, want the condition to hold")
		}
		select {
		case <-t.Context().Done():
		case <-time.After(time.Millisecond):
		}
	}
}

func TestAssertionProvesWhoTheGatewayIs(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	var e *endpoint
	e = newEndpoint(t, func(w http.ResponseWriter, form url.Values, _ int) {
		if form.Get("client_assertion") == "" { // the metadata are asked for
			_, _ = fmt.Fprintf(w, `{"issuer":%q,"token_endpoint":%q}`, e.URL, e.URL+"/token")
			return
		}
		give(w, "token", 100)
	})
	client := credential.Client{
		Issuer: e.URL, ID: "gw", KeyID: "k1",
		KeyFile: written(t, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))),
	}
	s := source(t, credential.Config{Spec: credential.Spec{ClientCredentials: &client}})
	if got := bearerOf(t, grant(t, s, nil)); got != "token" {
		t.Fatalf("got %s, want token", got)
	}
	forms := e.asked()
	form := forms[len(forms)-1]
	header, claims := claimsOf(t, form.Get("client_assertion"))
	if header["kid"] != "k1" || header["alg"] != "ES256" || claims["iss"] != "gw" ||
		claims["sub"] != "gw" ||
		claims["aud"] != e.URL || claims["jti"] == nil {
		t.Errorf("got %v %v", header, claims)
	}
	if got := form.Get("client_assertion_type"); got != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
		t.Errorf("got %s", got)
	}
}

func TestExchangeTradesTheCallersToken(t *testing.T) {
	people := newTokenIssuer(t, issuer)
	for _, style := range []string{"standard", "entra"} {
		t.Run(style, func(t *testing.T) {
			e := newEndpoint(t, func(w http.ResponseWriter, form url.Values, _ int) {
				subject := form.Get("subject_token") + form.Get("assertion")
				if subject == "" {
					give(w, "own", 100)
					return
				}
				_, claims := claimsOf(t, subject)
				give(w, "for-"+claims["sub"].(string), 100)
			})
			spec := &credential.Exchange{
				Client: e.client(t), Audience: "api://crm", Actor: style == "standard", Entra: style == "entra",
			}
			s := source(t, credential.Config{Spec: credential.Spec{Exchange: spec}})
			ann, token := people.caller(issuer, "ann", "acme", nil)
			bob, _ := people.caller(issuer, "bob", "acme", nil)
			var all sync.WaitGroup
			for i := range 60 {
				all.Go(func() {
					p, want := ann, "for-ann"
					if i%2 == 1 {
						p, want = bob, "for-bob"
					}
					if g, err := s.For(t.Context(), p); err != nil || bearerOf(t, g) != want {
						t.Errorf("got %v, %v, want %s", g, err, want)
					}
				})
			}
			all.Wait()
			if got := bearerOf(t, grant(t, s, nil)); got != "own" {
				t.Errorf("got %s for the gateway itself, want own", got)
			}
			exchanges := 0
			for _, form := range e.asked() {
				if got := form.Get("subject_token") + form.Get("assertion"); got != "" {
					exchanges++
				}
				if form.Get("subject_token") == token && (form.Get("audience") != "api://crm" ||
					form.Get("actor_token") != "own") {
					t.Errorf("got %v, want audience and actor", form)
				}
				if form.Get("assertion") == token && (form.Get("scope") != "api://crm/.default" ||
					form.Get("requested_token_use") != "on_behalf_of") {
					t.Errorf("got %v, want on behalf of", form)
				}
			}
			if exchanges != 2 {
				t.Errorf("got %d exchanges for 60 calls of two users, want 2", exchanges)
			}
			if g, err := s.Cached(t.Context(), ann.Owner()); err != nil || bearerOf(t, g) != "for-ann" {
				t.Errorf("got %v, %v, want what ann has", g, err)
			}
			carol, _ := people.caller(issuer, "carol", "acme", nil)
			if _, err := s.Cached(t.Context(), carol.Owner()); err == nil {
				t.Error("got a credential of somebody who never called, want none")
			}
		})
	}
}

// TestExchangedTokenGoesWithTheTraceOfTheRequest: the server knows the caller, so it is
// told for which request it is called. The token of the gateway itself goes without, as
// that of a server that knows no callers does.
func TestExchangedTokenGoesWithTheTraceOfTheRequest(t *testing.T) {
	people := newTokenIssuer(t, issuer)
	e := newEndpoint(t, func(w http.ResponseWriter, _ url.Values, _ int) { give(w, "token", 100) })
	s := source(t, credential.Config{Spec: credential.Spec{Exchange: &credential.Exchange{
		Client: e.client(t),
	}}})
	ann, _ := people.caller(issuer, "ann", "acme", nil)
	of := credential.Trace{ID: "REQ1", Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	for _, test := range []struct {
		name       string
		of         *auth.Principal
		id, parent string
	}{{"a caller", ann, of.ID, of.Parent}, {"the gateway itself", nil, "", ""}} {
		header := grant(t, s, test.of).Add(http.Header{}, of)
		if header.Get("X-Request-Id") != test.id || header.Get("Traceparent") != test.parent {
			t.Errorf("%s: got %v, want the id %q and the parent %q", test.name, header, test.id, test.parent)
		}
	}
}

// TestRacingCallersGetTheirOwnTokens has callers who differ in one thing each come at
// once, before anything is kept: in the issuer of equal subjects, the tenant, the client,
// or the token. Nobody gets what was asked for another's.
func TestRacingCallersGetTheirOwnTokens(t *testing.T) {
	const other = "https://other.example/"
	people := newTokenIssuer(t, issuer, other)
	e := newEndpoint(t, func(w http.ResponseWriter, form url.Values, _ int) {
		sum := sha256.Sum256([]byte(form.Get("subject_token")))
		give(w, fmt.Sprintf("for-%x", sum), 100)
	})
	s := source(t, credential.Config{Spec: credential.Spec{Exchange: &credential.Exchange{Client: e.client(t), Audience: "crm"}}})
	var all sync.WaitGroup
	begin := make(chan struct{})
	callers := 0
	for _, iss := range []string{issuer, other} {
		for _, tenant := range []string{"acme", "globex"} {
			for _, client := range []string{"claude", "codex"} {
				for _, jti := range []string{"1", "2"} {
					callers++
					p, token := people.caller(iss, "ann", tenant, map[string]any{"azp": client, "jti": jti})
					want := fmt.Sprintf("for-%x", sha256.Sum256([]byte(token)))
					for range 20 {
						all.Go(func() {
							<-begin
							if g, err := s.For(t.Context(), p); err != nil || bearerOf(t, g) != want {
								t.Errorf("got %v, %v, want what %s of %s was given with %s", g, err, iss, tenant, client)
							}
						})
					}
				}
			}
		}
	}
	close(begin)
	all.Wait()
	if n := len(e.asked()); n != callers {
		t.Errorf("got %d exchanges, want %d", n, callers)
	}
}

func TestTwoTokensOfOneUserAreExchangedEach(t *testing.T) {
	people := newTokenIssuer(t, issuer)
	e := newEndpoint(t, func(w http.ResponseWriter, form url.Values, _ int) {
		_, claims := claimsOf(t, form.Get("subject_token"))
		give(w, "for-"+claims["scope"].(string), 100)
	})
	s := source(t,
		credential.Config{Spec: credential.Spec{Exchange: &credential.Exchange{
			Client:   e.client(t),
			Audience: "crm",
		}}})
	for _, scope := range []string{"read", "admin", "read", "admin"} {
		p, _ := people.caller(issuer, "ann", "acme", map[string]any{"scope": scope})
		if got := bearerOf(t, grant(t, s, p)); got != "for-"+scope {
			t.Errorf("got %s with a token for %s", got, scope)
		}
	}
}

// TestWhatExpiredTokensBroughtIsForgotten has callers who do not come back: when their
// tokens and what was given for these have expired, the next callers find the memory
// free.
func TestWhatExpiredTokensBroughtIsForgotten(t *testing.T) {
	const callers, size = 200, 15_000
	people := newTokenIssuer(t, issuer)
	e := newEndpoint(t, func(w http.ResponseWriter, _ url.Values, _ int) {
		give(w, strings.Repeat("x", size), 3600)
	})
	var ahead atomic.Int64 // of the clock
	s := source(t, credential.Config{
		Spec: credential.Spec{Exchange: &credential.Exchange{Client: e.client(t), Audience: "crm"}},
		Now:  func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
	})
	comes := func(subject string) {
		p, _ := people.caller(issuer, subject, "acme", nil)
		grant(t, s, p)
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	comes("ann")
	before := heap()
	for i := range callers {
		comes(strconv.Itoa(i))
	}
	held := heap() - before
	if held < callers*size {
		t.Fatalf("%d callers hold %d bytes, want %d at least", callers, held, callers*size)
	}
	ahead.Store(int64(2 * time.Hour))
	for i := range callers / 4 {
		comes("later " + strconv.Itoa(i))
	}
	if left := heap() - before; left > held/2 {
		t.Errorf("%d bytes are held for callers who are gone, of %d", left, held)
	}
}

// TestCallerWithoutATokenIsNoRefusalOfTheEndpoint comes with an access key, which the
// endpoint is not shown.
func TestCallerWithoutATokenIsNoRefusalOfTheEndpoint(t *testing.T) {
	e := newEndpoint(t, func(http.ResponseWriter, url.Values, int) { t.Error("the endpoint was asked") })
	s := source(t, credential.Config{Spec: credential.Spec{Exchange: &credential.Exchange{
		Client: e.client(t), Audience: "crm",
	}}})
	key := &auth.Principal{Issuer: own, Subject: "ci", TenantID: "acme"}
	if _, err := s.For(t.Context(), key); credential.FaultOf(err) != credential.FaultSignIn {
		t.Errorf("got %v, want %s", err, credential.FaultSignIn)
	}
}

func TestRefusalsOfEndpointsHaveWords(t *testing.T) {
	people := newTokenIssuer(t, issuer)
	ann, token := people.caller(issuer, "ann", "acme", nil)
	late := time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)
	for _, c := range []struct {
		name   string
		answer func(w http.ResponseWriter)
		want   credential.Fault
	}{
		{"invalid_grant", refuse(400, "invalid_grant"), credential.FaultExchange},
		{"200 with an error", refuse(200, "bad_verification_code"), credential.FaultExchange},
		{"interaction", refuse(400, "interaction_required"), credential.FaultSignIn},
		{"clock", func(w http.ResponseWriter) {
			w.Header().Set("Date", late)
			refuse(401,
				"invalid_client")(w)
		}, credential.FaultClock},
		{
			"long token", func(w http.ResponseWriter) { give(w, strings.Repeat("x", 30<<10), 100) },
			credential.FaultExchange,
		},
		{
			"100 KB", func(w http.ResponseWriter) { give(w, strings.Repeat("x", 100<<10), 100) },
			credential.FaultAway,
		},
		{
			"line break", func(w http.ResponseWriter) { give(w, "a\r\nX-Evil: 1", 100) },
			credential.FaultExchange,
		},
		{"no bearer", func(w http.ResponseWriter) {
			_, _ = io.WriteString(w,
				`{"access_token":"a","token_type":"N_A"}`)
		}, credential.FaultExchange},
		{"HTML", func(w http.ResponseWriter) { _, _ = io.WriteString(w, "<html>") }, credential.FaultAway},
		{"redirect", func(w http.ResponseWriter) {
			w.Header().Set("Location", "https://evil.example/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, credential.FaultAway},
		{
			"503", func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) },
			credential.FaultAway,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEndpoint(t, func(w http.ResponseWriter, _ url.Values, _ int) { c.answer(w) })
			var log bytes.Buffer
			s := source(t, credential.Config{
				Spec: credential.Spec{Exchange: &credential.Exchange{
					Client:   e.client(t),
					Audience: "crm",
				}},
				Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			})
			_, err := s.For(t.Context(), ann)
			if got := credential.FaultOf(err); got != c.want {
				t.Fatalf("got %q (%v), want %q", got, err, c.want)
			}
			s.Close()
			for _, secret := range []string{token, "hunter2", "evil"} {
				if strings.Contains(err.Error()+log.String(), secret) {
					t.Errorf("got %q in %q and %q, want it nowhere", secret, err, log.String())
				}
			}
			if !strings.Contains(log.String(), string(c.want)) {
				t.Errorf("got the log %q, want the reason in it", log.String())
			}
		})
	}
}

// TestClientGoesOnWhileItsFileIsGone has a file that is being replaced when the next
// token is asked for.
func TestClientGoesOnWhileItsFileIsGone(t *testing.T) {
	e := newEndpoint(t, func(w http.ResponseWriter, _ url.Values, n int) {
		give(w, fmt.Sprintf("token-%d", n), 100)
	})
	client, now := e.client(t), time.Now()
	s := source(t, credential.Config{
		Spec: credential.Spec{ClientCredentials: &client}, Now: func() time.Time { return now },
	})
	for _, want := range []string{"token-1", "token-2"} {
		if got := bearerOf(t, grant(t, s, nil)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		_ = os.Remove(client.SecretFile) // it is gone the second time
		now = now.Add(time.Hour)
	}
}

// TestNullInAnAnswerIsAbsent: some endpoints write what they do not say as null.
func TestNullInAnAnswerIsAbsent(t *testing.T) {
	e := newEndpoint(t, func(w http.ResponseWriter, _ url.Values, _ int) {
		_, _ = io.WriteString(w, `{"access_token":"a-token","token_type":"Bearer","expires_in":null,`+
			`"issued_token_type":null,"error":null,"error_description":null}`)
	})
	client := e.client(t)
	s := source(t, credential.Config{Spec: credential.Spec{ClientCredentials: &client}})
	if got := bearerOf(t, grant(t, s, nil)); got != "a-token" {
		t.Errorf("got %q, want the token", got)
	}
}

// TestEndpointThatRedirectsIsAllThatIsAsked has an endpoint, and the metadata of an
// issuer, name another place: no token or secret reaches it.
func TestEndpointThatRedirectsIsAllThatIsAsked(t *testing.T) {
	people := newTokenIssuer(t, issuer)
	ann, _ := people.caller(issuer, "ann", "acme", nil)
	elsewhere := newEndpoint(t, func(w http.ResponseWriter, _ url.Values, _ int) { give(w, "theirs", 100) })
	for _, status := range []int{301, 302, 303, 307, 308} {
		e := newEndpoint(t, func(w http.ResponseWriter, _ url.Values, _ int) {
			w.Header().Set("Location", elsewhere.URL+"/token")
			w.WriteHeader(status)
		})
		discovered := e.client(t)
		discovered.TokenURL, discovered.Issuer = "", e.URL
		for name, client := range map[string]credential.Client{"endpoint": e.client(t), "metadata": discovered} {
			s := source(t, credential.Config{Spec: credential.Spec{Exchange: &credential.Exchange{Client: client, Audience: "crm"}}})
			if g, err := s.For(t.Context(), ann); err == nil {
				t.Errorf("%s, %d: got %s, want a fault", name, status, bearerOf(t, g))
			}
		}
	}
	if n := len(elsewhere.asked()); n > 0 {
		t.Errorf("got %d requests elsewhere, want none", n)
	}
}

// refuse answers with an error whose description repeats all that was sent.
func refuse(status int, code string) func(w http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error":%q,"error_description":"no"}`, code)
	}
}

func TestEndpointThatRepeatsSecretsIsNotQuoted(t *testing.T) {
	people := newTokenIssuer(t, issuer)
	ann, token := people.caller(issuer, "ann", "acme", nil)
	for name, repeated := range map[string]func(form url.Values) string{
		"a part of the caller's token": func(form url.Values) string { return form.Get("subject_token")[:60] },
		"the gateway's secret":         func(form url.Values) string { return form.Get("basic") },
	} {
		e := newEndpoint(t, func(w http.ResponseWriter, form url.Values, _ int) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"error":"invalid_grant","error_description":%q}`, "bad "+repeated(form))
		})
		s := source(t,
			credential.Config{Spec: credential.Spec{Exchange: &credential.Exchange{
				Client:   e.client(t),
				Audience: "crm",
			}}})
		_, err := s.For(t.Context(), ann)
		if err == nil || strings.Contains(err.Error(), token[:20]) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want a refusal without what was sent", name, err)
		}
	}
}

// localEndpoint is an endpoint in this process, so that time can be the test's.
type localEndpoint func(w http.ResponseWriter, n int)

func (in localEndpoint) client() *http.Client {
	n := 0
	var mu sync.Mutex // guards n
	return &http.Client{Transport: roundTripFunc(func(*http.Request) (*http.Response, error) {
		mu.Lock()
		n++
		now := n
		mu.Unlock()
		w := httptest.NewRecorder()
		in(w, now)
		return w.Result(), nil
	})}
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestEndpointThatAnswersOnceInTenServesAll(t *testing.T) {
	secret := written(t, "hunter2-hunter2-hunter2")
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		in := localEndpoint(func(w http.ResponseWriter, n int) {
			asked = n
			if n%10 != 0 {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			give(w, "token", 3600)
		})
		s := credential.New(credential.Config{
			Spec: credential.Spec{ClientCredentials: &credential.Client{
				TokenURL: "https://login.example/token", ID: "gw", SecretFile: secret,
			}},
			Client: in.client(), Issuer: own,
		})
		defer s.Close()
		calls := 0
		for began := time.Now(); time.Since(began) < 5*time.Minute; time.Sleep(100 * time.Millisecond) {
			calls++
			_, err := s.For(t.Context(), nil)
			if err == nil {
				break
			}
			if credential.FaultOf(err) != credential.FaultAway {
				t.Fatalf("got %v, want %s", err, credential.FaultAway)
			}
		}
		if asked != 10 || calls < 20 {
			t.Errorf("got %d requests for %d calls, want 10 and pauses between them", asked, calls)
		}
	})
}

// TestPanicWhileATokenIsHadEndsNothingElse has the gateway itself fail while it asks an
// endpoint: who waits for the token is told, and it is asked for again later.
func TestPanicWhileATokenIsHadEndsNothingElse(t *testing.T) {
	secret := written(t, "hunter2-hunter2-hunter2")
	synctest.Test(t, func(t *testing.T) {
		in := localEndpoint(func(w http.ResponseWriter, _ int) { give(w, "token", 3600) })
		panics, counted := 1, 0
		s := credential.New(credential.Config{
			Spec: credential.Spec{ClientCredentials: &credential.Client{
				TokenURL: "https://login.example/token", ID: "gw", SecretFile: secret,
			}},
			Client: &http.Client{Transport: tripping(func(r *http.Request) (*http.Response, error) {
				if panics--; panics >= 0 {
					panic("a fault of ours")
				}
				return in.client().Transport.RoundTrip(r)
			})},
			Issuer: own, Panicked: func() { counted++ },
		})
		defer s.Close()
		if _, err := s.For(t.Context(), nil); credential.FaultOf(err) != credential.FaultAway || counted != 1 {
			t.Errorf("got %v and %d panics counted, want %s and 1", err, counted, credential.FaultAway)
		}
		time.Sleep(time.Minute)
		if _, err := s.For(t.Context(), nil); err != nil {
			t.Errorf("later: got %v, want the token", err)
		}
	})
}

// tripping is a transport that a test makes fail.
type tripping func(r *http.Request) (*http.Response, error)

func (f tripping) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestValidTokenGoesOnWhileTheEndpointIsAway(t *testing.T) {
	e := newEndpoint(t, func(w http.ResponseWriter, _ url.Values, n int) {
		if n > 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		give(w, "token", 100)
	})
	client := e.client(t)
	var mu sync.Mutex
	now := time.Now()
	s := source(t, credential.Config{
		Spec: credential.Spec{ClientCredentials: &client},
		Now:  func() time.Time { mu.Lock(); defer mu.Unlock(); return now },
	})
	grant(t, s, nil)
	for _, after := range []time.Duration{85 * time.Second, 5 * time.Second, 5 * time.Second} {
		mu.Lock()
		now = now.Add(after)
		mu.Unlock()
		if got := bearerOf(t, grant(t, s, nil)); got != "token" {
			t.Errorf("got %s, want token", got)
		}
	}
	mu.Lock()
	now = now.Add(10 * time.Second)
	mu.Unlock()
	wait(t, func() bool {
		_, err := s.For(t.Context(), nil)
		return credential.FaultOf(err) == credential.FaultAway
	})
}

// hung is a round tripper that never answers.
type hung struct{}

func (hung) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestEndpointThatHangsIsNotWaitedForByEach(t *testing.T) {
	people := newTokenIssuer(t, issuer)
	secret := written(t, "hunter2-hunter2-hunter2")
	synctest.Test(t, func(t *testing.T) {
		s := credential.New(credential.Config{
			Spec: credential.Spec{Exchange: &credential.Exchange{Client: credential.Client{
				TokenURL: "https://login.example/token", ID: "gw", SecretFile: secret,
			}, Audience: "crm"}},
			Client: &http.Client{Transport: hung{}}, Issuer: own, Signer: credential.NewSigner(time.Now),
		})
		defer s.Close()
		began := time.Now()
		for i := range 50 {
			ann, _ := people.caller(issuer, fmt.Sprint("user-", i), "acme", nil)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			_, err := s.For(ctx, ann)
			cancel()
			if credential.FaultOf(err) != credential.FaultAway {
				t.Fatalf("got %v, want %s", err, credential.FaultAway)
			}
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("got %v for 50 callers, want those after the first few told at once", took)
		}
	})
}

// TestActorWhoseEndpointHangsIsAFault has the token of the gateway itself not come in
// time: that is no end of the caller's time, and nothing was made.
func TestActorWhoseEndpointHangsIsAFault(t *testing.T) {
	people := newTokenIssuer(t, issuer)
	secret := written(t, "hunter2-hunter2-hunter2")
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards made
		made := 0
		s := credential.New(credential.Config{
			Spec: credential.Spec{Exchange: &credential.Exchange{Client: credential.Client{
				TokenURL: "https://login.example/token", ID: "gw", SecretFile: secret,
			}, Audience: "crm", Actor: true}},
			Client: &http.Client{Transport: hung{}}, Issuer: own, Signer: credential.NewSigner(time.Now),
			Count: func(result string) {
				mu.Lock()
				defer mu.Unlock()
				if result == credential.Made {
					made++
				}
			},
		})
		defer s.Close()
		for i := range 10 {
			ann, _ := people.caller(issuer, fmt.Sprint("user-", i), "acme", nil)
			if _, err := s.For(t.Context(), ann); credential.FaultOf(err) != credential.FaultAway {
				t.Errorf("got %v, want %s", err, credential.FaultAway)
			}
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if made != 0 {
			t.Errorf("got %d counted as made, want none", made)
		}
	})
}

func TestServerThatRefusesAllMakesNoWork(t *testing.T) {
	e := newEndpoint(t, func(w http.ResponseWriter, _ url.Values, n int) {
		give(w, fmt.Sprint("token-",
			n), 3600)
	})
	client := e.client(t)
	s := source(t, credential.Config{Spec: credential.Spec{ClientCredentials: &client}})
	for range 100 {
		if g := grant(t, s, nil); g.Refused() {
			t.Fatal("got another attempt, want none so soon after the last")
		}
	}
	if n := len(e.asked()); n != 1 {
		t.Errorf("got %d requests, want 1", n)
	}
}

func TestMetadataOfAnotherIssuerAreRefused(t *testing.T) {
	for name, metadata := range map[string]string{
		"another issuer": `{"issuer":"https://evil.example","token_endpoint":"https://evil.example/token"}`,
		"no endpoint":    `{"issuer":"ISSUER"}`,
		"file":           `{"issuer":"ISSUER","token_endpoint":"file:///etc/passwd"}`,
		"inner address":  `{"issuer":"ISSUER","token_endpoint":"http://169.254.169.254/latest"}`,
	} {
		t.Run(name, func(t *testing.T) {
			var e *endpoint
			e = newEndpoint(t, func(w http.ResponseWriter, _ url.Values, _ int) {
				_, _ = io.WriteString(w, strings.ReplaceAll(metadata, "ISSUER", e.URL))
			})
			client := credential.Client{Issuer: e.URL, ID: "gw", SecretFile: written(t,
				"hunter2-hunter2-hunter2")}
			s := source(t, credential.Config{Spec: credential.Spec{ClientCredentials: &client}})
			if _, err := s.For(t.Context(), nil); credential.FaultOf(err) == "" {
				t.Errorf("got %v, want a fault", err)
			}
			for _, form := range e.asked() {
				if len(form) > 0 {
					t.Errorf("got %v sent, want nothing", form)
				}
			}
		})
	}
}
