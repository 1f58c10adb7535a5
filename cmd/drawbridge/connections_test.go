package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
)

func TestConnectionBounds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name                string
		limits              config.Limits
		descriptors, memory int64
		total, address      int
	}{
		{"nothing bounds them", config.Limits{}, 0, 0, 20_000, 10_000},
		{"descriptors", config.Limits{}, 1024, 0, 768, 384},
		{"memory", config.Limits{}, 1 << 20, 512 << 20, 3276, 1638},
		{"little of both", config.Limits{}, 1, 1, 1, 1},
		{
			"the config",
			config.Limits{MaxConnections: 9000, AddressConnections: 8000},
			1024, 512 << 20, 9000,
			8000,
		},
		{
			"the config, for one address more than in all",
			config.Limits{MaxConnections: 10, AddressConnections: 8000},
			0, 0, 10, 10,
		},
	} {
		total, address := connectionBounds(test.limits, test.descriptors, test.memory)
		if total != test.total || address != test.address {
			t.Errorf("%s: got %d and %d, want %d and %d", test.name, total, address, test.total, test.address)
		}
	}
}

// TestStreamsLeaveConnectionsToRequests: on a machine with few connections, streams of
// some tenants took all of them, and nobody else found one.
func TestStreamsLeaveConnectionsToRequests(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		limits config.Limits
		total  int
		want   int
	}{
		{config.Limits{}, 1433, 1289},
		{config.Limits{}, 20_000, 18_000},
		{config.Limits{}, 100_000, 20_000},
		{config.Limits{}, 1, 1},
		{config.Limits{MaxStreams: 50}, 40, 50},
	} {
		if got := (connectionLimits{total: test.total}).streams(test.limits); got != test.want {
			t.Errorf("%+v with %d connections: got %d streams, want %d", test.limits, test.total, got, test.want)
		}
	}
}

// TestUnauthenticatedConnectionsLockNobodyOut opens ten times as many connections as
// there may be, none of which says who it is. A client with a token keeps the connection
// that it had, and another finds a place.
func TestUnauthenticatedConnectionsLockNobodyOut(t *testing.T) {
	t.Parallel()
	const most = 40
	dir := t.TempDir()
	listen, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	operator, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("listen: %s\noperator: %s\nlimits: {max_connections: %d, address_connections: %d}\n",
		listen, operator, most, most) + minimal
	file := filepath.Join(dir, "drawbridge.yaml")
	for name, content := range map[string]string{
		file:                         text,
		filepath.Join(dir, "secret"): "f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99",
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	gateway := exec.CommandContext(ctx, "drawbridge", "serve", "-config", file, "-drain-delay", "0s")
	gateway.Cancel = func() error { return gateway.Process.Signal(os.Interrupt) }
	if err := gateway.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = gateway.Wait() }()
	for !listens(ctx, listen) && ctx.Err() == nil {
		<-time.After(10 * time.Millisecond)
	}
	cfg, err := config.Load(file, testEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := signToken(cfg, tokenRequest{tenant: "acme", subject: "alice", ttl: time.Hour},
		time.Now())
	if err != nil {
		t.Fatal(err)
	}
	early, late := &http.Client{Transport: &http.Transport{}}, &http.Client{Transport: &http.Transport{}}
	defer early.CloseIdleConnections()
	defer late.CloseIdleConnections()
	if _, err := ping(ctx, early, listen, token); err != nil {
		t.Fatal(err)
	}
	for range 10 * most {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", listen)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if reused, err := ping(ctx, early, listen, token); err != nil || !reused {
		t.Errorf("the early client: %v, and its connection was kept: %v", err, reused)
	}
	if _, err := ping(ctx, late, listen, token); err != nil {
		t.Errorf("the late client: %v", err)
	}
	if _, text := fetched("http://" + operator + "/metrics"); !strings.Contains(text,
		`drawbridge_connections_closed_total{bound="`) ||
		!strings.Contains(text, fmt.Sprintf("drawbridge_connections_limit %d", most)) {
		t.Errorf("the metrics do not tell of it:\n%s", text)
	}
	// Those that say nothing are closed after seconds, so that others come in each
	// attempt.
	eventually(t, "/readyz says that all connections are open", func() bool {
		for range most {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", listen)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
		}
		_, text := fetched("http://" + operator + "/readyz")
		return strings.Contains(text, fmt.Sprintf("connections: all %d are open", most))
	})
}

// ping asks the gateway for nothing in particular. reused tells whether that went over a
// connection of before.
func ping(ctx context.Context, client *http.Client, address, token string) (reused bool, err error) {
	ctx = httptrace.WithClientTrace(ctx,
		&httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
	body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/mcp",
		strings.NewReader(body))
	if err != nil {
		return false, err
	}
	r.GetBody = nil // so that a connection that is gone is told, rather than hidden by another attempt
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := client.Do(r)
	if err != nil {
		return reused, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return reused, fmt.Errorf("status %s", resp.Status)
	}
	_, err = io.ReadAll(resp.Body)
	return reused, err
}
