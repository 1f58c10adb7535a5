package main

import (
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
)

// TestDevProposesTheProgramAsItWasCalled shows what can be typed where drawbridge is not
// on the path.
func TestDevProposesTheProgramAsItWasCalled(t *testing.T) {
	t.Parallel()
	taken := &bindError{key: "listen", address: "127.0.0.1:8080", err: syscall.EADDRINUSE}
	const want = "\ntry with any free ports: .bin/drawbridge dev -listen 127.0.0.1:0 -operator 127.0.0.1:0"
	if got := devBindError(taken, ".bin/drawbridge").Error(); !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want it to end in %q", got, want)
	}
}

// TestDevHasOneUser shows that dev's servers are told so, and those of a config are not.
func TestDevHasOneUser(t *testing.T) {
	clients, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer clients.Close()
	cfg := config.Default()
	cfg.Servers = []config.Server{{Name: "files", Prefix: "files", Command: "npx"}}
	newTrial(cfg, listeners{clients: clients}, config.Imported{})
	log := slog.New(slog.DiscardHandler)
	if got := upstreamConfig(cfg.Servers[0], log); !got.OneUser || got.Shared {
		t.Errorf("dev: got one user %v, shared %v, want one user and not shared", got.OneUser, got.Shared)
	}
	served := parse(t, minimal+"  tested: {command: npx, shared: true}\n")
	if got := upstreamConfig(served.Servers[1], log); got.OneUser || !got.Shared {
		t.Errorf("serve: got one user %v, shared %v, want shared alone", got.OneUser, got.Shared)
	}
}
