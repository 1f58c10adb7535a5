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
	mu       sync.Mutex // guards the field below
	watching []*watcher
}

// add adds a watcher. It returns whether it is the first of its resource, so that the
// server must be asked.
func (s *watchers) add(w *watcher) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = !slices.ContainsFunc(s.watching, w.watchesSame)
	s.watching = append(s.watching, w)
	return first
}

func (w *watcher) watchesSame(other *watcher) bool { return w.uri == other.uri }

// drop removes a watcher. It returns whether that was the last of its resource, so that
// the server can be told.
func (s *watchers) drop(w *watcher) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	had := len(s.watching)
	s.watching = slices.DeleteFunc(s.watching, func(other *watcher) bool { return other == w })
	return len(s.watching) < had && !slices.ContainsFunc(s.watching, w.watchesSame)
}

// end removes all watchers, and says so to them.
func (s *watchers) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watching {
		close(w.over)
	}
	s.watching = nil
}

// updated tells a change to the watchers of the resource that changed and to those of a
// resource which it is a part of.
func (s *watchers) updated(uri string) {
	for _, w := range s.all() {
		if registry.Covers(w.uri, uri) {
			w.updated(uri)
		}
	}
}

// missed tells all watchers that their resource may have changed, since an announcement
// may have been missed.
func (s *watchers) missed() {
	for _, w := range s.all() {
		w.updated(w.uri)
	}
}

// all returns a copy of the list of watchers.
func (s *watchers) all() []*watcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.watching)
}
