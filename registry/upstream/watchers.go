package upstream

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// watcher waits for changes of one resource of a session.
type watcher struct {
	uri     string
	updated func(uri string) // must not wait
}

// watchers are all who wait for changes of resources of one session. It is safe for concurrent use.
type watchers struct {
	mu    sync.Mutex // guards the field below
	byURI map[string][]*watcher
}

// uris returns which resources are watched.
func (s *watchers) uris() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.byURI))
}

// add tells whether the watcher is the first of its resource.
func (s *watchers) add(w *watcher) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byURI == nil {
		s.byURI = map[string][]*watcher{}
	}
	s.byURI[w.uri] = append(s.byURI[w.uri], w)
	return len(s.byURI[w.uri]) == 1
}

// drop tells whether the watcher was the last of its resource.
func (s *watchers) drop(w *watcher) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := slices.DeleteFunc(s.byURI[w.uri], func(other *watcher) bool { return other == w })
	s.byURI[w.uri] = left
	if len(left) == 0 {
		delete(s.byURI, w.uri)
	}
	return len(left) == 0
}

// updated tells all whose resource the changed one is, or is a part of.
func (s *watchers) updated(uri string) {
	s.mu.Lock()
	var concerned []*watcher
	for watched, watchers := range s.byURI {
		if covers(watched, uri) {
			concerned = append(concerned, watchers...)
		}
	}
	s.mu.Unlock()
	for _, w := range concerned {
		w.updated(uri)
	}
}

// missed tells all that their resource may have changed.
func (s *watchers) missed() {
	s.mu.Lock()
	var all []*watcher
	for _, watchers := range s.byURI {
		all = append(all, watchers...)
	}
	s.mu.Unlock()
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
