package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/process"
)

// Limits of children.
const (
	tellMax   = 64                     // messages of Tell that wait to be written to the child
	eofGrace  = time.Second            // from the end of a child's input until it is told to end
	termGrace = 2 * time.Second        // from there until it is killed
	tailLimit = 500 * time.Millisecond // for reading the rest of what a dead child wrote
	// from the end of a child's output until it must have ended, on a busy machine too
	endLimit = 5 * time.Second

	maxErrorLine = 1 << 10 // bytes of a line on standard error that are logged
	maxErrors    = 20      // such lines that are logged in a second
)

// Child is one server that runs as a process of its own and is spoken to over its
// standard input and output. Start makes it, Close ends it; between the two it may end by
// itself (Loss). It is safe for concurrent use.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio
type Child struct {
	duplex
	logger *slog.Logger
	said   *LastLines
	hide   *strings.Replacer // replaces what the child was given in confidence
	tree   *process.Tree
	stdin  io.WriteCloser // the gateway's end of the pipe from which the child reads
	stdout *os.File
	stderr *os.File
	queue  chan []byte // leads to write; nothing waits in it when its sender has left
	// messages of Tell, for which nobody waits; they are small
	background chan []byte

	work    sync.WaitGroup // the four goroutines that Start starts
	exited  chan struct{}  // closed when the process is reaped
	drained chan struct{}  // closed when all of its standard output was read
	silent  chan struct{}  // closed when all of its standard error was read
	reaped  func()
}

var _ Link = (*Child)(nil)

// Program is what a child runs.
type Program struct {
	Command string
	Args    []string
	// where it runs, and a relative path in Command starts; "": where the gateway runs
	Dir string
	// added to PATH, HOME, LANG and TZ; nothing else of the gateway's environment is
	// passed
	Env      map[string]string
	Said     *LastLines     // takes what it writes to standard error
	Rights   process.Rights // which of the gateway's it has; zero: all
	Keeper   []string       // as process.Program.Keeper
	Ended    func()         // called once, when a process that was started is reaped
	Logger   *slog.Logger
	Throttle *Throttle // of the server; nil: what it sends is read as fast as it comes
	Memory   Memory
	Turns    *fairqueue.Queue // at reading what is large; nil: it is read at once
}

// Start starts the process. ctx does not end the process; only Close does. An error means
// that nothing runs.
func Start(ctx context.Context, of Program, up Events) (*Child, error) {
	k := &Child{
		duplex: newDuplex(up, reader{up.Count, of.Throttle, of.Turns}, of.Memory), logger: of.Logger,
		said: of.Said, hide: hider(of.Env, of.Args), reaped: of.Ended, queue: make(chan []byte),
		background: make(chan []byte, tellMax),
		exited:     make(chan struct{}), drained: make(chan struct{}), silent: make(chan struct{}),
	}
	k.out, k.hurry = k, k.exited
	k.said.begin(k.hide)
	if err := k.start(ctx, of); err != nil {
		return nil, unavailable(false, err)
	}
	k.work.Go(k.reap)
	k.work.Go(k.write)
	k.work.Go(func() { k.readOutput(context.WithoutCancel(ctx)) })
	k.work.Go(func() { k.readErrors(context.WithoutCancel(ctx)) })
	return k, nil
}

// start connects the pipes and starts the process. The pipes are our own and not package
// process's, so that reaping waits for the processes alone, and not for whoever else has
// inherited their output.
func (k *Child) start(ctx context.Context, of Program) error {
	var ends []*os.File
	closeAll := func() {
		for _, f := range ends {
			_ = f.Close() // unused
		}
	}
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll()
			return fmt.Errorf("open pipe: %w", err)
		}
		ends = append(ends, r, w)
	}
	k.stdin, k.stdout, k.stderr = ends[1], ends[2], ends[4]
	process.KeepFiles()
	var err error
	k.tree, err = process.Start(ctx, process.Program{
		Command: of.Command, Args: of.Args, Dir: of.Dir, Env: environment(os.Environ(), of.Env),
		Stdin: ends[0], Stdout: ends[3], Stderr: ends[5], Rights: of.Rights, Keeper: of.Keeper,
	})
	if err != nil {
		closeAll()
		return fmt.Errorf("start: %w", err)
	}
	for _, theirs := range []int{0, 3, 5} {
		_ = ends[theirs].Close() // the child has its own
	}
	return nil
}

// reap waits for the process to end with whatever it left behind, and ends the readers of
// its output. Then it records the loss.
func (k *Child) reap() {
	err := k.tree.Wait()
	close(k.exited)
	k.reaped()
	// What could not be ended may still hold the pipes.
	deadline := time.Now().Add(tailLimit)
	_ = k.stdout.SetReadDeadline(deadline) // a closed pipe is as good
	_ = k.stderr.SetReadDeadline(deadline)
	<-k.drained // so that answers which are still in the pipe are not lost
	<-k.silent  // so that whoever learns of the loss finds the child's last words
	k.lost(fmt.Errorf("child ended: %w", err))
}

// write writes messages, one a line. A child that does not read is waited for, because
// one that does one thing at a time may be busy with a call; whether it still lives is
// asked when calls have no answer, and Close ends a write that hangs. When a write fails
// because the child has ended, reap names the cause, since its exit status says more than
// a broken pipe.
func (k *Child) write() {
	for {
		var line []byte
		select {
		case line = <-k.queue:
		case line = <-k.background:
		case <-k.life.Done():
			return
		}
		if _, err := k.stdin.Write(line); err != nil {
			if !k.ended(endLimit) {
				k.lost(fmt.Errorf("write to child: %w", err))
			}
			return
		}
	}
}

// readOutput takes all that the child says. A child that closes its output without ending
// is lost; the end of one that ends is for reap to name.
func (k *Child) readOutput(ctx context.Context) {
	err := k.up.Saved(ctx, func() error { return k.receive(ctx) })
	close(k.drained)
	if !k.ended(endLimit) {
		k.lost(fmt.Errorf("read from child: %w", err))
	}
}

// receive reads the child's standard output to its end, line by line.
func (k *Child) receive(ctx context.Context) error {
	in := bufio.NewReaderSize(k.stdout, 64<<10)
	reserved := k.memory.reserve()
	defer reserved.Release()
	idle := padding{read: k.read, hurry: k.hurry}
	for {
		line, err := readLine(in, maxMessage, reserved)
		var lost *lostError
		switch {
		case errors.As(err, &lost):
			k.missed(lost)
		case err != nil:
			return err
		}
		if text := bytes.TrimSpace(line); len(text) > 0 {
			k.take(ctx, text)
		} else {
			idle.add(len(line))
		}
		reserved.Shrink(0)
	}
}

// readErrors reads the child's standard error to its end, because a child whose pipe is
// full would wait for ever. It reads no faster than messages, because a child in a loop
// would keep a processor busy with what nobody wants. It keeps the last lines for when
// the child fails, and logs the beginnings of some at the level debug.
func (k *Child) readErrors(ctx context.Context) {
	defer close(k.silent)
	in := bufio.NewReaderSize(k.stderr, maxStoredLine)
	second, logged, within := time.Now(), 0, false
	idle := padding{read: k.read, hurry: k.hurry}
	for {
		part, err := in.ReadSlice('\n')
		idle.add(errorCost * len(part))
		beginning := !within
		within = errors.Is(err, bufio.ErrBufferFull)
		if time.Since(second) > time.Second {
			second, logged = time.Now(), 0
		}
		if text := bytes.TrimSpace(part); beginning && len(text) > 0 {
			k.said.add(text)
			if logged < maxErrors && k.logger.Enabled(ctx, slog.LevelDebug) {
				logged++
				k.logger.DebugContext(ctx, "child wrote to standard error", "line",
					readable(text, k.hide, maxErrorLine))
			}
		}
		if err != nil && !within {
			return // behind the last line, which need not have an end
		}
	}
}

// Send writes a message, and waits until it is the next one to be written. A child that
// reads slowly makes callers wait, who may leave: then their messages are neither kept
// nor written. body is not used by anybody else meanwhile: a line feed is appended to it.
func (k *Child) Send(ctx context.Context, body []byte) error {
	if cause := k.Loss(); cause != nil {
		return unavailable(false, cause)
	}
	select {
	case k.queue <- append(body, '\n'):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-k.life.Done():
		return unavailable(false, k.Loss())
	}
}

// Tell queues a message if there is a place; otherwise it is dropped and counted.
func (k *Child) Tell(_ context.Context, body []byte) {
	select {
	case k.background <- append(body, '\n'):
	default:
		k.up.Count(Flooded, 1)
	}
}

// Close ends the child. It closes the child's input and, if polite, gives it time to end;
// then it asks the process group to end, and finally kills it. It returns when the
// process is reaped and its output read. ctx does not shorten that, because each step has
// a limit of its own.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#shutdown
func (k *Child) Close(_ context.Context, polite bool) {
	_ = k.stdin.Close() // also ends a write that hangs; the usual way to tell a child to end
	if !polite || !k.ended(eofGrace) {
		k.tree.Terminate()
		if !k.ended(termGrace) {
			k.tree.Kill()
		}
	}
	<-k.exited
	k.lost(ErrGone)
	k.work.Wait()
	_ = k.stdout.Close()
	_ = k.stderr.Close()
}

// ended waits for the process to end, no longer than within. It returns whether it did.
func (k *Child) ended(within time.Duration) bool {
	select {
	case <-k.exited:
		return true
	case <-time.After(within):
		return false
	}
}
