// Package audit keeps the record of who did what and whether it was allowed: one JSON line a call or refusal, written
// before the answer is sent. It knows nothing of who decides.
//
//	caller                          Log                                     writer (one goroutine)
//	Book ──── room for a line? ───▶ booked++                  ◀── room ──── extends the file ahead
//	(the call runs)
//	Keep ──── line ───────────────▶ the batch that gathers ──── batch ────▶ writes, retries what failed
//	     ◀─── written, or given up: the batch is done ◀───────── done ──────┘
//
// Only the writer touches the file, because a write to a pipe that nobody reads, or to a disk that hangs, cannot be
// interrupted: everybody else waits for the writer, and the watch ends that waiting.
package audit

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

const (
	defaultInterval = time.Second

	// maxWaiting bounds the lines in memory: those booked and those not written yet.
	maxWaiting = 4096

	writePatience = 5 * time.Second // for one write, before those who wait are told that it may fail
	dropPatience  = time.Second     // the same with Drop, where the record must not hold up a call
	closePatience = 3 * time.Second // for what is left to be written at the end
)

var (
	errWaiting = errors.New("too many audit records wait to be written")
	errStalled = errors.New("a write of audit records does not end: the disk hangs, or nobody reads the pipe or terminal")
)

// Config of a Log.
type Config struct {
	File     string        // appended to, created with mode 0600; "-" is standard output
	Always   bool          // a line counts as written once it is on disk (group commit); else it gets there every Interval
	Drop     bool          // when records cannot be written: let calls go on, keep what there is room for and count the rest
	Interval time.Duration // zero: 1 s
	Dropped  func(n int)   // counts records that are lost: for want of room, or not written when Close gives up; may be nil
	// Changed is told why records cannot be written, and nil when they can again. One goroutine calls it; may be nil.
	Changed func(problem error)
	// Moved is told that the file was not at its name any more and another is written there, or why none can be: then the
	// old one is still written. The writer calls it and must not wait; may be nil.
	Moved func(err error)
}

// Log writes records. It is safe for concurrent use. A nil *Log writes nothing. Close ends its goroutines.
type Log struct {
	cfg      Config
	patience time.Duration

	wake  chan struct{}  // holds a value when there is something to do for the writer
	stop  chan struct{}  // closed by Close
	ended sync.WaitGroup // of write, watch and sync
	sink  *sink          // for the writer; sync may run beside it
	// For the writer alone.
	rest   kept  // what could not be written and is tried again
	failed error // of the last write; nil: it succeeded
	adrift bool  // the file is not at its name, no other can be opened there, and Moved was told so

	mu       sync.Mutex    // guards the fields below
	batch    *batch        // the one that gathers
	inWork   *batch        // the one that the writer writes; nil: none
	since    time.Time     // when the writer began what it does now; zero: it waits
	booked   int           // lines that are sure to come
	lines    int           // lines that came and are not written
	bytes    int64         // of those
	room     int64         // bytes that fit behind what is written, for sure
	short    error         // why there is not more room; nil: there is, or nobody tried
	wanted   bool          // somebody waits for room
	tried    chan struct{} // closed when the writer has tried to make room
	problem  error         // why records cannot be written; nil: they can
	next     *replacement  // a file to go on with
	again    bool          // the writer is to try again what failed, and to look at the file
	isClosed bool
}

// batch is lines that are written together.
type batch struct {
	lines []byte
	count int
	ended bool          // guarded by Log.mu
	done  chan struct{} // closed when the lines are written or given up
	err   error         // set before done is closed
}

func newBatch(room []byte) *batch { return &batch{lines: room, done: make(chan struct{})} }

// renewed returns a batch of the same lines that those can wait for who add to it.
func (b *batch) renewed() *batch {
	return &batch{lines: b.lines, count: b.count, done: make(chan struct{})}
}

// Open opens the file of cfg. That there is no room in it is no error here, but Problem tells.
func Open(cfg Config) (*Log, error) {
	f, torn, err := openFile(cfg.File)
	if err != nil {
		return nil, err
	}
	return newLog(cfg, f, torn), nil
}

func newLog(cfg Config, f file, torn bool) *Log {
	if cfg.Interval <= 0 {
		cfg.Interval = defaultInterval
	}
	l := &Log{
		cfg: cfg, patience: writePatience, sink: newSink(f, torn, cfg.Drop), batch: newBatch(nil),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), tried: make(chan struct{}),
	}
	if cfg.Drop {
		l.patience = dropPatience
	}
	l.again = true
	l.step()
	l.ended.Go(l.write) // Close waits for these three
	l.ended.Go(l.watch)
	l.ended.Go(l.sync)
	return l
}

// Book takes room for one record, before anything of what it is about happens. Every success is followed by one Keep.
// An error means that the record could not be kept now, and counts it as lost. With Drop there is none.
func (l *Log) Book() error {
	if l == nil || l.cfg.Drop {
		return nil
	}
	err := l.book()
	if err != nil {
		l.drop(1)
	}
	return err
}

func (l *Log) book() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		switch {
		case l.isClosed:
			return os.ErrClosed
		case l.problem != nil:
			return l.problem
		case l.booked+l.lines >= maxWaiting:
			return errWaiting
		case l.freeLocked() >= maxLine:
			l.booked++
			if l.freeLocked() < lowRoom && l.short == nil {
				l.nudge()
			}
			return nil
		case l.short != nil:
			l.problem = l.short
			return l.problem
		}
		tried := l.tried
		l.wanted = true
		l.nudge()
		l.mu.Unlock()
		select {
		case <-tried: // the watch ends it when the writer does not
		case <-l.stop:
		}
		l.mu.Lock()
	}
}

// freeLocked returns the bytes of room that nobody has booked.
func (l *Log) freeLocked() int64 { return l.room - l.bytes - int64(l.booked)*maxLine }

// Keep writes a record that was booked, and returns when it is in the file (on disk, with Always). Concurrent callers
// share one write and one sync. An error means that the record is not written, or not yet: it is tried again until
// Close, which counts it as lost if it fails to the end. With Drop, a record for which there is no room is counted at
// once, and the error is nil.
func (l *Log) Keep(r *Record) error {
	if l == nil {
		return nil
	}
	b, err := l.add(r)
	if err != nil {
		l.drop(1)
	}
	if b == nil {
		if l.cfg.Drop {
			return nil
		}
		return err
	}
	<-b.done // bounded by the writer or the watch
	if l.cfg.Drop {
		return nil // it is kept, and counted when it is lost in the end
	}
	return b.err
}

// Write is Book and Keep, for what has happened already or does no harm.
func (l *Log) Write(r *Record) error {
	if err := l.Book(); err != nil {
		return err
	}
	return l.Keep(r)
}

// lines keeps room for lines that are being made.
var lines = sync.Pool{New: func() any { return new([]byte) }}

// add adds the record's line to the batch that gathers. It returns the batch, nil when nobody is to wait for it.
func (l *Log) add(r *Record) (*batch, error) {
	line := lines.Get().(*[]byte)
	defer lines.Put(line)
	*line = r.appendLine((*line)[:0])

	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.cfg.Drop {
		l.booked--
	}
	switch {
	case l.isClosed:
		return nil, os.ErrClosed
	case l.cfg.Drop && l.lines >= maxWaiting:
		return nil, errWaiting
	}
	b := l.batch
	b.lines = append(b.lines, *line...)
	b.count++
	l.lines++
	l.bytes += int64(len(*line))
	if b.count == 1 {
		l.nudge()
	}
	if l.cfg.Drop && l.problem != nil {
		return nil, nil // it waits in memory; the call does not
	}
	return b, nil
}

// nudge lets the writer look what there is to do.
func (l *Log) nudge() {
	select {
	case l.wake <- struct{}{}:
	default: // it will look anyway
	}
}

func (l *Log) drop(n int) {
	if l.cfg.Dropped != nil {
		l.cfg.Dropped(n)
	}
}

// Problem says why records cannot be written now, nil when they can.
func (l *Log) Problem() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.problem
}

// Reopen opens the file anew, for log rotation. On an error of opening, the old file stays in use. When the writer
// hangs, the error says so, and the file changes as soon as it does not.
func (l *Log) Reopen() error {
	if l == nil || l.cfg.File == standardOutput {
		return nil
	}
	f, torn, err := openFile(l.cfg.File)
	if err != nil {
		return err
	}
	r := &replacement{file: f, torn: torn, done: make(chan error, 1)}
	l.mu.Lock()
	switch {
	case l.isClosed:
		err = os.ErrClosed
	case l.next != nil:
		err = errStalled
	default:
		l.next = r
	}
	l.mu.Unlock()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.nudge()
	late := time.NewTimer(l.patience)
	defer late.Stop()
	select {
	case err := <-r.done:
		return err
	case <-late.C:
		return errStalled
	}
}

// Close writes and syncs what is left, gives back room that is not needed and closes the file. Later writes return
// os.ErrClosed. When the writer hangs, Close leaves it behind after a while and says how many records are lost.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	before := l.isClosed
	l.isClosed = true
	l.mu.Unlock()
	if before {
		return nil
	}
	close(l.stop)
	l.nudge()
	ended := make(chan struct{})
	go func() { // ends when those three do; a process that leaves it behind ends soon
		l.ended.Wait()
		close(ended)
	}()
	late := time.NewTimer(closePatience)
	defer late.Stop()
	select {
	case <-ended:
		return errors.Join(l.sink.closing, l.lost())
	case <-late.C:
	}
	l.mu.Lock()
	l.giveUpLocked()
	l.mu.Unlock()
	return errors.Join(errStalled, l.lost())
}

// lost counts the lines that are not written, and is an error when there are any.
func (l *Log) lost() error {
	l.mu.Lock()
	n := l.lines
	l.mu.Unlock()
	if n == 0 {
		return nil
	}
	l.drop(n)
	return fmt.Errorf("%d audit records were not written", n)
}
