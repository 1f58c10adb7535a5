package world

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// Keeper starts children, which live no longer than this process, however that ends. The
// zero value has none.
type Keeper struct {
	mu       sync.Mutex // guards the fields below
	children []*Process // all that were started
	closed   bool
}

// Close ends all children, and starts no others.
func (k *Keeper) Close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	for _, c := range k.children { // nobody adds one any more
		c.Kill()
	}
}

// Order says what to start.
type Order struct {
	Dir     string    // where it runs, and where what it prints is added to the file Log; it must exist
	Log     string    // "": log
	Command []string  // the program and its arguments
	Env     []string  // beside that of this process
	Bare    bool      // nothing of this process's environment is handed on
	Talks   bool      // Process.In and Process.Out are its standard input and output; its log has its errors
	Output  io.Writer // gets what it prints instead of the log; nil: nothing does
	space   bool      // in a new network namespace
	ended   func()    // called when it has ended, before anybody is told; nil: nothing
}

// Process is one that was started, with its process group.
type Process struct {
	In  io.WriteCloser // these two are nil unless it talks
	Out *bufio.Reader  // read it to its end before Kill
	Log string         // the file with what it prints

	command *exec.Cmd
	life    context.Context //nolint:containedctx // it ends with the process
}

// Start starts a child.
func (k *Keeper) Start(o Order) *Process {
	path := filepath.Join(o.Dir, cmp.Or(o.Log, logFile))
	log := must.Have(os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)) //nolint:gosec // G304: our own
	defer log.Close()                                                               //nolint:errcheck // the child has its own
	command := exec.Command(o.Command[0], o.Command[1:]...)                         //nolint:gosec,noctx // our own programs, which outlive the call; kill ends them
	life, end := context.WithCancel(context.Background())
	c := &Process{command: command, Log: path, life: life}
	command.Dir, command.Stdout, command.Stderr, command.Env = o.Dir, log, log, o.Env
	if o.Output != nil {
		command.Stdout, command.Stderr = o.Output, o.Output
	}
	if !o.Bare {
		command.Env = append(os.Environ(), o.Env...)
	}
	command.SysProcAttr = attributes(o.space)
	if o.Talks {
		// A pipe of our own: that of exec is closed as soon as the process has ended,
		// though nobody has read it.
		reader, writer, err := os.Pipe()
		must.OK(err)
		defer writer.Close() //nolint:errcheck // as above
		command.Stdout, c.Out = writer, bufio.NewReader(reader)
		c.In = must.Have(command.StdinPipe())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	must.Be(!k.closed, "the world has ended")
	err := redistest.StartBound(command)
	must.Be(err == nil, "start %s: %w", o.Command[0], err)
	k.children = append(k.children, c)
	go func() { // kill waits for it
		_ = command.Wait()                                      // how it ended is asked of the state
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // what it started and left
		if o.ended != nil {
			o.ended()
		}
		end()
	}()
	return c
}

// errNotRunning means that there is no process to do something with.
var errNotRunning = errors.New("it does not run")

// PID returns the process's id.
func (c *Process) PID() int { return c.command.Process.Pid }

// Words returns the end of what the process wrote into its log.
func (c *Process) Words() string {
	const most = 4 << 10 // bytes
	file, err := os.Open(c.Log)
	if err != nil {
		return ""
	}
	defer file.Close() //nolint:errcheck // it was only read
	size := must.Have(file.Seek(0, io.SeekEnd))
	return string(must.Have(io.ReadAll(io.NewSectionReader(file, max(0, size-most), most))))
}

// Reads reads the next line that the process says, as JSON.
func (c *Process) Reads(v any) {
	line, err := c.Out.ReadBytes('\n')
	must.Be(err == nil, "%w: %s", err, c.Words())
	must.OK(strictjson.Unmarshal(line, v))
}

// Listens waits until something takes connections at an address. The error has the end of
// the log of a process that did not.
func (c *Process) Listens(ctx context.Context, address string, limit time.Duration) {
	err := Within(ctx, limit, address+" listens", func() bool { return !c.Runs() || listening(ctx, address) })
	must.Be(err == nil, "%w: %s", err, c.Words())
	must.Be(c.Runs(), "%w: %s", errNotRunning, c.Words())
}

func listening(ctx context.Context, address string) bool {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
	if err == nil {
		_ = conn.Close() // it was opened to see whether it can be
	}
	return err == nil
}

// Runs tells whether the child has not ended. A nil child never began.
func (c *Process) Runs() bool { return c != nil && c.life.Err() == nil }

// Freeze stops the processor time of the process: connections stay open and nothing is
// answered.
func (c *Process) Freeze() { must.OK(c.Signal(syscall.SIGSTOP)) }

// Thaw ends Freeze.
func (c *Process) Thaw() { must.OK(c.Signal(syscall.SIGCONT)) }

// Signal sends a signal to the child alone.
func (c *Process) Signal(number syscall.Signal) error {
	if !c.Runs() {
		return errNotRunning
	}
	return c.command.Process.Signal(number)
}

// quit has the child write what all its goroutines do into its log, and ends it.
func (c *Process) quit() {
	_ = c.Signal(syscall.SIGQUIT) // it may have ended
	c.ends(operatorTime)
}

// ends waits until the child has ended, and kills one that takes longer than the limit.
func (c *Process) ends(limit time.Duration) {
	select {
	case <-c.life.Done():
	case <-time.After(limit):
		c.Kill()
	}
}

// Kill ends the child and its group at once, and waits for it.
func (c *Process) Kill() {
	if c.Runs() {
		_ = syscall.Kill(-c.command.Process.Pid, syscall.SIGKILL) // it may just have ended
		<-c.life.Done()
	}
}

// Finish closes the standard input of a process that talks, which ends it, and waits for
// that. It kills one that takes longer than the limit.
func (c *Process) Finish(limit time.Duration) {
	_ = c.In.Close() // it may be gone
	c.ends(limit)
}

// KillTree is Kill for all that has come of the process, also what left its group.
func (c *Process) KillTree() {
	births := make(map[int]string)
	for _, pid := range Tree(c.PID())[1:] {
		births[pid] = Birth(pid)
	}
	c.Kill()
	for pid, born := range births {
		if born != "" && Birth(pid) == born {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended just now
		}
	}
}
