//go:build !linux

package main

import (
	"context"
	"net"
)

// refuseConnections closes a listener. Connections that nobody has accepted are lost
// here.
func refuseConnections(_ context.Context, l net.Listener) { closeQuietly(l) }
