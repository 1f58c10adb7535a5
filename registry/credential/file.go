package credential

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	maxFile    = 64 << 10    // bytes of a file with a secret, token or key
	checkEvery = time.Second // how often a file is looked at, to see whether it changed
	maxToken   = 16 << 10    // bytes of a token; servers take headers of about that
)

// file is a file with a secret that the operator, or the platform, replaces while the
// gateway runs. It keeps the last content that could be read: a file that is being
// replaced is missing for a moment. It is safe for concurrent use.
type file struct {
	path string
	now  func() time.Time

	mu      sync.Mutex // guards the fields below
	content []byte     // the last that was read; nil: none was
	version int        // counts contents; zero: none was read
	err     error      // why the last attempt to read it failed
	looked  time.Time
	info    os.FileInfo // of the file that has the content
}

func newFile(path string, now func() time.Time) *file { return &file{path: path, now: now} }

// read returns the content and its version, which is another number for another content.
// If it changed less than checkEvery ago, that may not be seen yet.
func (f *file) read() (content []byte, version int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.now(); f.looked.IsZero() || now.Sub(f.looked) >= checkEvery || now.Before(f.looked) {
		f.checkLocked(now)
	}
	return f.resultLocked()
}

// again looks at the file now, and tells whether its content is another than that
// version.
func (f *file) again(version int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.info = nil // also of a file of the same size and time
	f.checkLocked(f.now())
	return f.version != version
}

func (f *file) resultLocked() ([]byte, int, error) {
	if f.content == nil {
		return nil, 0, f.err
	}
	return f.content, f.version, nil
}

// checkLocked reads the file if it is not the one that was read last.
func (f *file) checkLocked(now time.Time) {
	f.looked = now
	info, err := os.Stat(f.path)
	if err == nil && f.info != nil && os.SameFile(info, f.info) && info.Size() == f.info.Size() &&
		info.ModTime().Equal(f.info.ModTime()) {
		return
	}
	var content []byte
	if err == nil {
		content, err = readSecret(f.path)
	}
	if f.err = err; err != nil {
		return
	}
	f.info = info
	if !bytes.Equal(content, f.content) {
		f.content = content
		f.version++
	}
}

// CheckFile returns why a file with a secret cannot be used, nil if it can be. Its text is
// without the path and the content.
func CheckFile(path string) error {
	_, err := readSecret(path)
	return err
}

// readSecret returns the content of a file without blanks and line breaks around it.
func readSecret(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, errors.New("there is no such file")
	case err != nil:
		return nil, errors.New("the file cannot be looked at")
	case !info.Mode().IsRegular(): // opening a pipe would wait for its writer
		return nil, errors.New("not a regular file")
	}
	opened, err := os.Open(path) //nolint:gosec // the operator names it
	if err != nil {
		return nil, errors.New("the file cannot be opened")
	}
	defer func() { _ = opened.Close() }() // it was only read
	// what a file is said to hold may be less than what comes: it grows, or is one of /proc
	content, err := io.ReadAll(io.LimitReader(opened, maxFile+1))
	if err != nil {
		return nil, errors.New("the file cannot be read")
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("the file has more than %d bytes", maxFile)
	}
	if content = bytes.TrimSpace(content); len(content) == 0 {
		return nil, errors.New("the file is empty")
	}
	return content, nil
}

// CheckValue returns why a text cannot be the value of a header, nil if it can be.
func CheckValue(text []byte) error {
	if len(text) > maxToken {
		return fmt.Errorf("more than %d bytes", maxToken)
	}
	for _, c := range text {
		if c < ' ' && c != '\t' || c >= 0x7f {
			return errors.New("a control character, a line break or what is not ASCII")
		}
	}
	return nil
}

// isToken tells whether a text can stand behind Bearer.
// https://www.rfc-editor.org/rfc/rfc6750#section-2.1
func isToken(text string) bool {
	other := func(c rune) bool { return c <= ' ' || c > '~' }
	return text != "" && len(text) <= maxToken && !strings.ContainsFunc(text, other)
}
