package upstream

import (
	"slices"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

// watcher is one who waits for changes of one resource in a session.
type watcher struct {
	uri     string
	updated func(uri string) // must not block, because the reader of the connection calls it
	over    chan struct{}    // closed when the server has forgotten that it was asked
}

// watchers are all watchers of one legacy session. The zero value has none. It is safe
// for concurrent use; updated of a watcher is called without the lock.
type watchers struct {
	mu    sync.Mutex // guards the field below
	byURI map[string][]*watcher
}

// add adds a watcher. It returns whether it is the first of its resource, so that the
// server must be asked.
func (s *watchers) add(w *watcher) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byURI == nil {
		s.byURI = map[string][]*watcher{}
	}
	s.byURI[w.uri] = append(s.byURI[w.uri], w)
	return len(s.byURI[w.uri]) == 1
}

// drop removes a watcher. It returns whether that was the last of its resource, so that
// the server can be told.
func (s *watchers) drop(w *watcher) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	had := len(s.byURI[w.uri])
	left := slices.DeleteFunc(s.byURI[w.uri], func(other *watcher) bool { return other == w })
	s.byURI[w.uri] = left
	if len(left) == 0 {
		delete(s.byURI, w.uri)
	}
	return had > 0 && len(left) == 0
}

// end removes all watchers, and says so to them.
func (s *watchers) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, all := range s.byURI {
		for _, w := range all {
			close(w.over)
		}
	}
	clear(s.byURI)
}

// updated tells a change to the watchers of the resource that changed and to those of a
// resource which it is a part of.
func (s *watchers) updated(uri string) {
	for _, w := range s.those(func(watched string) bool { return registry.Covers(watched, uri) }) {
		w.updated(uri)
	}
}

// missed tells all watchers that their resource may have changed, since an announcement
// may have been missed.
func (s *watchers) missed() {
	for _, w := range s.those(func(string) bool { return true }) {
		w.updated(w.uri)
	}
}

// those returns the watchers of URIs for which fits is true.
func (s *watchers) those(fits func(watched string) bool) (all []*watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for watched, watchers := range s.byURI {
		if fits(watched) {
			all = append(all, watchers...)
		}
	}
	return all
}
