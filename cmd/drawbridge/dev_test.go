package main

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
)

// TestDevHasOneUser shows that dev's servers are told so, and those of a config are not.
func TestDevHasOneUser(t *testing.T) {
	clients, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer clients.Close()
	cfg := config.Default()
	cfg.Servers = []config.Server{{Name: "files", Prefix: "files", Command: "npx"}}
	if _, err := newTrial(cfg, listeners{clients: clients}, time.Now()); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	if got := upstreamConfig(cfg.Servers[0], log); !got.OneUser || got.Shared {
		t.Errorf("dev: got one user %v, shared %v, want one user and not shared", got.OneUser, got.Shared)
	}
	served := parse(t, minimal+"  tested: {command: npx, shared: true}\n")
	if got := upstreamConfig(served.Servers[1], log); got.OneUser || !got.Shared {
		t.Errorf("serve: got one user %v, shared %v, want shared alone", got.OneUser, got.Shared)
	}
}
