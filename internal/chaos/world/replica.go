package world

import (
	"context"

	"github.com/drawbridge-mcp/drawbridge/internal/netfault"
)

// Replica is a gateway: one address and config, at which a process runs most of the time. Its methods are for one
// goroutine.
type Replica struct {
	Name     string                     // such as "replica-0"
	Address  string                     // host:port where the gateway itself listens for clients, past Balancer
	Operator string                     // host:port of /readyz and /metrics
	Balancer *netfault.Proxy            // from the load balancer; nil in a Direct world
	Redis    *netfault.Proxy            // to the address of redis.url: the server, the sentinel, or a node of the cluster
	Upstream map[string]*netfault.Proxy // to each server, by its name

	Env     []string // further ones such as "GOMEMLIMIT=100MiB", from the next Start on
	Wrapper []string // a program with arguments that becomes the gateway, such as prlimit --nofile=256, from the next Start on
}

// Start starts the process, and returns when it answers /readyz with 200, or with an error that has the end of its log.
func (r *Replica) Start(ctx context.Context) error { return nil }

// Launch is Start without the wait, for a gateway that cannot get ready.
func (r *Replica) Launch(ctx context.Context) error { return nil }

// Stop asks the process to end with SIGTERM, waits for that, and returns the exit code. It is killed when ctx ends.
func (r *Replica) Stop(ctx context.Context) (exit int, err error) { return 0, nil }

// Kill ends the process at once and waits for it.
func (r *Replica) Kill() {}

// Exited returns a channel that is closed when the process that was started last has ended.
func (r *Replica) Exited() <-chan struct{} { return nil }

// Freeze stops the processor time of the process: connections stay open and nothing is answered.
func (r *Replica) Freeze() error { return nil }

// Thaw ends Freeze.
func (r *Replica) Thaw() error { return nil }

// Rewrite changes the text of the config and waits until a running gateway has taken or refused it. A refusal is the
// error ErrRefused.
func (r *Replica) Rewrite(ctx context.Context, change func(config string) string) error { return nil }

// Program names the program of the next Start.
func (r *Replica) Program(path string) {}

// AuditTo names another audit file, from the next Start on. World.Audit reads those before too, if they are files.
func (r *Replica) AuditTo(path string) error { return nil }

// Metric returns the sum of all series of a metric whose labels contain those given, such as
// Metric("drawbridge_redis_state", `state="up"`). A metric without such series is 0.
func (r *Replica) Metric(ctx context.Context, name string, labels ...string) (float64, error) {
	return 0, nil
}

// Log returns what the gateway has written to standard error, of all its processes.
func (r *Replica) Log() string { return "" }

// Usage is what a process holds.
type Usage struct {
	Descriptors int
	Goroutines  int
	Resident    int64 // bytes, without the pages of the program's own file
	Heap        int64 // bytes in use
}

// Usage returns what the process holds now.
func (r *Replica) Usage(ctx context.Context) (Usage, error) { return Usage{}, nil }
