package deploy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

func TestBalancerAcceptsTheSnippet(t *testing.T) {
	withEach(t, func(t *testing.T, p program) {
		path, dir := tool(t, p.name, p.name), t.TempDir()
		certificate(t, dir)
		p.config(t, dir, freeAddress(t), [2]balancedGateway{
			{"10.0.0.11:8080", "10.0.0.11:9090"},
			{"10.0.0.12:8080", "10.0.0.12:9090"},
		})
		out, code := run(t.Context(), t, dir, path, in(dir, p.check)...)
		if code != 0 || strings.Contains(strings.ToLower(out), "[warn") {
			t.Errorf("exit %d: %s", code, out)
		}
	})
}

// TestBalancerPassesEventsAtOnce sends an event only when the one before has arrived, to
// clients of HTTP/1.1 and of HTTP/2, where the load balancer speaks that.
func TestBalancerPassesEventsAtOnce(t *testing.T) {
	withEach(t, func(t *testing.T, p program) {
		const events = 20
		next := make(chan struct{}, 1)
		stream := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range events {
				fmt.Fprintf(w, "data: %d\n\n", i)
				_ = http.NewResponseController(w).Flush() // a failure shows as a missing event
				select {
				case <-next:
				case <-r.Context().Done():
					return
				}
			}
		}
		address, _, _ := gateway(t, stream)
		for _, both := range []bool{false, true} {
			b := balance(t, p, ready(t, address, address))
			b.transport.ForceAttemptHTTP2 = both
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+"/mcp", nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := b.client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			lines := bufio.NewScanner(response.Body)
			for i := range events {
				if !lines.Scan() || lines.Text() != fmt.Sprint("data: ", i) || !lines.Scan() {
					t.Fatalf("over %s: got %q, %v instead of event %d", response.Proto, lines.Text(),
						lines.Err(), i)
				}
				next <- struct{}{}
			}
			if lines.Scan() || lines.Err() != nil {
				t.Errorf("over %s: got %q, %v after the end", response.Proto, lines.Text(), lines.Err())
			}
		}
	})
}

// TestBalancerEndsTheCallOfAClientThatLeaves shows that the gateway sees it, which then
// cancels the call.
func TestBalancerEndsTheCallOfAClientThatLeaves(t *testing.T) {
	withEach(t, func(t *testing.T, p program) {
		begun, ended := make(chan struct{}), make(chan struct{})
		address, _, _ := gateway(t, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only then the server looks whether the connection lasts
			close(begun)
			<-r.Context().Done()
			close(ended)
		})
		b := balance(t, p, ready(t, address, address))
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			<-begun
			leave()
		}()
		if status, _, err := b.send(ctx, "t", "{}", nil); err == nil {
			t.Fatalf("status %d of a call that nobody has answered", status)
		}
		select {
		case <-ended:
		case <-time.After(2 * time.Minute):
			t.Error("the call went on without its client")
		}
	})
}

func TestBalancerNeverSendsAPostTwice(t *testing.T) {
	withEach(t, func(t *testing.T, p program) {
		hangUp := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
		first, asked, _ := gateway(t, hangUp)
		second, askedToo, _ := gateway(t, hangUp)
		b := balance(t, p, ready(t, first, second))
		if status, _ := b.post(t, "t", nil); status != http.StatusBadGateway {
			t.Errorf("status %d, want 502", status)
		}
		if n := asked() + askedToo(); n != 1 {
			t.Errorf("the gateways saw the POST %d times, want once", n)
		}
	})
}

func TestBalancerGoesOnWithTheOtherGateway(t *testing.T) {
	withEach(t, func(t *testing.T, p program) {
		address, requests, _ := gateway(t,
			func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
		b := balance(t, p, ready(t, freeAddress(t), address))
		for i := range 30 {
			if status, body := b.post(t, fmt.Sprint("token", i), nil); status != http.StatusOK ||
				body != "ok" {
				t.Errorf("request %d: %d %q", i, status, body)
			}
		}
		if n := requests(); n != 30 {
			t.Errorf("the gateway saw %d requests, want 30", n)
		}
	})
}

// By default nginx takes a gateway out for 10 s after one failure. When both restart,
// that loses every request in between.
func TestBalancerTriesAGatewayAgainAtOnce(t *testing.T) {
	withEach(t, func(t *testing.T, p program) {
		var well atomic.Bool
		handle := func(w http.ResponseWriter, _ *http.Request) {
			if !well.Load() {
				panic(http.ErrAbortHandler)
			}
			fmt.Fprint(w, "ok")
		}
		first, _, _ := gateway(t, handle)
		second, _, _ := gateway(t, handle)
		b := balance(t, p, ready(t, first, second))
		for i := range 20 {
			_, _, _ = b.send(t.Context(), fmt.Sprint("token", i), "{}", nil) // each fails
		}
		well.Store(true)
		for i := range 20 {
			if status, body := b.post(t, fmt.Sprint("token", i), nil); status != http.StatusOK {
				t.Errorf("request %d after the restart: %d %q", i, status, body)
			}
		}
	})
}

func TestBalancerSpreadsTheRequestsOfAClient(t *testing.T) {
	withEach(t, func(t *testing.T, p program) {
		answer := func(text string) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
		}
		first, asked, connections := gateway(t, answer("first"))
		second, askedToo, connectionsToo := gateway(t, answer("second"))
		b := balance(t, p, ready(t, first, second))
		for range 80 {
			b.post(t, "token", http.Header{"Mcp-Session-Id": {"session"}})
		}
		if asked() != 40 || askedToo() != 40 {
			t.Errorf("80 requests of one session: %d and %d, want half of them at each gateway", asked(),
				askedToo())
		}
		if n := connections() + connectionsToo(); n > 4 {
			t.Errorf("80 requests one after the other took %d connections, want them kept", n)
		}
	})
}

// Headers reach the gateway whatever characters are in their names. By default nginx
// drops those with others than letters, digits and hyphens, and the gateway refuses calls
// of tools whose arguments are in such headers.
func TestBalancerPassesHeadersOfTools(t *testing.T) {
	withEach(t, func(t *testing.T, p program) {
		address, _, _ := gateway(t,
			func(w http.ResponseWriter,
				r *http.Request,
			) {
				fmt.Fprint(w, r.Header.Get("Mcp-Param-My_region.2"))
			})
		b := balance(t, p, ready(t, address, address))
		if _, body := b.post(t, "t", http.Header{"Mcp-Param-My_region.2": {"eu"}}); body != "eu" {
			t.Errorf("the gateway sees %q, want eu", body)
		}
	})
}

func TestBalancerTellsWhoAsksAndForWhat(t *testing.T) {
	withEach(t, func(t *testing.T, p program) {
		address, _, _ := gateway(t, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s|%s|%s", r.Host, strings.Join(r.Header.Values("X-Forwarded-For"), ","),
				r.Header.Get("Authorization"))
		})
		b := balance(t, p, ready(t, address, address))
		_, body := b.post(t, "t", http.Header{"X-Forwarded-For": {"203.0.113.9"}})
		if want := "mcp.example.com:8443|127.0.0.1|Bearer t"; body != want {
			t.Errorf("the gateway sees %q, want %q", body, want)
		}
	})
}

func TestBalancerLeavesTheSizeOfBodiesToTheGateway(t *testing.T) {
	withEach(t, func(t *testing.T, p program) {
		address, _, _ := gateway(t, func(w http.ResponseWriter, r *http.Request) {
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n)
		})
		b := balance(t, p, ready(t, address, address))
		const size = 4<<20 + 1 // one more than the gateway takes, so that it says so itself
		status, body, err := b.send(t.Context(), strings.Repeat("t", 15<<10), strings.Repeat("x", size), nil)
		if err != nil || body != fmt.Sprint(size) {
			t.Errorf("status %d, body %.100q, %v; want the gateway to see %d bytes", status, body, err, size)
		}
	})
}

// TestUnprovenSnippetsSaySo reads the snippets that no test runs: each says so, and has
// what can be looked up: both gateways, and where they say that they stop.
func TestUnprovenSnippetsSaySo(t *testing.T) {
	for _, name := range []string{"Caddyfile", "envoy.yaml", "traefik.yaml"} {
		text := read(t, "loadbalancer/"+name)
		head, _, _ := strings.Cut(text, "\n\n")
		if !strings.Contains(head, "NOT PROVEN") {
			t.Errorf("%s does not say at its head that it is not proven", name)
		}
		for _, part := range []string{"10.0.0.11", "10.0.0.12", "/readyz", "9090", "8080"} {
			if !strings.Contains(text, part) {
				t.Errorf("%s has no %s", name, part)
			}
		}
		var anything map[string]any
		if strings.HasSuffix(name, ".yaml") {
			if err := yaml.UnmarshalWithOptions([]byte(text), &anything, yaml.Strict()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestCaddyAcceptsTheSnippet(t *testing.T) {
	caddy, err := exec.LookPath("caddy")
	if err != nil {
		t.Skip("skipped: no caddy here; its command validate checks the file")
	}
	dir := t.TempDir()
	plain := replaced(t, "loadbalancer/Caddyfile",
		map[string]string{"\nmcp.example.com {": "\nhttp://127.0.0.1:8080 {\n\tbind 127.0.0.1"})
	write(t, filepath.Join(dir, "Caddyfile"),
		regexp.MustCompile(`(?m)^\t+health_.*\n`).ReplaceAllString(plain, ""))
	for _, folder := range []string{"loadbalancer", dir} { // as it is, and without TLS, as its head says
		if out, code := run(t.Context(), t, folder, caddy, "validate", "--adapter", "caddyfile", "--config",
			"Caddyfile"); code != 0 {
			t.Errorf("caddy validate in %s: exit %d: %s", folder, code, out)
		}
	}
	if out, code := run(t.Context(), t, dir, caddy, "adapt"); code != 0 ||
		!strings.Contains(out, `"listen":["127.0.0.1:8080"]`) {
		t.Errorf("without TLS: exit %d, want it to listen on 127.0.0.1:8080: %s", code, out)
	}
}
