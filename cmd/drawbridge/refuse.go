//go:build linux

package main

import (
	"cmp"
	"context"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

const (
	// handshakeTime is for connections that are being opened when no further ones are let
	// in: a few round trips to a load balancer nearby. It is short, because who tries to
	// connect meanwhile waits for a second.
	handshakeTime = 10 * time.Millisecond
	// acceptTime is for connections that are open and were not accepted yet.
	acceptTime = time.Second
)

// refuseConnections closes a listener without losing a connection. The kernel opens
// connections by itself, and resets those that nobody has accepted when their listener is
// closed: requests that were sent on them would be lost, and while each answer closes its
// connection there are many. So for a moment the kernel passes over attempts to connect,
// until what is open was accepted. Who tries in that moment tries again after a second,
// by itself, and is refused then.
//
// Where the listener is closed at once,
// TestWhoHasConnectedIsAcceptedWhileTheListenerCloses loses 100 of 100 connections.
func refuseConnections(ctx context.Context, l net.Listener) {
	defer closeQuietly(l)
	raw, err := l.(syscall.Conn).SyscallConn()
	if err != nil {
		return
	}
	if passOver(raw) == nil { // otherwise connections that are being opened just now may be lost
		pace.Wait(ctx, handshakeTime)
	}
	ctx, cancel := context.WithTimeout(ctx, acceptTime)
	defer cancel()
	for isWaitedAt(raw) && ctx.Err() == nil {
		pace.Wait(ctx, pollInterval)
	}
}

// passOver has the kernel drop packets that ask a listener for a connection: those with
// SYN and without ACK.
func passOver(raw syscall.RawConn) error {
	const flags, syn, ack = 13, 0x02, 0x10 // of TCP
	filter := [...]unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flags},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: syn | ack},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: syn, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},          // drop it
		{Code: unix.BPF_RET | unix.BPF_K, K: ^uint32(0)}, // take all of it
	}
	var set error
	err := raw.Control(func(fd uintptr) {
		set = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	})
	return cmp.Or(err, set)
}

// isWaitedAt tells whether a listener has connections that nobody has accepted.
func isWaitedAt(raw syscall.RawConn) (waited bool) {
	err := raw.Control(func(fd uintptr) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) //nolint:gosec // descriptors are small numbers
		waited = err == nil && n > 0
	})
	return err == nil && waited
}
