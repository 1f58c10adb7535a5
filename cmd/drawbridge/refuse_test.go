//go:build linux

package main

import (
	"context"
	"io"
	"net"
	"testing"
)

// TestWhoHasConnectedIsAcceptedWhileTheListenerCloses opens connections that nobody has
// accepted when the listener is to be closed.
func TestWhoHasConnectedIsAcceptedWhileTheListenerCloses(t *testing.T) {
	const clients = 100
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open []net.Conn
	for range clients {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	closing, closed := make(chan struct{}), make(chan struct{})
	go func() {
		close(closing)
		refuseConnections(context.WithoutCancel(t.Context()), l)
		close(closed)
	}()
	<-closing
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("here"))
			_ = c.Close()
		}
	}()
	lost := 0
	for _, c := range open {
		if text, err := io.ReadAll(c); err != nil || string(text) != "here" {
			lost++
		}
		_ = c.Close()
	}
	if lost > 0 {
		t.Errorf("%d of %d connections were lost", lost, clients)
	}
	<-closed
}
