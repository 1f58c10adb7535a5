package main

import (
	"context"
	"io"
	"net"
)

// listeners are the two addresses, bound before anything else runs.
type listeners struct {
	clients, operator net.Listener
}

// bind binds both addresses or none.
func bind(ctx context.Context, cfg *config) (listeners, error) {
	var l listeners
	var err error
	if l.clients, err = (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.listen); err != nil {
		return l, err
	}
	if l.operator, err = (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.operator); err != nil {
		closeQuietly(l.clients)
		return l, err
	}
	return l, nil
}

func (l listeners) close() {
	closeQuietly(l.clients)
	closeQuietly(l.operator)
}

// closeQuietly closes what has nothing left to lose: something read to its end, or closed already.
func closeQuietly(c io.Closer) { _ = c.Close() }
