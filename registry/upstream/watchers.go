package upstream

import (
	"sync"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

// watcher is one who waits for changes of one resource in a session.
type watcher struct {
	uri     string
	updated func(uri string) // must not block, because the reader of the connection calls it
	end     func()           // ends the wait, as the server has forgotten that it was asked
}

// watchers are all watchers of one legacy session. The zero value has none. It is safe
// for concurrent use.
type watchers struct{ watching sync.Map } // by *watcher

// each calls do with each watcher.
func (s *watchers) each(do func(*watcher)) {
	s.watching.Range(func(w, _ any) bool {
		do(w.(*watcher))
		return true
	})
}

// updated tells a change to the watchers of the resource that changed and to those of a
// resource which it is a part of.
func (s *watchers) updated(uri string) {
	s.each(func(w *watcher) {
		if registry.Covers(w.uri, uri) {
			w.updated(uri)
		}
	})
}
