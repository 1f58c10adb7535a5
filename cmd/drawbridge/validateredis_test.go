package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/database/postgrestest"
	"github.com/drawbridge-mcp/drawbridge/internal/fatal"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// TestOnlineChecksTheRoomOfRedis tells Redis servers that have room for redis.memory from
// those that have not.
func TestOnlineChecksTheRoomOfRedis(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args    []string
		revoked string // a right that the user does not have
		filled  bool
		ok      bool
		message string
	}{
		"enough":      {args: []string{"--maxmemory", "512mb"}, ok: true, message: "of its 512 MiB are used"},
		"too little":  {args: []string{"--maxmemory", "256mb"}, message: "maxmemory is 256 MiB: it must be 512 MiB"},
		"others":      {args: []string{"--maxmemory", "512mb"}, filled: true, message: "which leaves less than"},
		"not bounded": {ok: true, message: "its maxmemory is not set"},
		"evicts": {
			args:    []string{"--maxmemory", "512mb", "--maxmemory-policy", "allkeys-lru"},
			message: "must be noeviction",
		},
		"not allowed to ask": {revoked: "-info", ok: true, message: "give its user the right +info"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.StartOne(t, c.args...)
			if c.revoked != "" {
				server.Exec(t, "ACL", "SETUSER", "default", c.revoked)
			}
			if c.filled {
				server.Exec(t, "SETRANGE", "junk", fmt.Sprint(300<<20), "x") // zeros before it
			}
			got := try{name: "redis", run: func(ctx context.Context) (string, error) {
				return tryRedis(ctx, config.Redis{
					Addresses: []string{server.Address}, Memory: 256 << 20, Patience: redistest.Patience,
				})
			}}.check(t.Context(), &config.Config{})
			if got.OK != c.ok || !strings.Contains(got.Message, c.message) {
				t.Errorf("got %v %q, want %v %q", got.OK, got.Message, c.ok, c.message)
			}
		})
	}
}

// TestOnlineTellsAServerThatTakesNoWrites has data at what a failover has made a standby.
func TestOnlineTellsAServerThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	server, err := postgrestest.Start()
	if errors.Is(err, exec.ErrNotFound) {
		server.Need(t)
	}
	fatal.OK(t, err)
	t.Cleanup(server.Stop)
	server.Create(t, "kept", "")
	file := server.File(t, "kept", "kept")
	said := fatal.Have(tryStore(t.Context(), file))(t)
	server.BecomeStandby(t)
	if _, err := tryStore(t.Context(), file); err == nil || !strings.Contains(err.Error(), "read only") {
		t.Errorf("a standby: got error %v, want that it is read only; before it was %q", err, said)
	}
}
