package main

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/connlimit"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/server"
)

const (
	// clientsPercent is how much of the descriptors connections of clients may take. The
	// rest is for connections to servers, pipes to children, and files.
	clientsPercent = 75
	// connectionsPercent is how much of the memory of the process connections may take,
	// connectionMemory bytes each: for goroutines, buffers and what is known of a
	// request. As resident memory of 4,000 connections each took 30 KiB while its request
	// was in work, 20 KiB when it was idle afterwards, and as an event stream, which all
	// are not, 5 to 8 KiB.
	connectionsPercent = 20
	connectionMemory   = 32 << 10

	// streamsPercent is how much of the connections event streams may take. None of them
	// gives way to a newcomer, so with all of them nobody's request would find a slot.
	streamsPercent = 90

	defaultConnections  = 20_000 // if neither descriptors nor memory are bounded more tightly
	operatorConnections = 64     // of the operator's listener: Prometheus, a load balancer's checks, a person
)

// connectionBounds returns how many connections of clients may be open, in all and of one
// address. The config decides; otherwise the number of descriptors and the bytes of
// memory that the process may have, each zero if nothing bounds it. One address may have
// half by default: with more it could fill the gateway alone, and with less a proxy would
// be bounded that trusted_proxies should name.
func connectionBounds(l config.Limits, descriptors, memory int64) (total, address int) {
	most := int64(defaultConnections)
	if descriptors > 0 {
		most = min(most, descriptors*clientsPercent/100)
	}
	if memory > 0 {
		most = min(most, memory/100*connectionsPercent/connectionMemory)
	}
	total = cmp.Or(l.MaxConnections, int(max(most, 1)))
	return total, min(total, cmp.Or(l.AddressConnections, max(total/2, 1)))
}

// connectionLimits bound the connections of both listeners.
type connectionLimits struct {
	clients, operator *connlimit.Limiter
	total, address    int // of clients
	descriptors       int64
}

func (p *parts) newConnectionLimits(l config.Limits, descriptors, memory int64) connectionLimits {
	c := connectionLimits{descriptors: descriptors}
	c.total, c.address = connectionBounds(l, descriptors, memory)
	c.clients = connlimit.New(connlimit.Config{
		Total: c.total, Address: c.address,
		Trusted: func(a netip.Addr) bool { return p.settings.Load().Trusts(a) },
		Refused: func(cause connlimit.Cause) { p.metrics.ConnectionRefused(string(cause)) },
		Closed:  func(cause connlimit.Cause) { p.metrics.ConnectionClosed(string(cause)) },
	})
	c.operator = connlimit.New(connlimit.Config{Total: operatorConnections})
	p.metrics.Connections.Of(func(tell metrics.Tell) {
		tell("", float64(c.total), float64(c.clients.Open()))
	})
	return c
}

// streams returns how many event streams may be open. The config decides; otherwise it is
// a part of the connections, at most server.DefaultMaxStreams.
func (c connectionLimits) streams(l config.Limits) int {
	return cmp.Or(l.MaxStreams, min(server.DefaultMaxStreams, max(c.total*streamsPercent/100, 1)))
}

// tell logs the bounds of clients, and warns if the config allows more connections than
// there are descriptors for.
func (c connectionLimits) tell(ctx context.Context, log *slog.Logger) {
	log.InfoContext(ctx, "connections", slog.Int("max_connections", c.total),
		slog.Int("address_connections", c.address))
	if c.descriptors > 0 && int64(c.total) > c.descriptors*clientsPercent/100 {
		log.WarnContext(
			ctx, "limits.max_connections leaves too few descriptors for servers: lower it, or raise the "+
				"limit of open files",
			slog.Int("max_connections", c.total), slog.Int64("descriptors", c.descriptors))
	}
}

// overload returns what /readyz says while every connection is taken, "" otherwise.
// Unauthenticated and idle ones give way then, so it is no reason to send clients
// elsewhere.
func (c connectionLimits) overload() string {
	return when(c.clients.Open() >= c.total,
		"connections: all %d are open; unauthenticated and idle ones give way to newcomers", c.total)
}
