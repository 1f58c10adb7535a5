package config

import (
	"bytes"
	"os"
	"slices"
)

// Watch notices changes of the config file and of the files it includes and names, be they written in place or put
// there anew, themselves or through a symbolic link, and files that are to be included and come or go.
type Watch struct {
	Sources               // as they were read last
	seen    []os.FileInfo // when last looked at; nil for one that is not there
	matched []string      // what the patterns of files to include matched then
	moved   bool          // something differed then: it may be half written
}

// NewWatch returns a watch over the files that were read.
func NewWatch(read Sources) *Watch {
	w := &Watch{}
	w.Follow(read)
	return w
}

// Follow watches the files that were read. The next look finds all of them touched, because they may have changed since.
func (w *Watch) Follow(read Sources) {
	w.Sources, w.seen, w.matched = read, nil, nil
}

func (w *Watch) look() []os.FileInfo {
	seen := make([]os.FileInfo, len(w.files))
	for i, file := range w.files {
		seen[i], _ = os.Stat(file) // one that is not there differs from one that is
	}
	return seen
}

// Settled tells whether files were touched and are quiet since the last look: an editor or a volume update makes several
// changes.
func (w *Watch) Settled() bool {
	seen, matched := w.look(), w.match()
	before := w.moved
	w.moved = !slices.EqualFunc(seen, w.seen, sameFile) || !slices.Equal(matched, w.matched)
	w.seen, w.matched = seen, matched
	return before && !w.moved
}

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// match returns the files that are to be included.
func (w *Watch) match() []string {
	var names []string
	for _, pattern := range w.patterns {
		files, _ := matching(pattern) // a bad pattern is reported by the reader, and matches nothing
		names = append(names, files...)
	}
	return names
}

// Changed tells whether the content of a file differs from what was read last, or other files are to be included.
func (w *Watch) Changed() bool {
	sum, names := w.digest(), w.match()
	differs := !bytes.Equal(sum, w.sum) || !slices.Equal(names, w.names)
	w.sum, w.names = sum, names
	return differs
}

func (w *Watch) digest() []byte {
	var sum []byte
	for _, file := range w.files {
		data, err := readFile(file)
		sum = chain(sum, data, err)
	}
	return sum
}
