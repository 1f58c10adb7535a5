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
	// it is one of a place where nobody listens, so that it keeps its data
	"it is a replica": while(
		[]string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"}),
	"it is full": while(
		[]string{"CONFIG", "SET", "maxmemory", "1"}, []string{"CONFIG", "SET", "maxmemory", "0"}),
}

// while is a fault that one command begins, and another one ends once the store is down.
func while(begin, end []string) func(testing.TB, *Server, *redis.Store) {
	return func(t testing.TB, server *Server, one *redis.Store) {
		t.Helper()
		server.Exec(t, begin...)
		WaitDown(t, one)
		server.Exec(t, end...)
	}
}
