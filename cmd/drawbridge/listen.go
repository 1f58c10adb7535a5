package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
)

// listeners are the listeners of both addresses. They are bound before any part is built,
// so that an address that is taken is told at once.
type listeners struct {
	clients, operator net.Listener
}

// bind binds both addresses or none. It tries the second even after the first has failed.
// The error joins a *bindError for each address that cannot be bound, so that the
// operator sees both in one attempt.
func bind(ctx context.Context, cfg *config.Config) (listeners, error) {
	var l listeners
	var clients, operator error
	l.clients, clients = listen(ctx, "listen", cfg.Listen)
	l.operator, operator = listen(ctx, "operator", cfg.Operator)
	err := errors.Join(clients, operator)
	if err != nil {
		l.close()
	}
	return l, err
}

// listen binds one address. Its error is a *bindError. Multipath TCP, which Go would use
// by default, has no filter: see refuseConnections.
func listen(ctx context.Context, key, address string) (net.Listener, error) {
	var one net.ListenConfig
	one.SetMultipathTCP(false)
	l, err := one.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, &bindError{key, address, err}
	}
	return l, nil
}

// bindError says which address cannot be bound. The key is listen or operator, which the
// config and the flags of dev have in common.
type bindError struct {
	key, address string
	err          error
}

func (e *bindError) Error() string {
	if errors.Is(e.err, syscall.EADDRINUSE) {
		return fmt.Sprintf("%s (%s) is taken by another program", e.address, e.key)
	}
	return fmt.Sprintf("%s (%s) cannot be listened on: %v", e.address, e.key, e.err)
}

// Unwrap returns the cause.
func (e *bindError) Unwrap() error { return e.err }

// serveBindError adds to an error of bind what an operator of serve can do about it.
func serveBindError(err error, cfg *config.Config) error {
	return fmt.Errorf(
		"%w\nend the program that has it (it may be another gateway), or change listen or operator in %s",
		err, cfg.File)
}

// devBindError adds to an error of bind what a user of dev can do about it. It proposes
// free ports for both addresses: where one is taken, often another gateway runs that has
// the other too. program is how the user has called this one.
func devBindError(err error, program string) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	return fmt.Errorf("%w\ntry with any free ports: %s dev -listen 127.0.0.1:0 -operator 127.0.0.1:0", err,
		program)
}

// close closes the listeners that are bound.
func (l listeners) close() {
	for _, one := range []net.Listener{l.clients, l.operator} {
		if one != nil {
			closeQuietly(one)
		}
	}
}

// closeQuietly closes something whose closing cannot lose anything, because it was only
// read or is closed already. So its error is of no use.
func closeQuietly(c io.Closer) { _ = c.Close() }
