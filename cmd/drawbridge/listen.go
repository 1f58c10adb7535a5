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

// listeners are the two addresses, bound before anything else runs.
type listeners struct {
	clients, operator net.Listener
}

// bind binds both addresses or none. It tries both whatever becomes of the first, so that the errors.Join of *bindError
// that it returns names every address that is not to be had.
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

// listen binds one address. An error is a *bindError.
func listen(ctx context.Context, key, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, &bindError{key, address, err}
	}
	return l, nil
}

// bindError says which address cannot be bound. Both the config and the flags of dev call it by the same key.
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

// serveBindError says what helps in a config whose addresses cannot be bound.
func serveBindError(err error, cfg *config.Config) error {
	return fmt.Errorf("%w\nend the program that has it (it may be another gateway), or change listen or operator in %s", err, cfg.File)
}

// devBindError says what helps where dev's addresses cannot be bound: one that is taken is often followed by the other.
func devBindError(err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	return fmt.Errorf("%w\ntry with any free ports: drawbridge dev -listen 127.0.0.1:0 -operator 127.0.0.1:0", err)
}

// close closes what is bound.
func (l listeners) close() {
	for _, one := range []net.Listener{l.clients, l.operator} {
		if one != nil {
			closeQuietly(one)
		}
	}
}

// closeQuietly closes what has nothing left to lose: something read to its end, or closed already.
func closeQuietly(c io.Closer) { _ = c.Close() }

// readLimited reads no more than limit bytes.
func readLimited(from io.Reader, limit int64) ([]byte, error) {
	return io.ReadAll(io.LimitReader(from, limit))
}
