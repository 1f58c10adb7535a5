package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Sources are the files that a config was read from, or would have been if it had not been refused. A Watch is made from
// them. The zero value has no files.
type Sources struct {
	files    []string // the config file, then those that it includes and names
	sum      []byte   // digest of their content, in that order
	patterns []string // of files to include
	names    []string // that these matched
}

// path returns a file name, which is relative to the directory of the file that it stands in.
func (r *reader) path(n *node) string {
	name := r.text(n)
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(n.file), name)
}

// read returns the content of a small file that the config names, nil after a problem.
func (r *reader) read(n *node) []byte {
	path := r.path(n)
	if path == "" {
		return nil
	}
	data, err := r.source(path)
	if err != nil {
		r.fault(n, "%s", err)
		return nil
	}
	return data
}

// source reads a file and notes it as one that the config was read from.
func (r *reader) source(path string) ([]byte, error) {
	data, err := readFile(path)
	r.sources.files = append(r.sources.files, path)
	r.sources.sum = chain(r.sources.sum, data, err)
	return data, err
}

// readFile reads a regular file of at most 16 MiB and a byte, so that a larger one can be told from one that just fits.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if cause, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, fmt.Errorf("%s: %w", path, cause.Err)
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait for its writer
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(f, maxFileBytes+1))
}

// matching returns the files that a pattern names, in order. A * matches no name that begins with a dot, of a file or a
// directory: editors leave such files beside those that they write, and a volume has a directory ..data of what it shows.
func matching(pattern string) ([]string, error) {
	pattern = filepath.Clean(pattern) // so that its parts are those of what it matches
	files, err := filepath.Glob(pattern)
	parts := strings.Split(pattern, string(filepath.Separator))
	files = slices.DeleteFunc(files, func(file string) bool { return hidden(parts, file) })
	slices.Sort(files)
	return files, err
}

// hidden tells whether a part of a file's name begins with a dot and that of the pattern does not.
func hidden(pattern []string, file string) bool {
	for i, name := range strings.Split(file, string(filepath.Separator)) {
		if strings.HasPrefix(name, ".") && i < len(pattern) && !strings.HasPrefix(pattern[i], ".") {
			return true
		}
	}
	return false
}

// chain adds a file's content, or why there is none, to a digest of the files before it.
func chain(sum, data []byte, err error) []byte {
	if err != nil {
		data = []byte(err.Error())
	}
	content := sha256.Sum256(data)
	next := sha256.Sum256(append(slices.Clip(sum), content[:]...))
	return next[:]
}
