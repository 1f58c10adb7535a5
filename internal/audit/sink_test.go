package audit

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The tests in this file look at what only a misbehaving file shows, so they hand the log one.

var errDisk = errors.New("disk error")

// disk is a file in memory that fails and waits as it is told.
type disk struct {
	pipe bool // no regular file

	mu       sync.Mutex // guards the fields below
	text     []byte
	room     int           // bytes until it is full; negative: endless
	wait     chan struct{} // each write receives from it; nil: none waits
	syncs    int
	badSyncs int // how many of the next fail
	writes   int
}

func newDisk() *disk { return &disk{room: -1} }

func (d *disk) Write(p []byte) (int, error) {
	if d.wait != nil {
		<-d.wait
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes++
	n := len(p)
	if d.room >= 0 {
		n = min(n, d.room)
		d.room -= n
	}
	d.text = append(d.text, p[:n]...)
	if n < len(p) {
		return n, errDisk
	}
	return n, nil
}

func (d *disk) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.syncs++
	if d.badSyncs > 0 {
		d.badSyncs--
		return errDisk
	}
	return nil
}

func (d *disk) Truncate(size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pipe {
		return errDisk
	}
	d.text = d.text[:size]
	return nil
}

func (d *disk) Stat() (os.FileInfo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return info{size: int64(len(d.text)), pipe: d.pipe}, nil
}

func (*disk) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

func (*disk) Close() error { return nil }

func (d *disk) count(what *int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return *what
}

func (d *disk) lines() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Split(strings.TrimSuffix(string(d.text), "\n"), "\n")
}

type info struct {
	os.FileInfo

	size int64
	pipe bool
}

func (i info) Size() int64 { return i.size }

func (i info) Mode() fs.FileMode {
	if i.pipe {
		return fs.ModeNamedPipe
	}
	return 0
}

func record(i int) *Record { return &Record{RequestID: strconv.Itoa(i)} }

func TestHalfALineIsTakenBack(t *testing.T) {
	t.Parallel()
	d := newDisk()
	l := newLog(Config{}, d)
	if err := l.Write(t.Context(), record(1)); err != nil {
		t.Fatal(err)
	}
	d.room = 10
	if err := l.Write(t.Context(), record(2)); !errors.Is(err, errDisk) {
		t.Errorf("got error %v, want %v", err, errDisk)
	}
	d.room = -1
	if err := l.Write(t.Context(), record(3)); err != nil {
		t.Errorf("after there is room again: %v", err)
	}
	if got := d.lines(); len(got) != 2 || !strings.Contains(got[1], `"3"`) {
		t.Errorf("got lines %q, want those of records 1 and 3", got)
	}
}

// TestHalfALineOfAPipe shows that where nothing can be taken back, a half line spoils no other.
func TestHalfALineOfAPipe(t *testing.T) {
	t.Parallel()
	d := newDisk()
	d.pipe = true
	l := newLog(Config{Always: true}, d)
	d.room = 10
	if err := l.Write(t.Context(), record(1)); !errors.Is(err, errDisk) {
		t.Errorf("got error %v, want %v", err, errDisk)
	}
	d.room = -1
	for i := range 2 {
		if err := l.Write(t.Context(), record(2+i)); err != nil {
			t.Error(err)
		}
	}
	if got := d.lines(); len(got) != 3 || len(got[0]) != 10 || !strings.HasPrefix(got[1], "{") || !strings.HasPrefix(got[2], "{") {
		t.Errorf("got lines %q, want half a line and two whole ones", got)
	}
	if d.syncs != 0 {
		t.Error("a pipe was synced")
	}
}

// TestLinesOfOthersAreNotTakenBack shows that a file to which another process appended is not cut.
func TestLinesOfOthersAreNotTakenBack(t *testing.T) {
	t.Parallel()
	d := newDisk()
	l := newLog(Config{}, d)
	d.text = append(d.text, "other\n"...)
	d.room = 10
	if err := l.Write(t.Context(), record(1)); !errors.Is(err, errDisk) {
		t.Errorf("got error %v, want %v", err, errDisk)
	}
	d.room = -1
	if err := l.Write(t.Context(), record(2)); err != nil {
		t.Error(err)
	}
	if got := d.lines(); len(got) != 3 || got[0] != "other" || !strings.Contains(got[2], `"2"`) {
		t.Errorf("got lines %q, want the other's, half a line and that of record 2", got)
	}
}

// TestGroupCommit shows that writers who come while a batch is written share the next one and its sync, and its error.
func TestGroupCommit(t *testing.T) {
	t.Parallel()
	for _, badSyncs := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			d := newDisk()
			d.wait = make(chan struct{})
			d.badSyncs = badSyncs
			l := newLog(Config{Always: true}, d)
			errs := make(chan error)
			for i := range 9 {
				go func() { errs <- l.Write(t.Context(), record(i)) }()
				synctest.Wait() // the first waits in its write, the others for it
			}
			d.wait <- struct{}{}
			d.wait <- struct{}{}
			for range 9 {
				if err := <-errs; (err == nil) != (badSyncs == 0) {
					t.Errorf("%d bad syncs: got error %v", badSyncs, err)
				}
			}
			if d.writes != 2 || d.syncs != 2 {
				t.Errorf("%d writes and %d syncs for 9 records, want 2 of each", d.writes, d.syncs)
			}
			if got := bytes.Count(d.text, []byte("\n")); badSyncs == 0 && got != 9 || badSyncs != 0 && got != 0 {
				t.Errorf("%d bad syncs: %d lines in the file", badSyncs, got)
			}
		})
	}
}

// TestWaitingEndsWithTheContext shows that writers behind a file that hangs, and those for whom there is no room, wait
// no longer than they want, and that what they left behind is written all the same.
func TestWaitingEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		d.wait = make(chan struct{})
		l := newLog(Config{}, d)
		first := make(chan error)
		go func() { first <- l.Write(t.Context(), record(0)) }()
		synctest.Wait()
		fill(t, l)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Write(ctx, record(1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v, want %v", err, context.DeadlineExceeded)
		}
		close(d.wait)
		if err := <-first; err != nil {
			t.Error(err)
		}
		if err := l.Write(t.Context(), record(2)); err != nil {
			t.Error(err)
		}
		got := d.lines()
		if !strings.Contains(got[len(got)-1], `"2"`) || len(got) < 100 {
			t.Errorf("got %d lines, the last %q; want those left behind and that of record 2", len(got), got[len(got)-1])
		}
	})
}

// fill fills the batch that gathers with records whose writers do not wait.
func fill(t *testing.T, l *Log) {
	t.Helper()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	large := &Record{RequestID: strings.Repeat("x", maxString), Subject: strings.Repeat("x", maxString)}
	for len(l.batch.lines)+2*maxString+100 < maxBatch {
		if err := l.Write(gone, large); !l.cfg.Drop && !errors.Is(err, context.Canceled) {
			t.Fatalf("got error %v, want %v", err, context.Canceled)
		}
	}
}

func TestDropWhenFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		d.wait = make(chan struct{})
		dropped := 0
		l := newLog(Config{Drop: true, Dropped: func(n int) { dropped += n }}, d)
		first := make(chan error)
		go func() { first <- l.Write(t.Context(), record(0)) }()
		synctest.Wait()
		fill(t, l)
		large := &Record{RequestID: strings.Repeat("x", maxString), Subject: strings.Repeat("x", maxString)}
		for range 3 {
			if err := l.Write(t.Context(), large); err != nil {
				t.Errorf("got error %v, want none", err)
			}
		}
		if dropped != 3 {
			t.Errorf("%d records counted as dropped, want 3", dropped)
		}
		close(d.wait)
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

// TestRunSyncs shows that Run syncs what was written, only then, and once more at its end.
func TestRunSyncs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		l := newLog(Config{Interval: time.Second}, d)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		for step, want := range []int{0, 1, 1, 2} {
			if step%2 == 1 {
				if err := l.Write(t.Context(), record(step)); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if got := d.count(&d.syncs); got != want {
				t.Errorf("after %d s: %d syncs, want %d", step+1, got, want)
			}
		}
		if err := l.Write(t.Context(), record(9)); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := <-ended; err != nil || d.count(&d.syncs) != 3 {
			t.Errorf("Run ended with error %v after %d syncs, want none and 3", err, d.syncs)
		}
	})
}

// TestFailedSyncIsNotForgotten shows that after a sync in the background failed, no record is accepted until one
// succeeds.
func TestFailedSyncIsNotForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		d.badSyncs = 2
		l := newLog(Config{Interval: time.Second}, d)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		if err := l.Write(t.Context(), record(0)); err != nil {
			t.Fatal(err)
		}
		go func() { ended <- l.Run(ctx) }()
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if err := l.Write(t.Context(), record(1)); !errors.Is(err, errDisk) {
			t.Errorf("got error %v, want %v", err, errDisk)
		}
		if err := l.Write(t.Context(), record(2)); err != nil {
			t.Errorf("after the disk is well again: %v", err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := d.lines(); len(got) != 2 {
			t.Errorf("got lines %q, want two", got)
		}
	})
}
