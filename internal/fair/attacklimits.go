package main

import "context"

// beyondLimits calls on, whatever the limits say.
func beyondLimits() attack {
	return attack{
		name: "calls beyond limits", does: "64 connections call a small tool as fast as they can and ignore 429",
		raiders: 64,
		begin: func(r *raider) func(context.Context) error {
			return r.repeat(r.call("echo", `{"message":"hello"}`))
		},
		bites: func(seen tally) bool { return seen.Answered > 0 && seen.Refused > 0 },
	}
}

// lists asks for the list of all tools again and again.
func lists() attack {
	return attack{
		name: "lists", does: "16 connections ask for a list of 500 tools as fast as they can",
		raised: true, raiders: 16,
		begin: func(r *raider) func(context.Context) error {
			return r.repeat(request{
				addr: r.mission.Addr, token: r.token(), revision: modern, rpc: "tools/list",
				body: message("tools/list", "", modern, false),
			})
		},
		bites: func(seen tally) bool { return seen.Answered > 0 && seen.Received > 50<<10 },
	}
}
