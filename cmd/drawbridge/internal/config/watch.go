package config

import (
	"bytes"
	"os"
	"slices"
)

// Watch notices that the files of a config change: the config itself and the files that it includes and names. It does
// not matter whether a file is written in place or replaced, by itself or through a symbolic link, and files that come
// to match a pattern of include, or cease to, are noticed too.
//
// A Watch starts nothing. Its user asks at intervals whether the files have Settled and then whether they Changed, loads
// the config again, and lets the Watch Follow what was read. It is not safe for concurrent use.
type Watch struct {
	read    Sources       // as they were when the config was loaded
	seen    []os.FileInfo // as they were at the last look; nil for a file that is not there
	matched []string      // what the patterns of include matched at the last look
	moved   bool          // something differed at the last look, so that files may be half written
}

// NewWatch returns a watch over the files that were read. Its first look finds all of them touched, as after Follow.
func NewWatch(read Sources) *Watch {
	w := &Watch{}
	w.Follow(read)
	return w
}

// Follow watches the files that were read from now on. The next look finds all of them touched, because they may have
// changed since they were read.
func (w *Watch) Follow(read Sources) {
	w.read, w.seen, w.matched = read, nil, nil
}

func (w *Watch) look() []os.FileInfo {
	seen := make([]os.FileInfo, len(w.read.files))
	for i, file := range w.read.files {
		seen[i], _ = os.Stat(file) // one that is not there differs from one that is
	}
	return seen
}

// Settled looks at the files and tells whether some were touched before the last look and none since. One change by an
// editor or of a mounted volume is several changes of files, and a config should not be read between them.
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
	for _, pattern := range w.read.patterns {
		files, _ := matching(pattern) // a bad pattern is reported by the reader, and matches nothing
		names = append(names, files...)
	}
	return names
}

// Changed reads the files and tells whether the content of one differs from what was read last, or whether other files
// are to be included. It tells so once for each change.
func (w *Watch) Changed() bool {
	sum, names := w.digest(), w.match()
	differs := !bytes.Equal(sum, w.read.sum) || !slices.Equal(names, w.read.names)
	w.read.sum, w.read.names = sum, names
	return differs
}

func (w *Watch) digest() []byte {
	var sum []byte
	for _, file := range w.read.files {
		data, err := readFile(file)
		sum = chain(sum, data, err)
	}
	return sum
}
