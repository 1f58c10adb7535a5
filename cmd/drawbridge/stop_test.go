package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestRequestsOnIdleConnectionsAreAnsweredDuringAStop lets many clients send requests on
// connections that are idle in between, and sends SIGTERM in the midst of that. Every
// request gets its answer, and the last answer on each connection says so.
func TestRequestsOnIdleConnectionsAreAnsweredDuringAStop(t *testing.T) {
	t.Parallel()
	const clients = 32
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	gateway, listen, log := startProgram(ctx, t, minimal, "5s")
	for !listens(ctx, listen) && ctx.Err() == nil {
		<-time.After(10 * time.Millisecond)
	}
	answered := make(chan struct{}, clients)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			if err := useUntilClosed(ctx, listen, time.Duration(i%7+1)*time.Millisecond,
				answered); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	for range clients {
		select {
		case <-answered:
		case <-ctx.Done():
			t.Fatal("not every client got a first answer")
		}
	}
	if err := gateway.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if err := gateway.Wait(); err != nil {
		t.Errorf("%v; log:\n%s", err, log.String())
	}
}

// useUntilClosed sends one request after the other on one connection, with pauses in
// which it is idle, until an answer says that it is the last one. It tells of the first
// answer. The error says which request got none.
func useUntilClosed(ctx context.Context, address string, pause time.Duration,
	answered chan<- struct{},
) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	answers := bufio.NewReader(conn)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for n := 1; ; n++ {
		if _, err := fmt.Fprintf(conn, "GET /nothing HTTP/1.1\r\nHost: %s\r\n\r\n", address); err != nil {
			return fmt.Errorf("request %d was not sent: %w", n, err)
		}
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			return fmt.Errorf("request %d got no answer: %w", n, err)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err != nil || resp.Close {
			return err
		}
		if n == 1 {
			answered <- struct{}{}
		}
		<-tick.C
	}
}
