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
	endlessSpace   = math.MaxInt64 / 2 // bytes; half, so that sums with it do not overflow
)

// file is what a sink needs of an *os.File. Tests put one in its place that fails and
// hangs.
type file interface {
	io.Writer
	io.Closer
	Sync() error
	Truncate(size int64) error
	Stat() (os.FileInfo, error)
	// Reserve makes sure that n bytes can be written behind offset. It does not change
	// the size of the file, so readers see nothing of it. Room that is reserved and not
	// written stays with the file until the file is truncated. The error is
	// errors.ErrUnsupported where room cannot be reserved.
	Reserve(offset, n int64) error
}

// openFile opens a file for appending, and makes it if it is not there. torn is true if
// it ends within a line, as a crash may leave it.
func openFile(name string) (f file, torn bool, err error) {
	if name == standardOutput {
		return stdout{diskFile{os.Stdout}}, isTorn("/dev/stdout", os.Stdout), nil
	}
	// With O_NONBLOCK a named pipe that nobody reads is an error at once. Without it,
	// opening would wait for a reader.
	//nolint:gosec // the operator's config names the file
	opened, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("open audit file: %w", err)
	}
	return diskFile{opened}, isTorn(name, opened), nil
}

// isTorn tells whether a regular file has text behind its last line break. If that cannot
// be found out, the file counts as torn: the line break that is then written makes an
// empty line at worst, which does less harm than two records in one line.
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

// stdout is the standard output of the process. It is not ours to close or to cut.
type stdout struct{ diskFile }

// Close implements file. It does nothing.
func (stdout) Close() error { return nil }

// Truncate implements file. It always fails.
func (stdout) Truncate(int64) error { return errors.ErrUnsupported }

// sink is the open file and what is known of it. The writer calls its methods, one at a
// time. Only sync and unsynced may run beside them.
type sink struct {
	file     file
	regular  bool  // it is a regular file, which can be synced and cut back
	endless  bool  // no room is reserved: no file on a disk, a disk that cannot reserve, or unbooked
	unbooked bool  // nobody asks for room, because the Log drops records rather than refusing calls
	torn     bool  // the file ends within a line
	unbroken int64 // where a line of ours ends that lacks its break alone; zero: there is none
	end      int64 // offset of the end of the file, if nobody else has written to it
	reserved int64 // bytes behind end that are reserved
	closing  error // of finish in the end; read once the writer has ended

	mu      sync.Mutex // guards the fields below
	dirty   file       // the file when something was written to it since the last sync; nil: nothing was
	suspect bool       // the last sync failed
}

// newSink returns a sink of f. torn says that f ends within a line, unbooked that nobody
// asks for room.
func newSink(f file, torn, unbooked bool) *sink {
	s := &sink{unbooked: unbooked}
	s.use(f, torn)
	return s
}

// use makes f the file. Nothing is reserved behind its end yet.
func (s *sink) use(f file, torn bool) {
	s.file, s.torn, s.unbroken = f, torn, 0
	s.regular, s.end, s.reserved = false, 0, 0
	if info, err := f.Stat(); err == nil {
		s.regular, s.end = info.Mode().IsRegular(), info.Size()
	}
	s.endless = s.unbooked || !s.regular
}

// space returns how many bytes are sure to fit behind the end.
func (s *sink) space() int64 {
	if s.endless {
		return endlessSpace
	}
	return s.reserved
}

// checkSpace finds out where the file ends if others have written to it or cut it. Then
// what was reserved may be theirs or gone, so nothing counts as reserved any more.
func (s *sink) checkSpace() {
	if s.endless {
		return
	}
	if info, err := s.file.Stat(); err == nil && info.Size() != s.end {
		s.end, s.reserved = info.Size(), 0
	}
}

// moved tells whether the name under which the file was opened belongs to another file by
// now, or to none. Only a regular file is moved without a word; standard output has no
// name.
func (s *sink) moved(announced bool) bool {
	open, ok := s.file.(diskFile)
	if !ok || !s.regular && !announced {
		return false
	}
	there, err := os.Stat(open.Name())
	if err != nil {
		return announced || errors.Is(err, fs.ErrNotExist)
	}
	here, err := open.Stat()
	if err != nil {
		return announced // nobody knows; who announces it wants the file opened anew
	}
	return !os.SameFile(here, there)
}

// reserve makes sure of n bytes behind the end or, if there are not that many, of as many
// as it finds by asking for half, a quarter and so on. The error says why there are not
// n.
func (s *sink) reserve(n int64) error {
	if s.endless {
		return nil
	}
	var short error
	for more := n - s.reserved; more >= maxLine; more /= 2 {
		err := s.file.Reserve(s.end, s.reserved+more)
		switch {
		case err == nil:
			if s.reserved += more; short == nil {
				return nil
			}
		case errors.Is(err, errors.ErrUnsupported):
			s.endless = true
			return nil
		default:
			short = fmt.Errorf("make room for audit records: %w", err)
		}
	}
	return short
}

// write writes whole lines, and syncs them if synced asks for it or if the last sync
// failed. After an error it first cuts what it wrote off the file, as far as possible,
// and returns those of the lines that must be written again.
func (s *sink) write(lines []byte, synced bool) (left []byte, err error) {
	text := s.following(lines)
	n, err := s.file.Write(text)
	s.end += int64(n)
	s.reserved -= min(int64(n), s.reserved)
	if err == nil && s.regular && (s.written() || synced) {
		err = s.sync(s.file)
	}
	if err != nil {
		return s.takeBack(lines, text, n), fmt.Errorf("write audit record: %w", err)
	}
	s.torn, s.unbroken = false, 0
	return nil, nil
}

// following returns what is written for lines. It begins with a break if a line is there
// in half, so that the next record does not go on in it: the half line is lost, but
// spoils only itself. If the first of lines is there but for its break, and others have
// not written behind it, the break is all that is written of it.
func (s *sink) following(lines []byte) []byte {
	if !s.torn {
		return lines
	}
	if info, err := s.file.Stat(); err == nil && s.unbroken > 0 && info.Size() == s.unbroken {
		return lines[bytes.IndexByte(lines, '\n'):]
	}
	return append([]byte{'\n'}, lines...)
}

// written notes that the file has something to sync. now is true if the last sync failed:
// then this write must not count before a sync has succeeded.
func (s *sink) written() (now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirty = s.file
	return s.suspect
}

// takeBack undoes a write of lines that failed after n bytes of their text, and returns
// what must be written again.
//
//	a pipe                      what went in is gone to its reader: go on where it stopped, in the middle of a line
//	nobody else has written     cut the n bytes off, and write all lines again
//	otherwise                   cut nothing, it may be theirs: lines that are whole stay, the rest is written again
func (s *sink) takeBack(lines, text []byte, n int) (left []byte) {
	if !s.regular {
		return text[n:]
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
	whole := bytes.LastIndexByte(text[:n], '\n') + 1
	s.torn, s.unbroken = whole < n, 0
	if s.torn && text[n] == '\n' {
		s.unbroken = s.end // following decides whether it is written again
	}
	return text[whole:]
}

// unsynced returns the file if something in it waits for a sync, otherwise nil.
func (s *sink) unsynced() file {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dirty
}

// sync syncs f. It may run beside the other methods. If it fails and nobody looks at the
// error, the error is not lost: the next write has to sync for itself. If f was closed
// meanwhile, that is no failure, because closing syncs.
func (s *sink) sync(f file) error {
	s.mu.Lock()
	// This comes before the sync. After it, a write that came while the sync ran would be
	// forgotten and never synced.
	s.dirty = nil
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

// replace finishes and closes the file and goes on with f. The error is a *ClosingError
// about the old file; f is in use either way.
func (s *sink) replace(f file, torn bool) error {
	err := s.finish()
	s.use(f, torn)
	if err != nil {
		return &ClosingError{err}
	}
	return nil
}

// finish syncs what waits for it, gives back what was reserved and not written, and
// closes the file.
func (s *sink) finish() error {
	var err error
	if f := s.unsynced(); f != nil {
		err = s.sync(f)
	}
	if info, statErr := s.file.Stat(); s.reserved > 0 && statErr == nil && info.Size() == s.end {
		// if that fails, the file takes more of the disk than it needs, and nothing else
		_ = s.file.Truncate(s.end)
	}
	return errors.Join(err, s.file.Close())
}
