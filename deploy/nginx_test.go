package deploy_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
)

// balancer is nginx with the shipped snippet, between a client and two gateways.
type balancer struct {
	url    string
	client *http.Client
}

// nginxConf writes the snippet, with its addresses and certificate replaced, and a main config that includes it.
func nginxConf(t *testing.T, listen string, gateways [2]string) (dir, main string) {
	t.Helper()
	dir = t.TempDir()
	certificate(t, dir)
	snippet := read(t, "loadbalancer/nginx.conf")
	for old, replacement := range map[string]string{
		"listen 443 ssl;": "listen " + listen + " ssl;", "10.0.0.11:8080": gateways[0], "10.0.0.12:8080": gateways[1],
		"/etc/nginx/tls/mcp.example.com": filepath.Join(dir, "tls"),
	} {
		if !strings.Contains(snippet, old) {
			t.Fatalf("the snippet has no %q to replace", old)
		}
		snippet = strings.ReplaceAll(snippet, old, replacement)
	}
	write(t, filepath.Join(dir, "drawbridge.conf"), snippet)
	main = filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf("daemon off;\nmaster_process off;\npid %s/nginx.pid;\nevents {}\nhttp {\n  access_log off;\n", dir)
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		text += fmt.Sprintf("  %s_temp_path %s/%s;\n", kind, dir, kind)
	}
	write(t, main, text+"  include "+dir+"/drawbridge.conf;\n}\n")
	return dir, main
}

func certificate(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mcp.example.com"}, DNSNames: []string{"mcp.example.com"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "tls.crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, filepath.Join(dir, "tls.key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
}

// balance starts nginx before two gateways. It is stopped and waited for when the test ends.
func balance(t *testing.T, first, second string) *balancer {
	t.Helper()
	nginx := tool(t, "nginx", "nginx")
	listen := freeAddress(t)
	dir, main := nginxConf(t, listen, [2]string{first, second})
	var output strings.Builder // read only after the process has ended
	cmd := exec.CommandContext(t.Context(), nginx, "-e", "stderr", "-p", dir, "-c", main)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // when the test ends
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Wait() // it was ended by us
		if t.Failed() {
			t.Logf("nginx said: %s", output.String())
		}
	})
	waitFor(t, listen)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, listen)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &balancer{url: "https://mcp.example.com:8443", client: &http.Client{Transport: transport}}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func waitFor(t *testing.T, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			conn.Close()
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("nobody listens at %s", address)
		}
	}
}

// post sends a request with that token and returns status and body.
func (b *balancer) post(t *testing.T, token string, header http.Header) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/mcp", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(request.Header, header)
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := b.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// gateway is a stand-in for one: it runs handle, counts requests and connections.
func gateway(t *testing.T, handle http.HandlerFunc) (address string, requests, connections func() int) {
	t.Helper()
	var mu sync.Mutex // guards the two counts
	var asked, connected int
	count := func(n *int) {
		mu.Lock()
		defer mu.Unlock()
		*n++
	}
	counted := func(n *int) func() int {
		return func() int {
			mu.Lock()
			defer mu.Unlock()
			return *n
		}
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count(&asked)
		handle(w, r)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			count(&connected)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), counted(&asked), counted(&connected)
}

func TestNginxAcceptsTheSnippet(t *testing.T) {
	nginx := tool(t, "nginx", "nginx")
	dir, main := nginxConf(t, freeAddress(t), [2]string{"10.0.0.11:8080", "10.0.0.12:8080"})
	out, code := run(t.Context(), t, dir, nginx, "-t", "-e", "stderr", "-p", dir, "-c", main)
	if code != 0 || strings.Contains(out, "[warn]") {
		t.Errorf("nginx -t: exit %d: %s", code, out)
	}
}

func TestNginxPassesEventsAtOnce(t *testing.T) {
	release := make(chan struct{})
	stream := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: first\n\n")
		_ = http.NewResponseController(w).Flush() // a failure shows as a missing event
		select {
		case <-release:
		case <-r.Context().Done():
		}
		fmt.Fprint(w, "data: last\n\n")
	}
	address, _, _ := gateway(t, stream)
	b := balance(t, address, address)
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
	reader := bufio.NewReader(response.Body)
	if line, err := reader.ReadString('\n'); err != nil || line != "data: first\n" {
		t.Fatalf("got %q, %v while the stream is open", line, err)
	}
	close(release)
	rest, err := io.ReadAll(reader)
	if err != nil || !strings.Contains(string(rest), "data: last") {
		t.Errorf("the rest is %q, %v", rest, err)
	}
}

func TestNginxNeverSendsAPostTwice(t *testing.T) {
	hangUp := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	first, asked, _ := gateway(t, hangUp)
	second, askedToo, _ := gateway(t, hangUp)
	b := balance(t, first, second)
	if status, _ := b.post(t, "t", nil); status != http.StatusBadGateway {
		t.Errorf("status %d, want 502", status)
	}
	if n := asked() + askedToo(); n != 1 {
		t.Errorf("the gateways saw the POST %d times, want once", n)
	}
}

func TestNginxGoesOnWithTheOtherGateway(t *testing.T) {
	address, requests, _ := gateway(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	b := balance(t, freeAddress(t), address)
	for i := range 30 {
		if status, body := b.post(t, fmt.Sprint("token", i), nil); status != http.StatusOK || body != "ok" {
			t.Errorf("request %d: %d %q", i, status, body)
		}
	}
	if n := requests(); n != 30 {
		t.Errorf("the gateway saw %d requests, want 30", n)
	}
}

// By default nginx takes a gateway out for 10 s after one failure. When both restart, that loses every request in between.
func TestNginxTriesAGatewayAgainAtOnce(t *testing.T) {
	var well atomic.Bool
	handle := func(w http.ResponseWriter, _ *http.Request) {
		if !well.Load() {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, "ok")
	}
	first, _, _ := gateway(t, handle)
	second, _, _ := gateway(t, handle)
	b := balance(t, first, second)
	for i := range 20 {
		b.post(t, fmt.Sprint("token", i), nil)
	}
	well.Store(true)
	for i := range 20 {
		if status, body := b.post(t, fmt.Sprint("token", i), nil); status != http.StatusOK {
			t.Errorf("request %d after the restart: %d %q", i, status, body)
		}
	}
}

func TestNginxSpreadsTheRequestsOfAClient(t *testing.T) {
	answer := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
	}
	first, asked, connections := gateway(t, answer("first"))
	second, askedToo, connectionsToo := gateway(t, answer("second"))
	b := balance(t, first, second)
	for range 80 {
		b.post(t, "token", http.Header{"Mcp-Session-Id": {"session"}})
	}
	if asked() != 40 || askedToo() != 40 {
		t.Errorf("80 requests of one session: %d and %d, want half of them at each gateway", asked(), askedToo())
	}
	if n := connections() + connectionsToo(); n > 4 {
		t.Errorf("80 requests one after the other took %d connections, want them kept", n)
	}
}

// By default nginx drops headers with other characters than letters, digits and hyphens. The gateway refuses calls of tools
// whose arguments are in headers of such names.
func TestNginxDroppedHeadersOfTools(t *testing.T) {
	address, _, _ := gateway(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("Mcp-Param-My_region.2")) })
	b := balance(t, address, address)
	if _, body := b.post(t, "t", http.Header{"Mcp-Param-My_region.2": {"eu"}}); body != "eu" {
		t.Errorf("the gateway sees %q, want eu", body)
	}
}

func TestNginxTellsWhoAsksAndForWhat(t *testing.T) {
	address, _, _ := gateway(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s|%s|%s", r.Host, strings.Join(r.Header.Values("X-Forwarded-For"), ","), r.Header.Get("Authorization"))
	})
	b := balance(t, address, address)
	_, body := b.post(t, "t", http.Header{"X-Forwarded-For": {"203.0.113.9"}})
	if want := "mcp.example.com:8443|127.0.0.1|Bearer t"; body != want {
		t.Errorf("the gateway sees %q, want %q", body, want)
	}
}

func TestNginxLeavesTheSizeOfBodiesToTheGateway(t *testing.T) {
	address, _, _ := gateway(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	})
	b := balance(t, address, address)
	const size = 4<<20 + 1 // one more than the gateway takes, so that it says so itself
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/mcp", strings.NewReader(strings.Repeat("x", size)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.Repeat("t", 8<<10))
	response, err := b.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != fmt.Sprint(size) {
		t.Errorf("status %d, body %.100q, %v; want the gateway to see %d bytes", response.StatusCode, body, err, size)
	}
}
