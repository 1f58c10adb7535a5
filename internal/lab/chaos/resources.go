package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// resourceFaults returns what happens when the machine has too little of something.
func resourceFaults() []*fault {
	return []*fault{
		descriptorsOut(), diskFull(), recordDropped(), recordBounded(), recordReadOnly(),
		recordBlocked(), memoryTight(),
	}
}

// restarted stops a replica, lets change what the next process has, and starts it.
func (s *scene) restarted(ctx context.Context, r *world.Replica, change func() error) error {
	if err := s.stopClean(ctx, r); err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	return r.Start(ctx)
}

// wrapped starts the victim through a program until the round is over, and calls then
// what is given, if anything is.
func (s *scene) wrapped(ctx context.Context, then func(context.Context) error, wrapper ...string) error {
	through := func(ctx context.Context, wrapper []string) error {
		return s.restarted(ctx, s.victim, func() error { s.victim.Wrapper = wrapper; return nil })
	}
	if then != nil {
		s.later(then)
	}
	s.later(func(ctx context.Context) error { return through(ctx, nil) })
	return through(ctx, wrapper)
}

// descriptorsOut leaves a replica few descriptors and takes those for clients.
func descriptorsOut() *fault {
	const few, many = 160, 400
	return &fault{
		name:   "descriptors run out",
		done:   fmt.Sprintf("`prlimit --nofile=%d`, and %d connections that send nothing", few, many),
		ground: direct,
		holds:  "the operator's page, Redis and servers keep theirs, the others serve, and the replica serves when the connections are gone",
		before: func(ctx context.Context, s *scene) error {
			return s.wrapped(ctx, nil, "prlimit", fmt.Sprintf("--nofile=%d", few))
		},
		make: func(ctx context.Context, s *scene) (effect, error) {
			idle := connect(ctx, s.victim.Address, many)
			up := s.judged(s.victim, "it is ready and uses Redis",
				func(v view) bool { return v.Ready && v.Redis == "up" })
			return effect{seen: all(up, s.othersServe()), heal: func(context.Context) error {
				for _, c := range idle {
					_ = c.Close() // whichever side was first
				}
				return nil
			}}, nil
		},
	}
}

// connect opens connections, fewer if there is no room for more.
func connect(ctx context.Context, address string, many int) (open []net.Conn) {
	for range many {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
		if err != nil {
			return open // even its queue is full
		}
		open = append(open, c)
	}
	return open
}

// diskFull gives the record of a replica a disk of its own, which something else fills.
func diskFull() *fault {
	return &fault{
		name: "the disk of the record is full",
		done: "a file system of 6 MiB for the record of calls, which another file fills, while 16 clients make thousands of calls", ground: direct, root: true,
		holds: "calls are refused as not made (`DB-AUDIT-FULL`), the replica is not ready and says why, and goes on without a restart when there is room", unrecorded: true,
		before: onSmallDisk,
		make: func(ctx context.Context, s *scene) (effect, error) {
			filler := filepath.Join(s.smallDisk(), "filler")
			if err := fill(filler); err != nil {
				return effect{}, err
			}
			// The gateway has set room aside, which is used up first.
			end, err := s.besiege(ctx, s.victim.Address, 16, strings.Repeat(s.callRequest(), 2000), 1<<20)
			full := s.judged(s.victim, "records cannot be written",
				func(v view) bool { return !v.Ready && len(v.Problems) > 0 })
			return effect{
				seen: all(full, s.refuses(s.victim, s.server, "DB-AUDIT-FULL"), s.othersServe()),
				heal: func(ctx context.Context) error { return errors.Join(end(ctx), os.Remove(filler)) },
			}, err
		},
	}
}

// nextRecord is a new file for the record of the victim, on the disk of its other files.
func (s *scene) nextRecord() string {
	return filepath.Join(s.victim.Dir, fmt.Sprintf("audit-%d.jsonl", time.Now().UnixNano()))
}

func (s *scene) smallDisk() string { return filepath.Join(s.dir, "small-disk") }

// onSmallDisk starts the victim with its record on a file system of 6 MiB.
func onSmallDisk(ctx context.Context, s *scene) error {
	disk := s.smallDisk()
	if err := os.MkdirAll(disk, 0o700); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=6m"); err != nil {
		return err
	}
	record := filepath.Join(disk, fmt.Sprintf("audit-%d.jsonl", time.Now().UnixNano()))
	s.later(func(ctx context.Context) error {
		err := s.restarted(ctx, s.victim, func() error { return s.victim.AuditTo(s.nextRecord()) })
		return errors.Join(err, keepRecords(disk))
	})
	return s.restarted(ctx, s.victim, func() error { return s.victim.AuditTo(record) })
}

// keepRecords unmounts a file system, and puts its records where they were, on the disk
// below.
func keepRecords(disk string) error {
	records := map[string][]byte{}
	err := filepath.WalkDir(disk, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.Contains(entry.Name(), ".jsonl") {
			return err
		}
		records[path], err = os.ReadFile(path) //nolint:gosec // of our own world
		return err
	})
	if err = errors.Join(err, syscall.Unmount(disk, 0)); err != nil {
		return err
	}
	for path, text := range records {
		err = errors.Join(err, os.WriteFile(path, text, 0o600))
	}
	return err
}

// fill writes a file until there is no room.
func fill(path string) error {
	f, err := os.Create(path) //nolint:gosec // of our own world
	if err != nil {
		return err
	}
	block := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(block)
	}
	_ = f.Close() // it is full of nothing
	if errors.Is(err, syscall.ENOSPC) {
		return nil
	}
	return err
}

// recordBounded forbids the record of a replica to grow, as a quota does.
func recordBounded() *fault {
	return &fault{
		name: "the record may not grow",
		done: "RLIMIT_FSIZE of the process is set to less than the record has, and lifted", ground: direct,
		root:  true,
		holds: "calls are refused as not made (`DB-AUDIT-FULL`), the replica is not ready and says why, and goes on without a restart", unrecorded: true,
		make: func(ctx context.Context, s *scene) (effect, error) {
			pid := fmt.Sprint(s.victim.PID())
			bound := func(ctx context.Context, size string) error {
				_, err := run1(ctx, "prlimit", "--pid", pid, "--fsize="+size+":unlimited")
				return err
			}
			full := s.judged(s.victim, "records cannot be written",
				func(v view) bool { return !v.Ready && len(v.Problems) > 0 })
			return effect{
				seen: all(full, s.refuses(s.victim, s.server, "DB-AUDIT-FULL"), s.othersServe()),
				heal: func(ctx context.Context) error { return bound(ctx, "unlimited") },
			}, bound(ctx, "1")
		},
	}
}

// recordReadOnly starts a replica whose record lies on a file system that is read-only.
func recordReadOnly() *fault {
	return &fault{
		name:   "a replica starts with a read-only disk for its record",
		done:   "it is stopped, the file system of its record remounted read-only, and it is started",
		ground: direct, root: true,
		holds: "it refuses to start, since it could record nothing, and the others serve", unrecorded: true,
		before: onSmallDisk,
		make: func(ctx context.Context, s *scene) (effect, error) {
			if err := s.stopClean(ctx, s.victim); err != nil {
				return effect{}, err
			}
			disk := s.smallDisk()
			if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY,
				""); err != nil {
				return effect{}, err
			}
			// that it does not start is seen
			err := s.victim.Launch(ctx)
			return effect{
				seen: all(runs(s.victim, false), s.othersServe()),
				heal: func(ctx context.Context) error {
					if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_BIND,
						""); err != nil {
						return err
					}
					s.victim.Kill()
					return s.victim.Start(ctx)
				},
			}, err
		},
	}
}

// recordBlocked gives the record of a replica to a pipe whose reader stops reading.
func recordBlocked() *fault {
	return &fault{
		name: "the record of calls goes to a blocked pipe",
		done: "the record is a FIFO, whose reader stops reading and goes on later", ground: direct,
		holds: "calls are refused as not made or wait, the others serve, and the replica goes on without a restart when the reader does", unrecorded: true,
		before: func(ctx context.Context, s *scene) error {
			pipe := filepath.Join(s.dir, fmt.Sprintf("audit-%d.pipe", time.Now().UnixNano()))
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				return err
			}
			reader, err := newPipeReader(pipe)
			if err != nil {
				return err
			}
			s.pipe = reader
			s.later(func(ctx context.Context) error {
				err := s.restarted(ctx, s.victim, func() error { return s.victim.AuditTo(s.nextRecord()) })
				return errors.Join(err, reader.close())
			})
			return s.restarted(ctx, s.victim, func() error {
				if err := s.victim.AuditTo(reader.kept); err != nil { // so that these records are found, too
					return err
				}
				return s.victim.AuditTo(pipe)
			})
		},
		make: func(_ context.Context, s *scene) (effect, error) {
			s.pipe.stop(true)
			full := s.judged(s.victim, "records cannot be written",
				func(v view) bool { return !v.Ready && len(v.Problems) > 0 })
			return effect{seen: all(full, s.othersServe()), heal: does(func() {
				s.pipe.stop(false)
			})}, nil
		},
	}
}

// pipeReader copies what comes out of a pipe to a file, unless it is stopped.
type pipeReader struct {
	kept string // the file

	pipe, file *os.File
	copying    sync.WaitGroup
	wrong      error // of the copying

	mu      sync.Mutex // guards the fields below
	changed *sync.Cond // with mu
	stopped bool
}

func newPipeReader(path string) (*pipeReader, error) {
	pipe, err := os.OpenFile(path, os.O_RDWR, 0) //nolint:gosec // of our own world; it is also a writer, so that the reader does not end with a gateway
	if err != nil {
		return nil, err
	}
	r := &pipeReader{kept: path + ".jsonl", pipe: pipe}
	r.changed = sync.NewCond(&r.mu)
	if r.file, err = os.Create(r.kept); err != nil {
		return nil, errors.Join(err, pipe.Close())
	}
	r.copying.Go(r.copy)
	return r, nil
}

func (r *pipeReader) copy() {
	buffer := make([]byte, 4096)
	for {
		r.mu.Lock()
		for r.stopped {
			r.changed.Wait()
		}
		r.mu.Unlock()
		n, err := r.pipe.Read(buffer)
		if n > 0 {
			_, wrong := r.file.Write(buffer[:n])
			r.wrong = errors.Join(r.wrong, wrong)
		}
		if err != nil {
			return // it was closed
		}
	}
}

// stop stops the reading, or lets it go on. At most one piece is read after it was
// stopped.
func (r *pipeReader) stop(stopped bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = stopped
	r.changed.Broadcast()
}

// close reads what is left and ends the reading. Nobody writes any more.
func (r *pipeReader) close() error {
	r.stop(false)
	wrong := r.pipe.SetReadDeadline(time.Now().Add(time.Second)) // what was written is read long before
	r.copying.Wait()
	return errors.Join(wrong, r.wrong, r.pipe.Close(), r.file.Close())
}

// memoryTight bounds the memory of a replica, and lets clients send more than that at
// once.
func memoryTight() *fault {
	const limit, bodies = 160 << 20, 120
	return &fault{
		name: "memory runs short",
		done: fmt.Sprintf("a control group of %d MiB, and %d bodies of 3 MiB at once, again and again",
			limit>>20, bodies), ground: direct, root: true,
		holds: "what does not fit is refused, and the kernel does not end the process",
		before: func(ctx context.Context, s *scene) error {
			cage, err := world.NewCage(limit)
			if err != nil {
				return err
			}
			return s.wrapped(ctx, cage.Close, cage.Command()...)
		},
		make: func(ctx context.Context, s *scene) (effect, error) {
			ctx, stop := context.WithCancel(ctx)
			var sending sync.WaitGroup
			var mu sync.Mutex
			codes := map[int]int{}
			body, token := largeCall(3<<20), s.token(crowd.TenantA, prober)
			for range bodies {
				sending.Go(func() {
					for ctx.Err() == nil {
						said, err := s.post(ctx, at(s.victim), token, body, "MCP-Protocol-Version",
							mcp.LatestModern, "Mcp-Method", "tools/call", "Mcp-Name", crowd.Modern+"__touch")
						if err != nil {
							continue
						}
						mu.Lock()
						codes[said.status]++
						mu.Unlock()
					}
				})
			}
			refused := func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				return is("large bodies are refused with 503 or 429", codes[http.StatusServiceUnavailable]+
					codes[http.StatusTooManyRequests] > 0, codes, nil)
			}
			lives := runs(s.victim, true)
			return effect{seen: all(refused, lives, s.othersServe()), heal: func(context.Context) error {
				stop()
				sending.Wait()
				return lives(ctx)
			}, after: lives}, nil
		},
	}
}

// largeCall is a call with an argument of a size.
func largeCall(size int) string {
	return fmt.Sprintf(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s__touch","arguments":{"nonce":%q,"tenant":%q},`+
			`"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		crowd.Modern, strings.Repeat("x", size), crowd.TenantA, mcp.LatestModern)
}
