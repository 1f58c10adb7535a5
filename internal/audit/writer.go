package audit

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

const (
	watchInterval = 250 * time.Millisecond // between two looks of the watch at the writer
	retryTicks    = 4                      // at every fourth look, the writer is to try again what failed

	aheadSpace = 4 << 20        // bytes of room that the writer makes at once
	lowSpace   = aheadSpace / 2 // the writer makes more when fewer bytes than this are free
	// recoverySpace is how many bytes must be free again, after there was no room, before
	// records count as writable. With a lower bound a nearly full disk would let one call
	// through, refuse the next, and so on.
	recoverySpace = 16 * maxLine
)

// write is the writer: it does what there is to do until Close. It waits on one channel
// only, and not in a select, because every lone record waits for it to wake. Go runs a
// goroutine that was woken before all that could run already, so without a step back each
// of these would find its record too late for this write, and need one of its own.
func (l *Log) write() {
	for range l.wake {
		runtime.Gosched()
		if l.step() {
			l.sink.closing = l.sink.finish()
			return
		}
	}
}

// step does once everything that the writer has to do: it changes to another file, makes
// room ahead, and writes what has gathered. What failed before is tried again only when
// the watch says so, about once a second, or at the end: a disk that is full would
// otherwise be written to for every record that comes. The same holds for room where
// there was none. last is true if it was the last step.
func (l *Log) step() (last bool) {
	do := l.begin()
	if do.again {
		l.follow(do.rotated)
	}
	if do.low || do.again {
		l.makeSpace(do.again)
	}
	var left []byte
	if do.upTo > 0 {
		left, l.failed = l.sink.write(l.inWork, l.cfg.Always)
	}
	l.end(do.upTo, left)
	return do.last
}

// follow opens the file anew if it is no longer at its name. Somebody moved it away or
// removed it without telling the gateway, as many a log rotation does, and looks for new
// lines at the name, or has announced it by Reopen. If no file can be opened there, the
// old one is still written and follow tries again at the next occasion; Moved hears of
// that only once.
func (l *Log) follow(rotated bool) {
	if !l.sink.moved(rotated) {
		l.adrift = false
		return
	}
	f, torn, err := openFile(l.cfg.File)
	opened := err == nil
	if opened {
		err = l.sink.replace(f, torn)
	}
	if l.cfg.Moved != nil && (opened == l.adrift || opened && (err != nil || !rotated)) {
		l.cfg.Moved(err)
	}
	l.adrift = !opened
}

// duties are what the writer has to do in one step.
type duties struct {
	// number of the last line to write; zero: there is nothing to write, or what failed
	// is not to be tried again yet
	upTo    int
	again   bool // try again what failed, and look whether the file was moved
	rotated bool // which was announced
	low     bool // room is low, or somebody waits for it
	last    bool // Close was called
}

// begin takes over what there is to do. It notes the time, by which the watch sees how
// long the step has taken. What comes from then on gathers for the next round.
func (l *Log) begin() duties {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	do := duties{again: l.again || l.isClosed, rotated: l.rotated, last: l.isClosed}
	do.low = l.short == nil && (l.wanted || l.freeLocked() < lowSpace)
	l.since, l.again, l.rotated = now, false, false
	if l.came > l.written && (l.failed == nil || do.again) {
		do.upTo = l.came
		l.inWork, l.lines, l.spare = l.lines, l.spare, nil
		l.round++
	}
	return do
}

// end ends a step that was to write the lines up to a number, zero: none, and tells all
// who wait for them. If that failed, what is left of them is written again before those
// that came later, and none of them counts as written, since they may not be on the disk.
// It finds out whether records can be written now.
func (l *Log) end(upTo int, left []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = time.Time{}
	l.space = l.sink.space()
	if upTo > 0 {
		if l.failed == nil {
			l.written = upTo
		} else {
			l.lines, l.reason = slices.Insert(l.lines, 0, left...), l.failed
		}
		if cap(l.inWork) <= maxSpare {
			l.spare = l.inWork[:0]
		}
		l.inWork = nil
		l.answered = max(l.answered, upTo) // the watch may have given up more
		l.over[(l.round-1)%2].Broadcast()
	}
	switch {
	case l.failed != nil:
		l.problem = l.failed
	case l.short != nil && l.freeLocked() < maxLine:
		l.problem = l.short
	case l.short == nil || l.freeLocked() >= recoverySpace:
		l.problem = nil
	}
}

// makeSpace extends the file ahead if little room is free. With looking it first finds
// out whether others have written to the file or cut it, which takes a look at the file
// system.
func (l *Log) makeSpace(looking bool) {
	if looking {
		l.sink.checkSpace()
	}
	l.mu.Lock()
	l.space = l.sink.space()
	free := l.freeLocked()
	needed := l.space - free // for lines that are booked, and for those that came and are not written
	l.mu.Unlock()
	var short error // the mutex is not held meanwhile: reserving may take as long as a disk likes
	if free < lowSpace {
		short = l.sink.reserve(needed + aheadSpace)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.space, l.short, l.wanted = l.sink.space(), short, false
	l.tried.Broadcast()
}

// watch is what the second goroutine does at every watchInterval. It sees to it that
// nobody waits for a writer whose step has taken longer than patience, wakes the writer
// for what must be tried again, and tells Changed of problems. It never touches the file,
// so it cannot hang itself.
func (l *Log) watch(context.Context) {
	l.mu.Lock()
	if l.looks++; l.looks%retryTicks == 0 {
		l.again = true
		pace.Signal(l.wake)
	}
	if !l.since.IsZero() && time.Since(l.since) >= l.patience {
		l.giveUpLocked()
	}
	problem := l.problem
	l.mu.Unlock()
	if (problem == nil) != (l.reported == nil) && l.cfg.Changed != nil {
		l.cfg.Changed(problem)
	}
	l.reported = problem
}

// giveUpLocked ends all waiting for a writer that hangs, with errStalled. No line is
// given up: the writer still has those in work, and those that gather go on to gather.
func (l *Log) giveUpLocked() {
	l.problem, l.reason, l.answered = errStalled, errStalled, l.came
	for i := range l.over {
		l.over[i].Broadcast()
	}
	l.tried.Broadcast()
}

// sync is what the third goroutine does at every Interval: it syncs the file, beside the
// writer, so that a slow sync does not hold up writes. If a sync fails, the next write
// syncs for itself and returns the error if it fails again.
func (l *Log) sync(context.Context) {
	if f := l.sink.unsynced(); f != nil {
		_ = l.sink.sync(f) // the sink remembers the error for the next write
	}
}
