package raid

import (
	"context"
	"net/http"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// idleConnections opens connections and sends nothing.
var idleConnections = Attack{
	Name: "idle connections", Stranger: true,
	Does:    "8 raiders open connections, send nothing, hold up to 500 (4,000 in all) and replace the oldest",
	Raiders: 8,
	Begin: func(_ context.Context, r *Raider) func() {
		return r.hoard(500, func(*client.Conn) bool { return true })
	},
	Signs: Signs{Held: connectionsEach},
}

// slowHeaders begins requests, each with as much of a header as may be, and never ends
// them.
var slowHeaders = Attack{
	Name: "slow headers", Stranger: true,
	Does: "8 raiders send 15 KB of a header that has no end, hold up to 128 connections each (1,024 in " +
		"all)",
	Raiders: 8,
	Begin: func(_ context.Context, r *Raider) func() {
		head := client.Request{
			Addr: r.mission.Addr, Method: http.MethodGet,
			Revision: mcp.LatestModern,
		}.Bytes()
		head = append(head[:len(head)-len("\r\n")], "X-Long: "+strings.Repeat("x", 15_000)...)
		return r.hoard(128, func(w *client.Conn) bool {
			must.Have(w.Write(head))
			return true
		})
	},
	Signs: Signs{Held: connectionsEach},
}
