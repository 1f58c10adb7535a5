package config

import (
	"bytes"
	"os"
	"slices"
)

// Watch notices that the files of a config change: the config file itself, and the files
// that it includes and names. It does not matter whether a file is written in place or
// replaced, by itself or through a symbolic link. Files that come to match a pattern of
// include, or cease to, are noticed too.
//
// A Watch starts no goroutine. Its user calls it at intervals, and loads the config again
// when it says so:
//
//	at each interval --> Settled? --no, untouched or still being written--> wait
//	                        | yes: touched before the last look, and not since
//	                        v
//	                     Changed? --no, same contents--> wait
//	                        | yes
//	                        v
//	                     load the config --> Follow the sources that were read
//
// Settled runs at every interval and only asks the file system which files there are and
// when they changed. Changed reads the files and runs only after Settled. A Watch is not
// safe for concurrent use.
type Watch struct {
	read    Sources       // what was read when the config was loaded, with its digest
	seen    []os.FileInfo // of each file at the last look; nil for a file that did not exist
	matched []string      // what the patterns of include matched at the last look
	moved   bool          // the last look differed from the one before it, so that files may be half written
}

// NewWatch returns a Watch over the files that were read, as after Follow.
func NewWatch(read Sources) *Watch {
	w := &Watch{}
	w.Follow(read)
	return w
}

// Follow makes the Watch watch the files that were just read. The next look finds all of
// them touched, because a file may have changed after it was read and before the first
// look at it. At worst the files are read once in vain.
func (w *Watch) Follow(read Sources) {
	w.read, w.seen, w.matched = read, nil, nil
}

// stat returns what the file system says about each file now.
func (w *Watch) stat() []os.FileInfo {
	seen := make([]os.FileInfo, len(w.read.files))
	for i, file := range w.read.files {
		seen[i], _ = os.Stat(file) // one that is not there differs from one that is
	}
	return seen
}

// Settled looks at the files and tells whether some were touched before the last look and
// none since. One change made by an editor or of a mounted volume is several changes of
// files, and a config that is read between them would mix old and new.
func (w *Watch) Settled() bool {
	seen, matched := w.stat(), w.match()
	before := w.moved
	w.moved = !slices.EqualFunc(seen, w.seen, sameFile) || !slices.Equal(matched, w.matched)
	w.seen, w.matched = seen, matched
	return before && !w.moved
}

// sameFile tells whether two looks found the same file unchanged, as far as that shows
// without reading it.
func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// match returns the files that the patterns of include match now.
func (w *Watch) match() []string {
	var names []string
	for _, pattern := range w.read.patterns {
		files, _ := matching(pattern) // a bad pattern is reported by the reader, and matches nothing
		names = append(names, files...)
	}
	return names
}

// Changed reads the files and tells whether a content differs from what was read last, or
// whether the patterns of include match other files than before. It says so only once for
// each change, so its user must load the config then.
func (w *Watch) Changed() bool {
	sum, names := w.digest(), w.match()
	differs := !bytes.Equal(sum, w.read.sum) || !slices.Equal(names, w.read.names)
	w.read.sum, w.read.names = sum, names
	return differs
}

// digest returns the digest of what the files hold now, made in the same way as that of
// Sources.
func (w *Watch) digest() []byte {
	var sum []byte
	for _, file := range w.read.files {
		data, _, err := readFile(file)
		sum = chain(sum, data, err)
	}
	return sum
}
