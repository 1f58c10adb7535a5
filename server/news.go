package server

import (
	"context"
	"maps"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Subscriptions of one session, or one listen request.
const (
	maxSubscriptions = 256
	// maxUpdates is how many parts of resources are remembered as changed; beyond, the resources they are parts of.
	maxUpdates = 1024
	// maxTold is how many updates are put into the log before they are sent: it does not keep any number of events.
	maxTold = 32
)

// changes returns the notices of changed lists, each with the digest that tells whether its list changed.
func changes(d gateway.Digests) [3]struct{ method, digest string } {
	return [3]struct{ method, digest string }{
		{mcp.NotifyToolsChanged, d.Tools},
		{mcp.NotifyPromptsChanged, d.Prompts},
		{mcp.NotifyResourcesChanged, d.Resources},
	}
}

// news is what the client of a session has yet to be told. The session's mutex guards it.
type news struct {
	lists [3]struct {
		told string // digest of what the client was last told of
		owed string // stream whose log has the notice of that, not sent yet; "" for none
	}
	updates map[string]string // changed resources that were not told; the value is the stream whose log has the notice, or ""
	stirred chan struct{}     // closed when there is an update; nil while nobody waits
	watched map[string]*watch // subscriptions, by URI
}

// watch is a subscription to one resource.
type watch struct {
	opened chan struct{} // closed when what follows is known
	told   *mcp.Error    // why it could not be opened; nil: it was
	stop   func()
}

// claim returns the notices of changed lists that the client has yet to get, and leaves them to the stream that asked:
// of several only one tells each. Another takes over when no connection has that one any more and the notice was not
// sent. stream is "" for a client that need not be told.
func (l *live) claim(d gateway.Digests, stream string) (methods []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, change := range changes(d) {
		n := &l.news.lists[i]
		if n.told == change.digest && !l.isUnsentLocked(n.owed, stream) {
			continue
		}
		n.told, n.owed = change.digest, stream
		methods = append(methods, change.method)
	}
	return methods
}

// isUnsentLocked tells whether what was left to one stream falls to another.
func (l *live) isUnsentLocked(owed, stream string) bool {
	return owed != "" && owed != stream && l.holders[owed] == nil
}

// claimUpdates is claim for changed resources. It returns the URIs of some; more is whether there are others.
func (l *live) claimUpdates(stream string) (uris []string, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for uri, owed := range l.news.updates {
		if owed == "" || l.isUnsentLocked(owed, stream) {
			uris = append(uris, uri)
		}
	}
	slices.Sort(uris)
	more = len(uris) > maxTold
	uris = uris[:min(len(uris), maxTold)]
	for _, uri := range uris {
		l.news.updates[uri] = stream
	}
	return uris, more
}

// sent notes that all there was on a stream went out, its notices too.
func (l *live) sent(stream string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.news.lists {
		if n := &l.news.lists[i]; n.owed == stream {
			n.owed = ""
		}
	}
	maps.DeleteFunc(l.news.updates, func(_, owed string) bool { return owed == stream })
}

// updated notes that a resource changed, or a part of one, which the subscription to uri told. Until it is told, it
// counts once however often it changes.
func (l *live) updated(uri, part string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || l.news.watched[uri] == nil {
		return
	}
	if l.news.updates == nil {
		l.news.updates = make(map[string]string)
	}
	if _, known := l.news.updates[part]; !known && len(l.news.updates) >= maxUpdates {
		part = uri
	}
	l.news.updates[part] = ""
	if l.news.stirred != nil {
		close(l.news.stirred)
		l.news.stirred = nil
	}
}

// stirring returns a channel that is closed at the next update.
func (l *live) stirring() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.news.stirred == nil {
		l.news.stirred = make(chan struct{})
	}
	return l.news.stirred
}

// subscribe opens a subscription of a session, unless it is open already.
// https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions
func (s *Server) subscribe(ctx context.Context, c gateway.Caller, id string, l *live, params mcp.Object) *mcp.Error {
	uri, ok := params.Value("uri").Text()
	if !ok {
		return errURI.told
	}
	w, mine := l.reserve(uri)
	switch {
	case w == nil:
		return errSubscriptions.told
	case !mine:
		select {
		case <-w.opened:
			return w.told
		case <-ctx.Done():
			return errGone
		}
	}
	_, w.told = s.guarded(ctx, func() (result mcp.Object, err error) {
		w.stop, err = s.resources.Subscribe(ctx, c, id, uri, func(part string) { l.updated(uri, part) })
		return result, err
	})
	if !l.finishOpening(uri, w) && w.told == nil {
		w.stop() // it ended while it was opened
	}
	return w.told
}

// reserve takes a place for a subscription. It returns nil when there is none; mine is false when another request has
// opened it, or is about to.
func (l *live) reserve(uri string) (w *watch, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w = l.news.watched[uri]; w != nil {
		return w, false
	}
	if l.over || len(l.news.watched) >= maxSubscriptions {
		return nil, false
	}
	if l.news.watched == nil {
		l.news.watched = make(map[string]*watch)
	}
	w = &watch{opened: make(chan struct{})}
	l.news.watched[uri] = w
	return w, true
}

// finishOpening makes known what became of a subscription. It is false when the subscription is not wanted any more.
func (l *live) finishOpening(uri string, w *watch) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(w.opened)
	if l.news.watched[uri] != w {
		return false
	}
	if w.told != nil {
		delete(l.news.watched, uri)
	}
	return true
}

// unsubscribe ends a subscription, if there is one.
func (l *live) unsubscribe(params mcp.Object) *mcp.Error {
	uri, ok := params.Value("uri").Text()
	if !ok {
		return errURI.told
	}
	l.mu.Lock()
	w := l.news.watched[uri]
	delete(l.news.watched, uri)
	delete(l.news.updates, uri)
	l.mu.Unlock()
	if w != nil {
		w.end()
	}
	return nil
}

// end stops a subscription that is open. Whoever opens one that is not open yet, stops it.
func (w *watch) end() {
	select {
	case <-w.opened:
		if w.told == nil {
			w.stop()
		}
	default:
	}
}
