package main

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/dial"
)

// verifiers holds the verifier of the present config. A reload that leaves the issuers as they are keeps it, with its
// key sets and cache: a login must not depend on an issuer answering just then.
type verifiers struct {
	current atomic.Pointer[auth.Verifier]

	changing sync.Mutex      // held while one verifier takes the place of another
	known    []config.Issuer // of that verifier
	running  *task
}

func newVerifiers(issuers []config.Issuer, log *slog.Logger) (*verifiers, error) {
	v := &verifiers{known: issuers}
	verifier, err := newVerifier(issuers, log)
	if err != nil {
		return nil, err
	}
	v.current.Store(verifier)
	return v, nil
}

func (v *verifiers) verify(ctx context.Context, token string) (auth.Principal, error) {
	return v.current.Load().Verify(ctx, token)
}

// start runs the present verifier until ctx ends, another takes its place or wait is called. It is called once.
func (v *verifiers) start(ctx context.Context) {
	v.changing.Lock()
	defer v.changing.Unlock()
	v.running = startTask(ctx, v.current.Load().Run)
}

// replace puts next in place of the present verifier, unless the issuers are the same.
func (v *verifiers) replace(ctx context.Context, issuers []config.Issuer, next *auth.Verifier) {
	v.changing.Lock()
	defer v.changing.Unlock()
	if reflect.DeepEqual(issuers, v.known) {
		return
	}
	before := v.running
	v.current.Store(next)
	v.known, v.running = issuers, startTask(ctx, next.Run)
	before.stop()
}

// wait ends the present verifier and waits for it. What start and replace were given has ended by then.
func (v *verifiers) wait() {
	v.changing.Lock()
	defer v.changing.Unlock()
	v.running.stop()
}

func newVerifier(issuers []config.Issuer, log *slog.Logger) (*auth.Verifier, error) {
	private := map[string]bool{}
	plain := make([]auth.Issuer, 0, len(issuers))
	for _, iss := range issuers {
		plain = append(plain, iss.Issuer)
		if iss.PrivateAddresses {
			private[iss.JWKSURL] = true
		}
	}
	client := dial.Client(dial.Config{})
	client.Transport = keySetTransport{
		public: client.Transport, private: dial.Client(dial.Config{PrivateAddresses: true}).Transport, allowed: private,
	}
	return auth.New(auth.Config{Issuers: plain, Client: client, Logger: log})
}

// keySetTransport lets exactly the named key sets be fetched from loopback or private addresses.
type keySetTransport struct {
	public, private http.RoundTripper
	allowed         map[string]bool
}

// RoundTrip implements http.RoundTripper.
func (t keySetTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.allowed[r.URL.String()] {
		return t.private.RoundTrip(r)
	}
	return t.public.RoundTrip(r)
}
