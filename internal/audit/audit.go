// Package audit answers: who did what, and was it allowed? It keeps one JSON line for
// each call or refusal, which is written before the answer is sent. It deliberately does
// not know who decides what is allowed, nor what becomes of a call that cannot be
// recorded: it says that this is so, and its callers refuse the call.
//
// A call reserves room for its line before anything happens, so that a call which was
// made can be recorded although the disk has filled up meanwhile:
//
//	caller                          Log                                     writer (one goroutine)
//	Book ──── room for a line? ───▶ booked++                  ◀── room ──── extends the file ahead
//	(the call runs)
//	Keep ──── line ───────────────▶ the lines that gather ──── lines ─────▶ writes, retries what failed
//	     ◀─── written, or given up ◀──────────────────────────── end ───────┘
//
// Only the writer writes to the file, because a write to a pipe that nobody reads, or to
// a disk that hangs, cannot be interrupted. Everybody else waits for the writer, and a
// second goroutine, the watch, ends that waiting when the writer takes too long. Lines
// are numbered in the order in which they came. Those that come while the writer is busy
// gather, and are written together. Two numbers say how far the writer is:
//
//	1 … written            these are in the file
//	written+1 … answered   they could not be written, or the watch gave up: nobody waits for them any more
//	answered+1 … came      whoever brought them waits
//
// Lines that nobody waits for are not gone. Those that could not be written stay in
// memory, before those that came later, and are tried again until Close.
//
// record.go makes the line, digest.go the digest of arguments in it, audit.go has what
// callers use, writer.go the three goroutines (writer, watch and the periodic sync),
// sink.go what is known of the open file, and reserve.go how a file gets room ahead on
// Linux.
package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

const (
	defaultInterval = time.Second

	// maxWaiting bounds the lines in memory that came and are not written, together with
	// those that are booked and may come, beyond one for each of Config.Calls.
	maxWaiting = 4096

	// How long a step of the writer may take before those who wait for it get errStalled.
	// With Drop the time is shorter, because there a record must not hold up a call.
	writePatience = 5 * time.Second
	dropPatience  = time.Second
	// How long Close waits for what is left to be written.
	closePatience = 3 * time.Second

	maxSpare = 64 << 10 // bytes of memory for lines that are kept for the next ones
)

var (
	errWaiting = errors.New("too many audit records wait to be written")
	errStalled = errors.New(
		"a write of audit records does not end: the disk hangs, or nobody reads the pipe or terminal")
)

// Config of a Log.
type Config struct {
	// File is appended to, and created with mode 0600 if it is not there. "-" is standard
	// output.
	File string
	// Always says when a line counts as written. If true, once it is on disk; callers who
	// come at the same time share one sync (group commit). If false, once the operating
	// system has it; it is on disk at most Interval later, so a crash of the machine
	// loses the last ones.
	Always bool
	// Drop says what happens while records cannot be written. If false, Book and Keep
	// return errors, for calls to be refused. If true, calls go on: as many records as
	// fit wait in memory, and the rest are lost and counted.
	Drop bool
	// Calls is how many calls may go on at once. For each of them one more line can be
	// booked, so that many calls that take long are not taken for lines that cannot be
	// written.
	Calls    int
	Interval time.Duration // between two syncs when Always is false; zero: 1 s
	// Dropped counts n records that are lost. They are those for which there was no room,
	// those of calls that Book refused, and those that are still not written when Close
	// gives up. Several goroutines call it; may be nil.
	Dropped func(n int)
	// Changed is called with the reason when records can no longer be written, and with
	// nil when they can again. One goroutine calls it; may be nil.
	Changed func(problem error)
	// Moved is called when the file is no longer at its name: with nil when another was
	// opened there and is written from now on, with an error when none could be opened,
	// so that the old one is still written, and with a *ClosingError when another is
	// written and the old one could not be closed well. What Reopen announced is told as
	// an error alone. The writer calls it, so it must not wait; may be nil.
	Moved func(err error)
}

// ClosingError is why a file that was moved could not be closed well. Its last lines may
// not be on the disk.
type ClosingError struct{ Err error }

func (e *ClosingError) Error() string { return e.Err.Error() }

// Log writes records. It is safe for concurrent use. A nil *Log records nothing, and all
// of its methods succeed. Close ends its goroutines.
type Log struct {
	cfg      Config
	patience time.Duration // writePatience or dropPatience

	wake  chan struct{}      // holds a value when there is something to do for the writer
	stop  context.CancelFunc // for Close: it ends the watch and sync
	ended sync.WaitGroup     // of write, watch and sync
	sink  *sink              // for the writer; sync may run beside it

	// Only the writer uses these two, so they need no mutex.
	failed error // of the last write, whose lines are tried again; nil: it succeeded
	adrift bool  // the file is not at its name, no other can be opened there, and Moved was told so

	// Only the watch uses these two.
	looks    int   // how often it has looked at the writer
	reported error // the problem that Changed heard of last; nil: none

	tried sync.Cond    // of mu: the writer has tried to make room
	over  [2]sync.Cond // of mu: a round of the writer is over; rounds take turns with them

	mu       sync.Mutex // guards the fields below
	lines    []byte     // those that gather, behind what could not be written
	inWork   []byte     // those that the writer writes
	spare    []byte     // memory for the next that gather
	round    int        // of the writer, in which the lines that gather will be written
	came     int        // number of the last line that came
	answered int        // number of the last line that nobody waits for any more
	written  int        // number of the last line that is written
	reason   error      // what those are answered whose lines are not written
	since    time.Time  // when the writer began its present step; zero: it waits for something to do
	booked   int        // lines for which Book has succeeded and Keep was not called yet
	space    int64      // bytes that are sure to fit behind what is written
	short    error      // why there is not more room; nil: there is, or nobody has tried
	wanted   bool       // somebody in book waits for room
	problem  error      // why records cannot be written now; nil: they can
	again    bool       // the writer is to try again what failed, and to look whether its file was moved
	rotated  bool       // Reopen was called since it looked last
	isClosed bool       // Close was called
}

// Open opens the file of cfg and starts to write. The error is about opening only. If
// there is no room in the file, that is no error here, because it may come: Problem
// tells.
func Open(cfg Config) (*Log, error) {
	f, torn, err := openFile(cfg.File)
	if err != nil {
		return nil, err
	}
	return newLog(cfg, f, torn), nil
}

// newLog returns a Log that writes to f. torn says that f ends within a line.
func newLog(cfg Config, f file, torn bool) *Log {
	cfg.Interval = cmp.Or(cfg.Interval, defaultInterval)
	ctx, stop := context.WithCancel(context.Background())
	l := &Log{
		cfg: cfg, patience: writePatience, sink: newSink(f, torn, cfg.Drop),
		wake: make(chan struct{}, 1), stop: stop,
	}
	l.tried.L, l.over[0].L, l.over[1].L = &l.mu, &l.mu, &l.mu
	if cfg.Drop {
		l.patience = dropPatience
	}
	// The first step runs here, before there is a writer, so that Problem and the first
	// Book know whether there is room.
	l.again = true
	l.step()
	l.ended.Go(l.write) // Close waits for these three
	l.ended.Go(func() { pace.Every(ctx, watchInterval, l.watch) })
	l.ended.Go(func() { pace.Every(ctx, cfg.Interval, l.sync) })
	return l
}

// Book reserves room for one record. It is called before anything of what the record is
// about happens, and every Book that succeeds must be followed by one Keep, or
// its room stays reserved. It waits until there is room or until it is known that there
// is none. An error means that the record could not be kept now, so the call must not be
// made; the record counts as lost. With Drop there is no error, and nothing is reserved.
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

// book reserves room for the longest line there may be, since nobody knows yet how long
// this one gets. It waits for the writer if there is too little room and the writer has
// not tried to make more.
func (l *Log) book() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		err := l.refusalLocked()
		switch {
		case l.isClosed:
			return os.ErrClosed
		case err != nil:
			if !l.isCrowdedLocked() {
				l.problem = err // until recoverySpace is free, see end
			}
			return err
		case l.freeLocked() >= maxLine:
			l.booked++
			if l.freeLocked() < lowSpace && l.short == nil {
				pace.Signal(l.wake)
			}
			return nil
		}
		l.wanted = true
		pace.Signal(l.wake)
		l.tried.Wait() // the watch ends it when the writer does not
	}
}

// refusalLocked returns why no record can be booked now, nil if one can, or if nobody
// knows before the writer has tried to make room.
func (l *Log) refusalLocked() error {
	switch {
	case l.problem != nil:
		return l.problem
	case l.cfg.Drop:
		return nil // nobody books
	case l.isCrowdedLocked():
		return errWaiting
	case l.freeLocked() < maxLine:
		return l.short
	}
	return nil
}

// isCrowdedLocked tells whether as many lines are booked and wait as may.
func (l *Log) isCrowdedLocked() bool { return l.booked+l.came-l.written >= maxWaiting+l.cfg.Calls }

// freeLocked returns how many bytes of the room are neither booked nor needed by lines
// that wait to be written. It may be negative.
func (l *Log) freeLocked() int64 {
	return l.space - int64(len(l.lines)) - int64(len(l.inWork)) - int64(l.booked)*maxLine
}

// Keep writes a record for which Book has succeeded, and returns when it is in the file,
// or with Always on disk. Concurrent callers share one write and one sync. An error means
// that the record is not written yet: it stays in memory and is tried again until Close,
// which counts it as lost if that fails to the end. With Drop the error is nil; a record
// for which there is no room in memory is lost and counted at once.
func (l *Log) Keep(r *Record) error {
	if l == nil {
		return nil
	}
	line := memory.Get().(*[]byte)
	*line = r.appendLine((*line)[:0])
	l.mu.Lock()
	number, err := l.addLocked(*line)
	memory.Put(line)
	if err == nil {
		err = l.waitLocked(number)
	}
	l.mu.Unlock()
	if number == 0 {
		l.drop(1)
	}
	if l.cfg.Drop {
		err = nil // the record is in memory or counted; if it is lost in the end, Close counts it
	}
	return err
}

// Write is Book and Keep at once. It is for what has happened already, such as a refusal,
// and for what does no harm.
func (l *Log) Write(r *Record) error {
	if err := l.Book(); err != nil {
		return err
	}
	return l.Keep(r)
}

// memory is that in which records become lines, before they are copied to those that
// gather.
var memory = sync.Pool{New: func() any { return new([]byte) }}

// addLocked adds a line to those that gather, and ends its booking. It returns the number
// of the line, zero if it was not added, which the error explains.
func (l *Log) addLocked(line []byte) (number int, err error) {
	if !l.cfg.Drop {
		l.booked--
	}
	switch {
	case l.isClosed:
		return 0, os.ErrClosed
	case l.cfg.Drop && l.came-l.written >= maxWaiting:
		return 0, errWaiting
	}
	if len(l.lines) == 0 {
		pace.Signal(l.wake)
	}
	l.lines = append(l.lines, line...)
	l.came++
	return l.came, nil
}

// waitLocked waits until the line that came last, and has this number, is written or
// given up. With Drop nobody waits while records cannot be written anyway: the record
// waits in memory for better times, the call does not.
func (l *Log) waitLocked(number int) error {
	over := &l.over[l.round%2]
	for l.answered < number && (!l.cfg.Drop || l.problem == nil) {
		over.Wait() // the writer ends it or, when the writer hangs, the watch
	}
	if l.written < number {
		return l.reason
	}
	return nil
}

// drop counts n records as lost.
func (l *Log) drop(n int) {
	if l.cfg.Dropped != nil {
		l.cfg.Dropped(n)
	}
}

// Problem says why records cannot be written now, and so why Book would refuse the next
// one. It is nil if they can.
func (l *Log) Problem() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refusalLocked()
}

// Reopen is for log rotation: if the file is no longer at its name, what comes from now
// on goes to another that the writer opens there. Who asks knows that it was moved, so
// that Moved is told only if no other can be opened. It waits for nothing.
func (l *Log) Reopen() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.again, l.rotated = true, true
	pace.Signal(l.wake)
}

// Close writes and syncs what is left, gives back room that was reserved and not needed,
// and closes the file. Records that come later are os.ErrClosed. If the writer hangs,
// Close gives up after closePatience and leaves it behind. The error says how many
// records are lost. There is none if all are written and only a sync goes on: the system
// writes them to the disk without this process. A second Close does nothing.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	before := l.isClosed
	l.isClosed = true
	l.tried.Broadcast()
	l.mu.Unlock()
	if before {
		return nil
	}
	l.stop()
	pace.Signal(l.wake)
	ended := make(chan struct{})
	// ends with the three goroutines; if they hang it is left behind, in a process that
	// is about to end
	go func() {
		l.ended.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return errors.Join(l.sink.closing, l.lost())
	case <-time.After(closePatience):
	}
	l.mu.Lock()
	l.giveUpLocked()
	l.mu.Unlock()
	if err := l.lost(); err != nil {
		return errors.Join(errStalled, err)
	}
	return nil
}

// lost counts the lines that were not written as lost. It returns an error if there are
// any.
func (l *Log) lost() error {
	l.mu.Lock()
	n := l.came - l.written
	l.mu.Unlock()
	if n == 0 {
		return nil
	}
	l.drop(n)
	return fmt.Errorf("%d audit records were not written", n)
}
