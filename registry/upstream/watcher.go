package upstream

import (
	"context"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// watcher waits for changes of one resource of a session.
type watcher struct {
	uri     string
	updated func(uri string) // must not wait
}

// watchResource subscribes to changes of a resource, calls live once when the server agreed, and tells of changes until
// ctx ends or the session does. Several may watch the same resource; the server is asked once.
// https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions
func (l *legacy) watchResource(ctx context.Context, uri string, live func(), updated func(uri string)) error {
	w := &watcher{uri, updated}
	if err := l.subscribe(ctx, w); err != nil {
		return err
	}
	defer l.unsubscribe(ctx, w)
	live()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-l.ended:
		return l.conn.server.unavailable(true, wire.ErrGone)
	}
}

// subscribe adds a watcher, and asks the server when it is the first of its resource. The stream that brings the
// changes is open before.
func (l *legacy) subscribe(ctx context.Context, w *watcher) error {
	if l.attend != nil {
		l.attend()
	}
	l.awaitStream(ctx)
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.give()
	if !l.add(w) {
		return nil
	}
	_, err := l.exchange(ctx, l.about(mcp.MethodSubscribe, w.uri))
	if err != nil {
		l.drop(w)
	}
	return l.conn.server.settle(ctx, err)
}

// unsubscribe removes a watcher, and tells the server when it was the last of its resource.
func (l *legacy) unsubscribe(ctx context.Context, w *watcher) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit) // the watcher's own has ended
	defer cancel()
	if l.take(ctx) != nil {
		l.drop(w) // what comes for nobody is dropped
		return
	}
	defer l.give()
	if !l.drop(w) {
		return
	}
	select {
	case <-l.ended:
	default:
		_, _ = l.exchange(ctx, l.about(mcp.MethodUnsubscribe, w.uri)) // what still comes is dropped
	}
}

// about returns a request about a resource.
func (l *legacy) about(method, uri string) *wire.Request {
	return l.request(method, mcp.NewObject(mcp.Member{Name: "uri", Value: mcp.String(uri)}))
}

// add tells whether the watcher is the first of its resource.
func (l *legacy) add(w *watcher) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watchers[w.uri] = append(l.watchers[w.uri], w)
	return len(l.watchers[w.uri]) == 1
}

// drop tells whether the watcher was the last of its resource.
func (l *legacy) drop(w *watcher) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := slices.DeleteFunc(l.watchers[w.uri], func(other *watcher) bool { return other == w })
	l.watchers[w.uri] = left
	if len(left) == 0 {
		delete(l.watchers, w.uri)
	}
	return len(left) == 0
}

// updated tells all whose resource the changed one is, or is a part of.
func (l *legacy) updated(uri string) {
	l.mu.Lock()
	var concerned []*watcher
	for watched, watchers := range l.watchers {
		if covers(watched, uri) {
			concerned = append(concerned, watchers...)
		}
	}
	l.mu.Unlock()
	for _, w := range concerned {
		w.updated(uri)
	}
}

// missed tells all that their resource may have changed.
func (l *legacy) missed() {
	l.mu.Lock()
	var all []*watcher
	for _, watchers := range l.watchers {
		all = append(all, watchers...)
	}
	l.mu.Unlock()
	for _, w := range all {
		w.updated(w.uri)
	}
}

// covers tells whether uri is the watched one or a part of it: behind a boundary of its path.
func covers(watched, uri string) bool {
	rest, ok := strings.CutPrefix(uri, watched)
	if !ok || watched == "" {
		return false
	}
	return rest == "" || strings.HasSuffix(watched, "/") || strings.ContainsRune("/?#", rune(rest[0]))
}
