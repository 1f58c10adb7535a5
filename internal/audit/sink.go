package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	standardOutput = "-"
	writeTimeout   = 5 * time.Second // of one batch, where the file knows deadlines (pipes do)
	maxSpare       = 64 << 10        // bytes of a batch's memory that are kept for the next
)

// file is what a sink needs of an *os.File.
type file interface {
	io.Writer
	io.Closer
	Sync() error
	Truncate(size int64) error
	Stat() (os.FileInfo, error)
	SetWriteDeadline(t time.Time) error
}

func openFile(name string) (file, error) {
	if name == standardOutput {
		return stdout{os.Stdout}, nil
	}
	// A pipe that nobody reads is an error at once instead of waiting for a reader.
	//nolint:gosec // the operator's config names the file
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open audit file: %w", err)
	}
	return f, nil
}

// stdout is the process's standard output, which is not ours to close or to cut.
type stdout struct{ *os.File }

func (stdout) Close() error         { return nil }
func (stdout) Truncate(int64) error { return errors.ErrUnsupported }

// sink is the open file and what is known of it. All methods but sync are for one caller at a time.
type sink struct {
	file      file
	regular   bool // it can be synced and cut back
	deadlines bool // it knows write deadlines
	closed    bool
	torn      bool  // it ends within a line
	end       int64 // where it ends if nobody else wrote to it
	spare     []byte

	mu      sync.Mutex // guards the fields below
	dirty   bool       // something was written since the last sync
	suspect bool       // the last sync failed
}

func newSink(f file) *sink {
	s := &sink{}
	s.use(f)
	return s
}

func (s *sink) use(f file) {
	s.file, s.regular, s.torn, s.end = f, false, false, 0
	if info, err := f.Stat(); err == nil {
		s.regular, s.end = info.Mode().IsRegular(), info.Size()
	}
	s.deadlines = f.SetWriteDeadline(time.Time{}) == nil
}

// write writes whole lines, and syncs them if asked to. After an error none of them is in the file, as far as it can
// be cut back.
func (s *sink) write(lines []byte, synced bool) error {
	if s.closed {
		return os.ErrClosed
	}
	if s.torn {
		lines = append([]byte{'\n'}, lines...) // so that the half line spoils only itself
	}
	if s.deadlines {
		_ = s.file.SetWriteDeadline(time.Now().Add(writeTimeout)) // it could before; the write tells if it cannot now
	}
	n, err := s.file.Write(lines)
	if err == nil {
		s.torn = false
		synced = s.written() || synced
	}
	if err == nil && synced && s.regular {
		err = s.sync(s.file)
	}
	if err != nil {
		s.takeBack(lines, n)
		return fmt.Errorf("write audit record: %w", err)
	}
	s.end += int64(n)
	return nil
}

// written notes that there is something to sync, and tells whether that has to be now.
func (s *sink) written() (now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirty = true
	return s.suspect
}

// takeBack cuts off the n bytes of lines that were written, or remembers that they end within a line. It cuts nothing
// that may be another process's.
func (s *sink) takeBack(lines []byte, n int) {
	if n == 0 {
		return
	}
	if info, err := s.file.Stat(); err == nil && s.regular {
		if info.Size() == s.end+int64(n) && s.file.Truncate(s.end) == nil {
			return
		}
		s.end = info.Size()
	}
	s.torn = lines[n-1] != '\n'
}

// unsynced returns the file when something in it waits for a sync, else nil.
func (s *sink) unsynced() file {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.regular || !s.dirty {
		return nil
	}
	return s.file
}

// sync syncs f. It may run beside the other methods. An error is not lost when nobody looks at it: it makes the next
// write sync for itself. That f was closed meanwhile is none, since closing syncs.
func (s *sink) sync(f file) error {
	s.mu.Lock()
	s.dirty = false // before, so that what is written beside the sync waits for the next
	s.mu.Unlock()
	err := f.Sync()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.suspect = false
	case !errors.Is(err, os.ErrClosed):
		s.dirty, s.suspect = true, true
	}
	return err
}

// settle syncs what waits for it.
func (s *sink) settle() error {
	if f := s.unsynced(); f != nil {
		return s.sync(f)
	}
	return nil
}

// replace settles and closes the file and goes on with f.
func (s *sink) replace(f file) error {
	if s.closed {
		return errors.Join(os.ErrClosed, f.Close())
	}
	err := errors.Join(s.settle(), s.file.Close())
	s.use(f)
	return err
}

func (s *sink) close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	return errors.Join(s.settle(), s.file.Close())
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
