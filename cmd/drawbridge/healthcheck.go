package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/fetch"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
	"github.com/drawbridge-mcp/drawbridge/server/admin"
)

// healthTimeout bounds the whole check: a gateway that does not answer in this time is
// not healthy.
const healthTimeout = 3 * time.Second

// healthcheckHelp is the help of the command healthcheck.
var healthcheckHelp = help{
	"[-addr host:port]",
	"Asks /readyz of the operator's listener. Exit 0 when the gateway serves, 1 when it does not, with " +
		"the reason.",
}

// healthcheckCommand is the command healthcheck. It is a client of the operator's
// listener and reads no config.
func healthcheckCommand(flags *flag.FlagSet) action {
	address := flags.String("addr", config.Default().Operator, "`address` of the operator's listener")
	return func(ctx context.Context, _ []string, s streams) error {
		ctx, cancel := context.WithTimeout(ctx, healthTimeout)
		defer cancel()
		return checkHealth(ctx, *address, s)
	}
}

// unhealthy returns the error for a gateway that does not serve.
func unhealthy(format string, args ...any) error {
	return &exitError{exitFailure, fmt.Errorf("not healthy: "+format, args...), true}
}

// checkHealth asks the gateway whether it is ready, and prints the answer. One can listen
// on every interface, as with :9090, but not connect to it: it is asked on loopback.
func checkHealth(ctx context.Context, address string, s streams) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return unhealthy("%q is not host:port", address)
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	answer, err := fetch.Do(ctx, dial.Client(dial.Config{PrivateAddresses: true}),
		fetch.Request{Address: "http://" + address + "/readyz", Most: maxReadBytes})
	if err != nil {
		return unhealthy("nobody answers at %s: %w", address, err)
	}
	var view admin.View
	_ = strictjson.Unmarshal(answer.Body, &view) // of a body that cannot be read the HTTP status says enough
	return reportHealth(answer.Status, view, s)
}

// reportHealth prints what /readyz answered. Warnings do not make a gateway unhealthy.
func reportHealth(status int, view admin.View, s streams) error {
	for _, w := range view.Warnings {
		s.say("warning: %s\n", strings.Map(visible, w)) // it may quote a server
	}
	switch {
	case status == http.StatusOK:
		s.say("ready\n")
		return nil
	case view.Draining:
		return unhealthy("the gateway is stopping")
	case len(view.Problems) > 0:
		return unhealthy("%s", strings.Join(view.Problems, "; "))
	case status == http.StatusServiceUnavailable:
		return unhealthy("the gateway is starting: not every server has been tried yet, or the store was " +
			"not asked yet who has signed out")
	}
	return unhealthy("/readyz answered %d; is this the operator's address of a gateway?", status)
}
