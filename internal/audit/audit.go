// Package audit keeps the record of who did what and whether it was allowed: one JSON line a call or refusal, written
// before the answer is sent. It knows nothing of who decides.
package audit

import (
	"context"
	"sync"
	"time"
)

const (
	maxBatch        = 1 << 20 // bytes that gather while others are written
	defaultInterval = time.Second
)

// Config of a Log.
type Config struct {
	File     string        // appended to, created with mode 0600; "-" is standard output
	Always   bool          // fsync before Write returns (group commit); else every Interval
	Drop     bool          // when records cannot be written: drop and count them instead of waiting and refusing
	Interval time.Duration // zero: 1 s
	Dropped  func(n int)   // counts dropped records; may be nil
}

// Log writes records. It is safe for concurrent use. A nil *Log writes nothing.
//
// Writers add their lines to the batch that gathers. Whoever then gets the turn writes the whole batch, and the others
// wait for it, so there is no goroutine to hand lines to: a lone writer writes its line itself.
type Log struct {
	cfg  Config
	turn chan struct{} // holds one value while somebody uses the sink
	sink *sink         // for the holder of turn

	mu    sync.Mutex // guards the fields below
	batch *batch     // the one that gathers
}

// batch is lines that are written together.
type batch struct {
	lines []byte
	count int
	done  chan struct{} // closed when it was written or given up
	err   error         // set before done is closed
}

func newBatch(room []byte) *batch { return &batch{lines: room, done: make(chan struct{})} }

// Open opens the file of cfg.
func Open(cfg Config) (*Log, error) {
	if cfg.Interval <= 0 {
		cfg.Interval = defaultInterval
	}
	f, err := openFile(cfg.File)
	if err != nil {
		return nil, err
	}
	return newLog(cfg, f), nil
}

func newLog(cfg Config, f file) *Log {
	return &Log{cfg: cfg, turn: make(chan struct{}, 1), sink: newSink(f), batch: newBatch(nil)}
}

// Write returns when the record is written (and synced, with Always). Concurrent writers share one write and one sync.
// An error means that the record may not be kept: the caller refuses the call. It is the context's when that ends
// first. With Drop a record that cannot be kept is counted, and the error is nil.
func (l *Log) Write(ctx context.Context, r *Record) error {
	if l == nil {
		return nil
	}
	room := lines.Get().(*[]byte)
	defer lines.Put(room)
	*room = r.appendLine((*room)[:0])
	for {
		b, added := l.add(*room)
		if !added && l.cfg.Drop {
			l.drop(1)
			return nil
		}
		err := l.await(ctx, b)
		if l.cfg.Drop {
			return nil // whoever wrote the batch counted it
		}
		if added || err != nil && ctx.Err() != nil {
			return err
		}
	}
}

// lines keeps room for lines that are being made.
var lines = sync.Pool{New: func() any { return new([]byte) }}

// add adds the line to the batch that gathers, unless that is full.
func (l *Log) add(line []byte) (b *batch, added bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b = l.batch
	if len(b.lines)+len(line) > maxBatch {
		return b, false
	}
	b.lines = append(b.lines, line...)
	b.count++
	return b, true
}

// await returns when b is done, and writes it when it is nobody else's turn.
func (l *Log) await(ctx context.Context, b *batch) error {
	select {
	case l.turn <- struct{}{}: // first, so that a free sink is used even after the context's end
	default:
		select {
		case <-b.done:
			return b.err
		case <-ctx.Done():
			return ctx.Err()
		case l.turn <- struct{}{}:
		}
	}
	select {
	case <-b.done: // others wrote it, and this turn is for the next in line
	default:
		l.flush()
	}
	<-l.turn
	return b.err
}

// flush writes the batch that gathers, and syncs it if need be. The caller has the turn.
func (l *Log) flush() {
	l.mu.Lock()
	b := l.batch
	if b.count == 0 {
		l.mu.Unlock()
		return
	}
	l.batch = newBatch(l.sink.takeSpare())
	l.mu.Unlock()
	b.err = l.sink.write(b.lines, l.cfg.Always)
	if b.err != nil && l.cfg.Drop {
		l.drop(b.count)
	}
	l.sink.keepSpare(b.lines)
	b.lines = nil
	close(b.done)
}

func (l *Log) drop(n int) {
	if l.cfg.Dropped != nil {
		l.cfg.Dropped(n)
	}
}

// Run syncs periodically until ctx ends, then writes and syncs what is left. When a sync fails, the next Write syncs
// for itself and returns the error if it fails again.
func (l *Log) Run(ctx context.Context) error {
	if l == nil {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(l.cfg.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return l.settle()
		case <-ticker.C:
			l.turn <- struct{}{}
			l.flush() // what writers left behind that did not wait
			f := l.sink.unsynced()
			<-l.turn
			if f != nil {
				_ = l.sink.sync(f) // without the turn, so that writers go on; the next write sees the error
			}
		}
	}
}

// settle writes and syncs everything.
func (l *Log) settle() error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	l.flush()
	return l.sink.settle()
}

// Reopen opens the file anew, for log rotation. On an error the old file stays in use.
func (l *Log) Reopen() error {
	if l == nil || l.cfg.File == standardOutput {
		return nil
	}
	f, err := openFile(l.cfg.File)
	if err != nil {
		return err
	}
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	l.flush()
	return l.sink.replace(f)
}

// Close writes and syncs what is left and closes the file. Later writes return os.ErrClosed.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	l.flush()
	return l.sink.close()
}
