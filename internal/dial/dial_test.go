package dial_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
)

func get(ctx context.Context, t *testing.T, client *http.Client, target string) (*http.Response, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err == nil {
		t.Cleanup(func() { response.Body.Close() })
	}
	return response, err
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// TestT7SpellingsOfLoopback aims at a live server under every spelling of its address.
func TestT7SpellingsOfLoopback(t *testing.T) {
	t.Parallel()
	reached := false
	target, err := url.Parse(serve(t, func(http.ResponseWriter, *http.Request) { reached = true }))
	if err != nil {
		t.Fatal(err)
	}
	hosts := []string{
		"127.0.0.1", "localhost", "localhost.", "LOCALHOST", "0.0.0.0", "127.1", "2130706433", "0x7f000001",
		"017700000001", "0177.0.0.1", "127.0.0.1.",
		"[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]",
		"[::1%25lo]", "evil.test@127.0.0.1",
	}
	t.Attr("spellings", fmt.Sprint(len(hosts)))
	client := dial.Client(dial.Config{})
	for _, host := range hosts {
		if response, err := get(t.Context(), t, client, "http://"+host+":"+target.Port()+"/"); err == nil {
			t.Errorf("%s: got status %d, want an error", host, response.StatusCode)
		}
	}
	if reached {
		t.Error("a request reached the loopback address")
	}
	if _, err := get(t.Context(), t, client, target.String()); !errors.Is(err, dial.ErrProhibited) {
		t.Errorf("got error %v, want %v", err, dial.ErrProhibited)
	}
	if _, err := get(t.Context(), t, dial.Client(dial.Config{PrivateAddresses: true}),
		target.String()); err != nil || !reached {
		t.Errorf("with private addresses: got error %v, reached: %v", err, reached)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/else", http.StatusTemporaryRedirect)
	})
	response, err := get(t.Context(), t, dial.Client(dial.Config{PrivateAddresses: true}), target)
	if err != nil || response.StatusCode != http.StatusTemporaryRedirect {
		t.Fatalf("got response %v and error %v, want status %d", response, err, http.StatusTemporaryRedirect)
	}
}

func TestEnvironmentIsIgnored(t *testing.T) {
	reached := false
	proxy := serve(t, func(http.ResponseWriter, *http.Request) { reached = true })
	t.Setenv("HTTP_PROXY", proxy)
	t.Setenv("ALL_PROXY", proxy)
	client := dial.Client(dial.Config{PrivateAddresses: true})
	target := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "direct") })
	if _, err := get(t.Context(), t, client, target); err != nil || reached {
		t.Errorf("error %v, proxy reached: %v", err, reached)
	}
}

func TestNoCookiesNoCompression(t *testing.T) {
	t.Parallel()
	var headers []http.Header
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		headers = append(headers, r.Header)
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "1"})
	})
	client := dial.Client(dial.Config{PrivateAddresses: true})
	for range 2 {
		if _, err := get(t.Context(), t, client, target); err != nil {
			t.Fatal(err)
		}
	}
	for _, header := range headers {
		if header.Get("Cookie") != "" || header.Get("Accept-Encoding") != "" {
			t.Errorf("sent headers %v, want neither cookie nor accepted encodings", header)
		}
	}
}

func TestLargeResponseHeader(t *testing.T) {
	t.Parallel()
	target := serve(t, func(w http.ResponseWriter,
		_ *http.Request,
	) {
		w.Header().Set("X-Large", strings.Repeat("x", 70<<10))
	})
	if response, err := get(t.Context(), t, dial.Client(dial.Config{PrivateAddresses: true}),
		target); err == nil {
		t.Errorf("got status %d, want an error", response.StatusCode)
	}
}

// TestConnectionsAreKept shows that as many idle connections are kept as were open at
// once.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	const atOnce = 16
	arrived, release := make(chan struct{}, atOnce), make(chan struct{})
	opened := make(chan struct{}, 10*atOnce)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened <- struct{}{}
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	client := dial.Client(dial.Config{PrivateAddresses: true})
	errs := make(chan error, atOnce)
	for range 3 {
		for range atOnce {
			go func() {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL,
					http.NoBody)
				if err != nil {
					errs <- err
					return
				}
				response, err := client.Do(request)
				if err == nil {
					io.Copy(io.Discard, response.Body)
					err = response.Body.Close()
				}
				errs <- err
			}()
		}
		for range atOnce {
			<-arrived
		}
		for range atOnce {
			release <- struct{}{}
		}
		for range atOnce {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(opened); n != atOnce {
		t.Errorf("%d connections were opened for 3 rounds of %d requests, want %d", n, atOnce, atOnce)
	}
}
