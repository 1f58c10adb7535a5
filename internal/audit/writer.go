package audit

import (
	"time"
)

const (
	watchInterval = 250 * time.Millisecond // between looks at the writer
	retryTicks    = 4                      // looks between attempts to write what failed, and looks at the file

	aheadRoom    = 4 << 20       // bytes of room that the writer makes at once
	lowRoom      = aheadRoom / 2 // it makes more when less than this is free
	recoveryRoom = 16 * maxLine  // bytes that must be free again after there was no room, so that it does not come and go
)

// kept is what could not be written.
type kept struct {
	lines []byte
	count int // also of lines that are in the file but could not be synced
}

// with returns what is kept and, after it, the lines of a batch, which may be nil.
func (k kept) with(b *batch) kept {
	switch {
	case b == nil:
		return k
	case k.count == 0:
		return kept{b.lines, b.count}
	}
	return kept{append(k.lines, b.lines...), k.count + b.count}
}

// replacement is a file to go on with.
type replacement struct {
	file file
	torn bool
	done chan error // gets one value when it is in use
}

// write is the writer: it does what there is to do until Close. It waits on one channel only, because every lone record
// waits for it to wake.
func (l *Log) write() {
	for range l.wake {
		if l.step() {
			l.sink.close()
			return
		}
	}
}

// step changes to the next file, makes room ahead and writes what has gathered. What failed before is only tried again
// after a while: then it also makes room where there was none. It is true when it was the last step.
func (l *Log) step() (last bool) {
	do := l.begin()
	if do.next != nil {
		do.next.done <- l.sink.replace(do.next.file, do.next.torn)
	} else if do.again {
		l.follow()
	}
	if do.low || do.again {
		l.makeRoom(do.again)
	}
	todo := l.rest.with(do.batch)
	if todo.count == 0 || do.batch == nil && !do.again { // nothing, or nothing yet
		l.end(nil, kept{}, nil, l.failed)
		return do.last
	}
	left, err := l.sink.write(todo.lines, l.cfg.Always)
	l.end(do.batch, todo, left, err)
	return do.last
}

// follow opens the file anew when it is not at its name any more: who removed it, or moved it away and told nobody, would
// look there for what is written. What cannot be opened is tried again after a while.
func (l *Log) follow() {
	if !l.sink.moved() {
		l.adrift = false
		return
	}
	f, torn, err := openFile(l.cfg.File)
	if err == nil {
		err = l.sink.replace(f, torn)
	}
	if l.cfg.Moved != nil && (err == nil || !l.adrift) {
		l.cfg.Moved(err)
	}
	l.adrift = err != nil
}

// duties are what the writer does in a step.
type duties struct {
	batch *batch       // to write; nil: none, or it has to wait until what failed is tried again
	next  *replacement // nil: none
	again bool         // try again what failed
	low   bool         // there should be more room, or somebody waits for it
	last  bool
}

// begin takes what there is to do, and notes for the watch that the writer is busy.
func (l *Log) begin() duties {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	do := duties{next: l.next, again: l.again || l.next != nil || l.isClosed, last: l.isClosed}
	do.low = l.short == nil && (l.wanted || l.freeLocked() < lowRoom)
	l.since, l.next, l.again = now, nil, false
	if l.batch.count > 0 && (l.rest.count == 0 || do.again) {
		do.batch = l.batch
		l.inWork, l.batch = l.batch, newBatch(l.sink.takeSpare())
	}
	return do
}

// end is the end of a step that was to write todo. What is left of it is kept, and those who wait for b are told.
func (l *Log) end(b *batch, todo kept, left []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since, l.inWork, l.failed = time.Time{}, nil, err
	l.room = l.sink.room()
	l.bytes -= int64(len(todo.lines) - len(left))
	switch {
	case todo.count == 0:
	case err == nil:
		l.lines -= todo.count
		l.rest = kept{}
		l.sink.keepSpare(todo.lines)
	default:
		l.rest = kept{append([]byte(nil), left...), todo.count}
	}
	l.endLocked(b, err)
	if l.batch.ended { // the watch gave it up while the writer hung, which is over
		l.batch = l.batch.renewed()
	}
	switch {
	case err != nil:
		l.problem = err
	case l.short != nil && l.freeLocked() < maxLine:
		l.problem = l.short
	case l.short == nil || l.freeLocked() >= recoveryRoom:
		l.problem = nil
	}
}

// endLocked tells those who wait for b what became of it, once.
func (l *Log) endLocked(b *batch, err error) {
	if b == nil || b.ended {
		return
	}
	b.ended, b.err = true, err
	close(b.done)
}

// makeRoom extends the file ahead when little room is free. When looking is true, others may have written to the file or
// cut it.
func (l *Log) makeRoom(looking bool) {
	if looking {
		l.sink.look()
	}
	l.mu.Lock()
	l.room = l.sink.room()
	free := l.freeLocked()
	needed := l.room - free
	l.mu.Unlock()
	var short error
	if free < lowRoom {
		short = l.sink.reserve(needed + aheadRoom)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.room, l.short = l.sink.room(), short
	l.triedLocked()
}

// triedLocked lets those look again who wait for room.
func (l *Log) triedLocked() {
	close(l.tried)
	l.wanted, l.tried = false, make(chan struct{})
}

// watch lets nobody wait for a writer that hangs, wakes it for what must be tried again, and tells of problems.
func (l *Log) watch() {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	var told error
	for n := 1; ; n++ {
		select {
		case <-l.stop:
			return
		case <-tick.C:
			problem := l.look(n%retryTicks == 0)
			if (problem == nil) != (told == nil) && l.cfg.Changed != nil {
				l.cfg.Changed(problem)
			}
			told = problem
		}
	}
}

// look gives up what the writer does not get done, and returns why records cannot be written. again lets the writer try
// again what failed.
func (l *Log) look(again bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if again {
		l.again = true
		l.nudge()
	}
	if l.since.IsZero() || time.Since(l.since) < l.patience {
		return l.problem
	}
	l.giveUpLocked()
	return l.problem
}

// giveUpLocked ends all waiting for a writer that hangs. The batch that gathers goes on to gather, and nobody waits for
// it until the writer goes on.
func (l *Log) giveUpLocked() {
	l.problem = errStalled
	l.endLocked(l.inWork, errStalled)
	l.endLocked(l.batch, errStalled)
	l.triedLocked()
}

// sync syncs periodically. When a sync fails, the next write syncs for itself and returns the error if it fails again.
func (l *Log) sync() {
	tick := time.NewTicker(l.cfg.Interval)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
			if f := l.sink.unsynced(); f != nil {
				_ = l.sink.sync(f) // beside the writer, which goes on; its next write sees the error
			}
		}
	}
}
