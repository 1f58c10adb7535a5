package redistest

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// Faults are what happens to a server for a while; one is a store of it.
var Faults = map[string]func(t testing.TB, server *Server, one *redis.Store){
	"its connections end": func(t testing.TB, server *Server, _ *redis.Store) {
		t.Helper()
		server.Exec(t, "SCRIPT", "FLUSH")
		server.Exec(t, "CLIENT", "KILL", "TYPE", "normal")
	},
	"it is a replica": func(t testing.TB, server *Server, one *redis.Store) {
		t.Helper()
		server.Exec(t, "REPLICAOF", "127.0.0.1", "1") // where nobody listens, so that it keeps its data
		WaitDown(t, one)
		server.Exec(t, "REPLICAOF", "NO", "ONE")
	},
	"it is full": func(t testing.TB, server *Server, one *redis.Store) {
		t.Helper()
		server.Exec(t, "CONFIG", "SET", "maxmemory", "1")
		WaitDown(t, one)
		server.Exec(t, "CONFIG", "SET", "maxmemory", "0")
	},
}
