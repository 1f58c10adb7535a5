package deploy_test

import (
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
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
)

// balancer is a load balancer with the shipped snippet, between a client and two
// gateways.
type balancer struct {
	url       string
	client    *http.Client
	transport *http.Transport // of the client
}

// balancedGateway is a gateway behind a load balancer.
type balancedGateway struct{ address, operator string }

// program is a load balancer whose snippet is proven here.
type program struct {
	name  string // of the program, and of its package in Debian
	check []string
	serve []string // what the folder stands in is %[1]s
	// config writes the snippet, with its addresses and certificate replaced, and what it
	// needs around it.
	config func(t *testing.T, dir, listen string, gateways [2]balancedGateway)
}

// programs returns the load balancers that are proven here. The other snippets say at
// their heads that they are not.
func programs() []program {
	return []program{
		{
			"nginx",
			[]string{"-t", "-e", "stderr", "-p", "%[1]s", "-c", "%[1]s/nginx.conf"},
			[]string{"-e", "stderr", "-p", "%[1]s", "-c", "%[1]s/nginx.conf"},
			nginxConfig,
		},
		{
			"haproxy",
			[]string{"-c", "-f", "%[1]s/haproxy.cfg"},
			[]string{"-db", "-f", "%[1]s/haproxy.cfg"},
			haproxyConfig,
		},
	}
}

// withEach runs a test with each load balancer.
func withEach(t *testing.T, test func(t *testing.T, p program)) {
	t.Helper()
	for _, p := range programs() {
		t.Run(p.name, func(t *testing.T) { test(t, p) })
	}
}

// in returns arguments that name a folder.
func in(dir string, args []string) []string {
	out := make([]string, len(args))
	for i, arg := range args {
		out[i] = strings.ReplaceAll(arg, "%[1]s", dir)
	}
	return out
}

// nginxConfig includes the snippet into a main config.
func nginxConfig(t *testing.T, dir, listen string, gateways [2]balancedGateway) {
	t.Helper()
	write(t, filepath.Join(dir, "drawbridge.conf"), replaced(t, "loadbalancer/nginx.conf", map[string]string{
		"listen 443 ssl;": "listen " + listen + " ssl;", "10.0.0.11:8080": gateways[0].address,
		"10.0.0.12:8080":                 gateways[1].address,
		"/etc/nginx/tls/mcp.example.com": filepath.Join(dir, "tls"),
	}))
	text := fmt.Sprintf(
		"daemon off;\nmaster_process off;\npid %s/nginx.pid;\nevents {}\nhttp {\n  access_log off;\n", dir)
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		text += fmt.Sprintf("  %s_temp_path %s/%s;\n", kind, dir, kind)
	}
	write(t, filepath.Join(dir, "nginx.conf"), text+"  include "+dir+"/drawbridge.conf;\n}\n")
}

// haproxyConfig leaves out who HAProxy becomes, since only root can become somebody else.
func haproxyConfig(t *testing.T, dir, listen string, gateways [2]balancedGateway) {
	t.Helper()
	replacements := map[string]string{
		"    user haproxy\n    group haproxy\n": "", "bind :443 ": "bind " + listen +
			" ", "/etc/haproxy/mcp.example.com.pem": filepath.Join(dir, "tls.pem"),
	}
	for i, server := range []string{"10.0.0.11", "10.0.0.12"} {
		host, port, err := net.SplitHostPort(gateways[i].operator)
		if err != nil {
			t.Fatal(err)
		}
		replacements[server+":8080 check addr "+server+" port 9090"] = gateways[i].address + " check addr " +
			host + " port " + port
	}
	write(t, filepath.Join(dir, "haproxy.cfg"), replaced(t, "loadbalancer/haproxy.cfg", replacements))
}

func certificate(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mcp.example.com"},
		DNSNames:  []string{"mcp.example.com"},
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
	crt := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	secret := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	write(t, filepath.Join(dir, "tls.crt"), crt)
	write(t, filepath.Join(dir, "tls.key"), secret)
	write(t, filepath.Join(dir, "tls.pem"), crt+secret)
}

// balance starts a load balancer before two gateways. It is stopped and waited for when
// the test ends.
func balance(t *testing.T, p program, gateways [2]balancedGateway) *balancer {
	t.Helper()
	path := tool(t, p.name, p.name)
	listen, dir := freeAddress(t), t.TempDir()
	certificate(t, dir)
	p.config(t, dir, listen, gateways)
	background(t, path, in(dir, p.serve)...)
	waitFor(t, listen)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, listen)
		},
		MaxIdleConnsPerHost: 64,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &balancer{
		url: "https://mcp.example.com:8443", client: &http.Client{Transport: transport},
		transport: transport,
	}
}

// ready returns gateways at these addresses that say at their operator address that they
// are ready.
func ready(t *testing.T, first, second string) [2]balancedGateway {
	t.Helper()
	operator, _, _ := gateway(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			http.NotFound(w, r)
		}
	})
	return [2]balancedGateway{{first, operator}, {second, operator}}
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
	status, body, err := b.send(t.Context(), token, "{}", header)
	if err != nil {
		t.Fatal(err)
	}
	return status, body
}

// send is post with a body of the caller's. An error is that of a connection.
func (b *balancer) send(ctx context.Context, token, text string, header http.Header) (status int, body string,
	err error,
) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/mcp", strings.NewReader(text))
	if err != nil {
		return 0, "", err
	}
	maps.Copy(request.Header, header)
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := b.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, string(answer), err
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
