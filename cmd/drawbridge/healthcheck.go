package main

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
	"github.com/drawbridge-mcp/drawbridge/server/admin"
)

// healthTimeout bounds the whole check: a gateway that does not answer in this time is
// not healthy.
const healthTimeout = 3 * time.Second

// runHealthcheck is the command healthcheck. It is a client of the operator's listener
// and reads no config.
func runHealthcheck(ctx context.Context, args []string, s streams) int {
	flags := newFlags("healthcheck", "[-addr host:port]",
		"Asks /readyz of the operator's listener. Exit 0 when the gateway serves, 1 when it does not, with "+
			"the reason.", s)
	address := flags.String("addr", config.Default().Operator, "`address` of the operator's listener")
	if code, done := parseFlags(flags, args, s); done {
		return code
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	return checkHealth(ctx, reachable(*address), s)
}

// reachable replaces the host of an address that means every interface, such as :9090, by
// loopback: one can listen on every interface but not connect to it.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}

// checkHealth asks the gateway whether it is ready, prints the answer and returns the
// exit code.
func checkHealth(ctx context.Context, address string, s streams) int {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", http.NoBody)
	if err != nil {
		s.complain("not healthy: %q is not host:port\n", address)
		return exitFailure
	}
	response, err := dial.Client(dial.Config{PrivateAddresses: true}).Do(request)
	if err != nil {
		s.complain("not healthy: nobody answers at %s: %v\n", address, err)
		return exitFailure
	}
	defer closeQuietly(response.Body)
	var view admin.View
	if body, err := readLimited(response.Body); err == nil {
		_ = strictjson.Unmarshal(body, &view) // without a body that can be read, the HTTP status says enough
	}
	return reportHealth(response.StatusCode, view, s)
}

// reportHealth prints what /readyz answered. Warnings do not make a gateway unhealthy.
func reportHealth(status int, view admin.View, s streams) int {
	for _, w := range view.Warnings {
		s.say("warning: %s\n", w)
	}
	switch {
	case status == http.StatusOK:
		s.say("ready\n")
		return exitOK
	case view.Draining:
		s.complain("not healthy: the gateway is stopping\n")
	case len(view.Problems) > 0:
		s.complain("not healthy: %s\n", strings.Join(view.Problems, "; "))
	case status == http.StatusServiceUnavailable:
		s.complain("not healthy: the gateway is starting; not every server has been tried yet\n")
	default:
		s.complain("not healthy: /readyz answered %d\n", status)
	}
	return exitFailure
}
