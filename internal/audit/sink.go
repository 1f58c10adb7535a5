package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"sync"
	"syscall"
)

const (
	standardOutput = "-"
	maxSpare       = 64 << 10 // bytes of a batch's memory that are kept for the next
	endlessRoom    = math.MaxInt64 / 2
)

// file is what a sink needs of an *os.File.
type file interface {
	io.Writer
	io.Closer
	Sync() error
	Truncate(size int64) error
	Stat() (os.FileInfo, error)
	// Reserve makes sure that n bytes fit behind offset, without changing the file's size, so that readers see none of
	// it. What is reserved and not written stays the file's until it is cut. The error is errors.ErrUnsupported where
	// that cannot be had.
	Reserve(offset, n int64) error
}

// openFile opens a file for appending. torn is true when it ends within a line, as a crash may leave it.
func openFile(name string) (f file, torn bool, err error) {
	if name == standardOutput {
		return stdout{diskFile{os.Stdout}}, isTorn("/dev/stdout", os.Stdout), nil
	}
	// A pipe that nobody reads is an error at once instead of waiting for a reader.
	//nolint:gosec // the operator's config names the file
	opened, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("open audit file: %w", err)
	}
	return diskFile{opened}, isTorn(name, opened), nil
}

// isTorn tells whether a regular file has text behind its last line break. One that cannot be read counts as torn: an
// empty line does less harm than two records in one.
func isTorn(name string, f *os.File) bool {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	reader, err := os.Open(name) //nolint:gosec // the operator's config names the file
	if err != nil {
		return true
	}
	defer func() { _ = reader.Close() }() // it was only read
	var last [1]byte
	_, err = reader.ReadAt(last[:], info.Size()-1)
	return err != nil || last[0] != '\n'
}

// diskFile is an open file or pipe.
type diskFile struct{ *os.File }

// Reserve implements file.
func (f diskFile) Reserve(offset, n int64) error { return reserve(f.File, offset, n) }

// stdout is the process's standard output, which is not ours to close or to cut.
type stdout struct{ diskFile }

func (stdout) Close() error         { return nil }
func (stdout) Truncate(int64) error { return errors.ErrUnsupported }

// sink is the open file and what is known of it. All methods but sync and unsynced are for one caller at a time.
type sink struct {
	file     file
	regular  bool  // it can be synced and cut back
	endless  bool  // no room is made: it is no file on a disk, or cannot be extended ahead
	unbooked bool  // nobody asks for room
	torn     bool  // it ends within a line
	end      int64 // where it ends if nobody else wrote to it
	reserved int64 // bytes behind end that are sure
	closing  error // of close
	spare    []byte

	mu      sync.Mutex // guards the fields below
	dirty   file       // the file when something was written to it since the last sync; nil: nothing was
	suspect bool       // the last sync failed
}

// newSink returns a sink of f. unbooked says that nobody asks for room.
func newSink(f file, torn, unbooked bool) *sink {
	s := &sink{unbooked: unbooked}
	s.use(f, torn)
	return s
}

func (s *sink) use(f file, torn bool) {
	s.file, s.torn = f, torn
	s.regular, s.end, s.reserved = false, 0, 0
	if info, err := f.Stat(); err == nil {
		s.regular, s.end = info.Mode().IsRegular(), info.Size()
	}
	s.endless = s.unbooked || !s.regular
}

// room returns the bytes that fit behind the end for sure.
func (s *sink) room() int64 {
	if s.endless {
		return endlessRoom
	}
	return s.reserved
}

// look finds out where the file ends when others wrote to it or cut it: then nothing behind its end is sure any more.
func (s *sink) look() {
	if s.endless {
		return
	}
	if info, err := s.file.Stat(); err == nil && info.Size() != s.end {
		s.end, s.reserved = info.Size(), 0
	}
}

// moved tells whether the name under which a regular file was opened is another's by now, or nobody's.
func (s *sink) moved() bool {
	open, ok := s.file.(diskFile)
	if !ok || !s.regular {
		return false
	}
	there, err := os.Stat(open.Name())
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	here, err := open.Stat()
	return err == nil && !os.SameFile(here, there)
}

// reserve makes room for n bytes behind the end, or as much as there is. The error says why there is not more.
func (s *sink) reserve(n int64) error {
	if s.endless {
		return nil
	}
	var short error
	for more := n - s.reserved; more >= maxLine; more /= 2 {
		err := s.file.Reserve(s.end, s.reserved+more)
		switch {
		case err == nil:
			s.reserved += more
		case errors.Is(err, errors.ErrUnsupported):
			s.endless = true
			return nil
		default:
			short = fmt.Errorf("make room for audit records: %w", err)
			continue
		}
		if short == nil {
			return nil
		}
	}
	return short
}

// write writes whole lines, and syncs them if asked to. After an error it returns what of them is to be written again:
// what is in the file is cut off it as far as possible.
func (s *sink) write(lines []byte, synced bool) (left []byte, err error) {
	left, err = lines, s.breakLine()
	n := 0
	if err == nil {
		n, err = s.file.Write(lines)
		s.end += int64(n)
		s.reserved -= min(int64(n), s.reserved)
		left = lines[n:]
	}
	if err == nil && s.regular && (s.written() || synced) {
		err = s.sync(s.file)
	}
	if err != nil {
		left = s.takeBack(lines, n)
		err = fmt.Errorf("write audit record: %w", err)
	}
	return left, err
}

// breakLine ends a half line, so that it spoils only itself.
func (s *sink) breakLine() error {
	if !s.torn {
		return nil
	}
	n, err := s.file.Write([]byte{'\n'})
	if err == nil {
		s.torn = false
		s.end += int64(n)
		s.reserved -= min(int64(n), s.reserved)
	}
	return err
}

// written notes that there is something to sync, and tells whether that has to be now.
func (s *sink) written() (now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirty = s.file
	return s.suspect
}

// takeBack cuts off the n bytes of lines that were written, and returns what is to be written again. It cuts nothing
// that may be another process's: then the whole lines stay. What went into a pipe is gone, and the next write goes on
// where it stopped.
func (s *sink) takeBack(lines []byte, n int) (left []byte) {
	if !s.regular {
		return lines[n:]
	}
	if n == 0 {
		return lines
	}
	before := s.end - int64(n)
	info, err := s.file.Stat()
	if err == nil && info.Size() == s.end && s.file.Truncate(before) == nil {
		s.end, s.reserved = before, 0 // cutting also gives back what was reserved
		return lines
	}
	if err == nil {
		s.end, s.reserved = info.Size(), 0
	}
	whole := bytes.LastIndexByte(lines[:n], '\n') + 1
	s.torn = whole < n
	return lines[whole:]
}

// unsynced returns the file when something in it waits for a sync, else nil.
func (s *sink) unsynced() file {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dirty
}

// sync syncs f. It may run beside the other methods. An error is not lost when nobody looks at it: it makes the next
// write sync for itself. That f was closed meanwhile is none, since closing syncs.
func (s *sink) sync(f file) error {
	s.mu.Lock()
	s.dirty = nil // before, so that what is written beside the sync waits for the next
	s.mu.Unlock()
	err := f.Sync()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.suspect = false
	case !errors.Is(err, os.ErrClosed):
		s.dirty, s.suspect = f, true
	}
	return err
}

// replace finishes and closes the file and goes on with f.
func (s *sink) replace(f file, torn bool) error {
	err := s.finish()
	s.use(f, torn)
	return err
}

// close finishes and closes the file.
func (s *sink) close() { s.closing = s.finish() }

// finish syncs what waits for it, gives back what was reserved and not written, and closes the file.
func (s *sink) finish() error {
	var err error
	if f := s.unsynced(); f != nil {
		err = s.sync(f)
	}
	if info, statErr := s.file.Stat(); s.reserved > 0 && statErr == nil && info.Size() == s.end {
		_ = s.file.Truncate(s.end) // room that stays reserved harms nobody
	}
	return errors.Join(err, s.file.Close())
}

func (s *sink) takeSpare() []byte {
	spare := s.spare
	s.spare = nil
	return spare
}

func (s *sink) keepSpare(room []byte) {
	if cap(room) <= maxSpare {
		s.spare = room[:0]
	}
}
