package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// resourceFaults returns what happens when the machine has too little of something.
func resourceFaults() []*fault {
	const few, many, limit, bodies = 160, 400, 160 << 20, 120
	const fill = "a file system of 6 MiB for the record of calls, which another file fills, while 16 " +
		"clients make thousands of calls"
	refusesRecord := of(victim, recordsFull, refuses("DB-AUDIT-FULL"))
	return []*fault{
		{
			name:   "descriptors run out",
			done:   fmt.Sprintf("`prlimit --nofile=%d`, and %d connections that send nothing", few, many),
			ground: direct,
			holds: "the operator's page, Redis and servers keep theirs, the others serve, and the " +
				"replica serves when the connections are gone",
			before: wrapped("prlimit", fmt.Sprintf("--nofile=%d", few)), make: connects(many),
			seen: all(of(victim, judged("it is ready and uses Redis",
				func(v view) bool { return v.Ready && v.Redis == "up" }), turnsAway), othersServe),
		},
		{
			name: "the disk of the record is full", done: fill, ground: direct, root: true,
			holds: "calls are refused as not made (`DB-AUDIT-FULL`), the replica is not ready and " +
				"says why, and goes on without a restart when there is room",
			unrecorded: true,
			before:     onSmallDisk, make: fillsDisk, seen: all(refusesRecord, othersServe),
		},
		{
			name: "the disk of a record with `when_full: drop` is full", done: fill, ground: direct, root: true,
			holds: "calls go on, the replica is ready and warns, a metric counts records that memory " +
				"does not hold, and records are written again when there is room; those that were " +
				"counted are not on record",
			before: dropping, make: fillsDisk,
			// Which calls the lost records were of, nobody knows: that is what the
			// setting means.
			spares: func(v *ledger.Verdict) int { return v.Unaudited },
			seen: all(of(victim, warns("audit records cannot be written; calls go on"),
				measures(1, math.Inf(1), "drawbridge_audit_records_dropped_total")), goOn),
			after: of(victim, measures(1, 1, "drawbridge_audit_writable")),
		},
		{
			// as a quota does
			name: "the record may not grow",
			done: "RLIMIT_FSIZE of the process is set to less than the record has, and lifted", ground: direct,
			root:  true,
			holds: "calls are refused as not made (`DB-AUDIT-FULL`), the replica is not ready and says why, and goes on without a restart", unrecorded: true,
			make: of(victim, filesUpTo("1")), seen: all(refusesRecord, othersServe),
			heal: of(victim, filesUpTo("unlimited")),
		},
		{
			name:   "a replica starts with a read-only disk for its record",
			done:   "it is stopped, the file system of its record remounted read-only, and it is started",
			ground: direct, root: true, unrecorded: true,
			holds:  "it refuses to start, since it could record nothing, and the others serve",
			before: onSmallDisk,
			make:   all(of(victim, stopped), remounted(syscall.MS_RDONLY), of(victim, launch)),
			seen:   all(of(victim, runs(false)), othersServe),
			heal:   all(remounted(0), of(victim, kill, start)),
		},
		{
			name: "the record of calls goes to a blocked pipe",
			done: "the record is a FIFO, whose reader stops reading and goes on later", ground: direct,
			holds: "calls are refused as not made or wait, the others serve, and the replica goes on " +
				"without a restart when the reader does",
			before: toPipe, unrecorded: true,
			make: readerGets(syscall.SIGSTOP),
			seen: all(of(victim, recordsFull), othersServe), heal: readerGets(syscall.SIGCONT),
		},
		{
			name: "memory runs short",
			done: fmt.Sprintf("a control group of %d MiB, and %d bodies of 3 MiB at once, again and again",
				limit>>20, bodies), ground: direct, root: true,
			holds: "what does not fit is refused, and the kernel does not end the process",
			before: func(ctx context.Context, s *scene) {
				cage := world.NewCage(limit)
				s.later(func(ctx context.Context, _ *scene) {
					must.OK(cage.Close(ctx))
				})
				wrapped(cage.Command()...)(ctx, s)
			},
			make: floods(bodies), seen: all(of(victim, runs(true)), othersServe),
			heal: of(victim, runs(true)), after: of(victim, runs(true)),
		},
	}
}

// recordsFull asks whether a replica is not ready since records cannot be written.
var recordsFull = judged("records cannot be written",
	func(v view) bool { return !v.Ready && len(v.Problems) > 0 })

// wrapped starts the victim through a program until the round is over.
func wrapped(wrapper ...string) step {
	through := func(wrapper ...string) step {
		return restarts(func(_ context.Context, r *world.Replica) { r.Wrapper = wrapper })
	}
	return forRound(through(wrapper...), through())
}

// connects opens connections to the victim until the fault heals, fewer if there is no
// room for more.
func connects(many int) step {
	return func(ctx context.Context, s *scene) {
		for opened, room := 0, true; room && opened < many; opened++ {
			c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", s.victim.Address)
			if room = err == nil; room { // else even its queue is full
				s.heals(does(func() { _ = c.Close() })) // whichever side was first
			}
		}
	}
}

// turnsAway asks whether a replica has closed or refused connections for want of room.
func turnsAway(ctx context.Context, _ *scene, r *world.Replica) {
	closed := r.Metric(ctx, "drawbridge_connections_closed_total")
	refused := r.Metric(ctx, "drawbridge_connections_refused_total")
	is(r.Name+" turns connections away", closed+refused > 0, closed+refused)
}

// nextRecord is a new file for the record of the victim.
func nextRecord(dir, kind string) string {
	return filepath.Join(dir, fmt.Sprintf("audit-%d.%s", time.Now().UnixNano(), kind))
}

// recordsTo starts the victim with its record in a file, the last of those that are
// given, until the round is over. Then it is a new one on the disk of its other files,
// and what is given to afterwards is done.
func (s *scene) recordsTo(ctx context.Context, afterwards func(), files ...string) {
	to := func(files ...string) step {
		return restarts(func(_ context.Context, r *world.Replica) {
			for _, file := range files {
				r.AuditTo(file)
			}
		})
	}
	s.later(does(afterwards))
	forRound(to(files...), to(nextRecord(s.victim.Dir, "jsonl")))(ctx, s)
}

func (s *scene) smallDisk() string { return filepath.Join(s.dir, "small-disk") }

// onSmallDisk starts the victim with its record on a file system of 6 MiB.
func onSmallDisk(ctx context.Context, s *scene) {
	disk := s.smallDisk()
	must.OK(os.MkdirAll(disk, 0o700))
	must.OK(syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=6m"))
	s.recordsTo(ctx, func() { keepRecords(disk) }, nextRecord(disk, "jsonl"))
}

// dropping starts the victim with its record on a small disk, and so that it drops what
// it cannot write.
func dropping(ctx context.Context, s *scene) {
	change := func(old, now string) step {
		return restarts(func(ctx context.Context, r *world.Replica) {
			r.Rewrite(ctx, instead(old+"}\nlog: ", now+"}\nlog: "))
		})
	}
	forRound(all(onSmallDisk, change("", ", when_full: drop")), change(", when_full: drop", ""))(ctx, s)
}

// keepRecords unmounts a file system, and puts its records where they were, on the disk
// below.
func keepRecords(disk string) {
	records := map[string][]byte{}
	must.OK(filepath.WalkDir(disk, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.Contains(entry.Name(), ".jsonl") {
			records[path], err = os.ReadFile(path) //nolint:gosec // of our own world
		}
		return err
	}))
	must.OK(syscall.Unmount(disk, 0))
	for path, text := range records {
		must.OK(os.WriteFile(path, text, 0o600))
	}
}

// fillsDisk fills the small disk until the fault heals, and has clients make calls: the
// gateway has set room aside, which is used up first.
func fillsDisk(ctx context.Context, s *scene) {
	filler := must.Have(os.Create(filepath.Join(s.smallDisk(), "filler")))
	s.heals(func(context.Context, *scene) {
		must.OK(os.Remove(filler.Name()))
	})
	var err error
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	_ = filler.Close() // it is full of nothing
	must.Be(errors.Is(err, syscall.ENOSPC), "%w", err)
	s.besiege(ctx, s.victim.Address, 16, 1<<20, strings.Repeat(s.callRequest(), 2000))
}

// filesUpTo forbids the files of a replica to grow beyond a size.
func filesUpTo(size string) about {
	return func(ctx context.Context, _ *scene, r *world.Replica) {
		world.Run(ctx, "", "prlimit", "--pid", fmt.Sprint(r.PID()), "--fsize="+size+":unlimited")
	}
}

// remounted mounts the small disk once more, with further flags.
func remounted(flags uintptr) step {
	return func(_ context.Context, s *scene) {
		must.OK(syscall.Mount("", s.smallDisk(), "", syscall.MS_REMOUNT|syscall.MS_BIND|flags, ""))
	}
}

// toPipe has the record of the victim go to a pipe. What comes out of it is kept in a
// file that is among its records, too.
func toPipe(ctx context.Context, s *scene) {
	pipe := nextRecord(s.dir, "pipe")
	must.OK(syscall.Mkfifo(pipe, 0o600))
	file := must.Have(os.Create(pipe + ".jsonl")) //nolint:gosec // of our own world
	// it is also a writer, so that the reader does not end with a gateway
	s.reader = s.Start(world.Order{
		Dir: s.dir, Command: []string{"/bin/sh", "-c", `exec cat <>"$0"`, pipe},
		Output: file,
	})
	s.recordsTo(ctx, func() {
		// nobody writes any more, and what was written is read long before
		world.Pause(context.WithoutCancel(ctx), time.Second)
		s.reader.Kill()
		must.OK(file.Close())
	}, file.Name(), pipe)
}

// readerGets sends a signal to who reads the pipe.
func readerGets(number syscall.Signal) step {
	return func(_ context.Context, s *scene) { must.OK(s.reader.Signal(number)) }
}

// floods has clients send large bodies to the victim until the fault heals, of which some
// must be refused.
func floods(bodies int) step {
	return func(ctx context.Context, s *scene) {
		ctx, stop := context.WithCancel(ctx)
		var sending sync.WaitGroup
		var refused, others atomic.Int64
		request := s.toolCall(s.victim, s.token(crowd.TenantA, prober), crowd.Modern+"__touch",
			strings.Repeat("x", 3<<20), crowd.TenantA).Bytes()
		for range bodies {
			sending.Go(func() {
				for ctx.Err() == nil {
					said, err := must.Got(func() reply { return ask(ctx, s.victim.Address, request) })
					switch {
					case err != nil:
					case said.status == http.StatusServiceUnavailable || said.status == http.StatusTooManyRequests:
						refused.Add(1)
					default:
						others.Add(1)
					}
				}
			})
		}
		s.heals(does(func() {
			stop()
			sending.Wait()
		}))
		s.seeing(func(context.Context, *scene) {
			is("large bodies are refused with 503 or 429", refused.Load() > 0, others.Load())
		})
	}
}
