package raid

import (
	"bytes"
	"context"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// beyondLimits calls on, whatever the limits say.
var beyondLimits = Attack{
	Name:    "calls beyond limits",
	Does:    "64 connections call a small tool as fast as they can and ignore 429",
	Raiders: 64,
	Begin: func(_ context.Context, r *Raider) func() {
		return r.repeat(r.call("echo", `{"message":"hello"}`))
	},
	Signs: Signs{Answered: 1, Refused: 1},
}

// Refusals calls a tool that is there and that a thousand rules keep from the caller:
// each of them is looked at for the record, which says why. Such a refusal comes with
// 200, and counts as one. It is none of Attacks, since it needs a tenant of its own.
var Refusals = Attack{
	Name: "refusals",
	Does: "64 connections call a tool as fast as they can that each of 1,000 rules allows to who has a " +
		"scope that they lack",
	Raised:  true,
	Ruled:   true,
	Raiders: 64,
	Begin: func(_ context.Context, r *Raider) func() {
		text := r.call("echo", `{"message":"hello"}`).Bytes()
		return func() {
			if bytes.Contains(r.exchange(text).Body, []byte("DB-TOOL")) {
				r.answered.Add(-1)
				r.refused.Add(1)
			}
		}
	},
	Signs: Signs{Refused: 1},
}

// lists asks for the list of all tools again and again.
var lists = Attack{
	Name: "lists", Does: "16 connections ask for a list of 500 tools as fast as they can",
	Raised: true, Raiders: 16,
	Begin: func(_ context.Context, r *Raider) func() {
		return r.repeat(client.Request{
			Addr: r.mission.Addr, Token: r.token(), Revision: mcp.LatestModern, RPC: "tools/list",
			Body: client.Message("1", "tools/list", "", mcp.LatestModern),
		})
	},
	Signs: Signs{Answered: 1, Received: 50 << 10},
}
