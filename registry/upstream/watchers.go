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

// add adds a watcher.
func (s *watchers) add(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watching = append(s.watching, w)
}

// drop removes a watcher, if it is still there.
func (s *watchers) drop(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watching = slices.DeleteFunc(s.watching, func(other *watcher) bool { return other == w })
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
