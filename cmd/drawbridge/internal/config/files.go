package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Sources are the files that a config was read from, or would have been if it had not
// been refused. A Watch is made from them. The zero value has no files.
type Sources struct {
	files    []string // the config file first, then the files that it includes and names
	sum      []byte   // digest of their contents, in that order, see chain
	patterns []string // of the files to include
	names    []string // the files that these patterns matched
}

// digest names what the files contain, for comparing configs of replicas by eye: the same
// files in the same order have the same. It is too short to tell anything of a secret in
// them.
func (s *Sources) digest() string { return hex.EncodeToString(s.sum[:4]) }

// readFile reads a regular file, but no more than maxFileBytes and one byte. With that
// byte the caller can tell a file that is too large from one that just fits. It also says
// which file it is, nil if there is none.
func readFile(path string) ([]byte, os.FileInfo, error) {
	return readRegular(path, path, os.Stat, os.Open)
}

// readRegular is readFile with functions that find and open the file by a name that they
// have for it.
func readRegular(
	path, name string, stat func(string) (os.FileInfo, error), open func(string) (*os.File, error),
) ([]byte, os.FileInfo, error) {
	info, err := stat(name)
	if err != nil { // an *fs.PathError, whose cause leaves out how the file was asked for
		return nil, nil, fmt.Errorf("%s: %w", path, errors.Unwrap(err))
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait for its writer, perhaps for ever
		return nil, info, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := open(name)
	if err != nil {
		return nil, info, err
	}
	defer func() { _ = f.Close() }() // it was only read
	var data bytes.Buffer
	data.Grow(int(min(info.Size(), maxFileBytes)) + bytes.MinRead) // so that most files are read at once
	_, err = data.ReadFrom(io.LimitReader(f, maxFileBytes+1))
	return data.Bytes(), info, err
}

// matching returns the files that a pattern names, sorted. A star matches no file or
// directory whose name begins with a dot. Editors leave such files beside those that they
// write, and a volume of Kubernetes holds its files a second time in a directory ..data.
func matching(pattern string) ([]string, error) {
	pattern = filepath.Clean(pattern) // so that its parts are those of what it matches
	files, err := filepath.Glob(pattern)
	parts := strings.Split(pattern, string(filepath.Separator))
	files = slices.DeleteFunc(files, func(file string) bool { return hidden(parts, file) })
	slices.Sort(files)
	return files, err
}

// hidden tells whether some part of a file's path begins with a dot although that part of
// the pattern does not.
func hidden(pattern []string, file string) bool {
	for i, name := range strings.Split(file, string(filepath.Separator)) {
		if strings.HasPrefix(name, ".") && i < len(pattern) && !strings.HasPrefix(pattern[i], ".") {
			return true
		}
	}
	return false
}

// chain adds the content of one more file to the digest of the files before it. If the
// file could not be read, the text of the error takes the place of the content, so that a
// file that comes or goes changes the digest too.
func chain(sum, data []byte, err error) []byte {
	if err != nil {
		data = []byte(err.Error())
	}
	content := sha256.Sum256(data)
	next := sha256.Sum256(append(slices.Clip(sum), content[:]...))
	return next[:]
}

const (
	maxConfigBytes = 16 << 20 // of the config and the files it includes, together
	maxPartBytes   = 1 << 20  // of each of these; while it is parsed, it takes a hundred times as much memory
	maxFileBytes   = 16 << 20 // of a file that the config names
	maxConfigDepth = 32
	// maxTabLine is how many bytes a line with a tab may have. The scanner looks through
	// the rest of the line at each tab, so that its time grows with the square of the
	// line.
	maxTabLine = 64 << 10
)
