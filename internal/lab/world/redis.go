package world

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// masterName is what the sentinel calls its master.
const masterName = "shared"

// Redis is what the replicas share: Nodes has one server; master and replica, with a
// sentinel; or three of a cluster. Its methods and those of Store are for one goroutine.
type Redis struct {
	Nodes    []*Store
	Sentinel *Store // nil unless watched

	kind    string
	all     []*Store          // every server; replicas are told of the first
	cluster *redistest.Server // of Nodes, as tests know it; nil: they are none
}

// Store is one redis-server, which keeps nothing on disk and lets everybody do
// everything.
type Store struct {
	Name    string   // such as "redis", "redis-1", "sentinel": for Drop
	Address string   // host:port
	Env     []string // further ones, from the next Begin on

	keeper  *Keeper
	network *network
	dir     string
	args    func(ctx context.Context) []string // of the next start

	*Process // what it kept is lost when it ends; nil: there was none
}

// storeNames are the servers of each kind of Redis, the one first that replicas are told
// of.
func storeNames(kind string) []string {
	names := map[string][]string{
		"one":     {"redis"},
		"watched": {"sentinel", "redis-0", "redis-1"},
		"cluster": {"redis-0", "redis-1", "redis-2"},
	}[kind]
	must.Be(names != nil, "redis is %q, want one, watched or cluster", kind)
	return names
}

// newStore returns a server that does not run yet.
func newStore(name, dir string, k *Keeper, n *network) *Store {
	s := &Store{Name: name, keeper: k, network: n, dir: filepath.Join(dir, name)}
	s.Address = n.address(name)
	must.OK(os.Mkdir(s.dir, 0o700))
	return s
}

// server is what every redis-server is started with.
func (s *Store) server(more ...string) []string {
	host, port := split(s.Address)
	return append([]string{
		"redis-server", "--bind", host, "--port", port, "--protected-mode", "no", "--save", "",
		"--appendonly", "no", "--dir", s.dir,
	}, more...)
}

// Begin starts the server again after Kill, at the same address and without data, and
// waits until it answers. Where another one has become the master, it becomes a replica
// of that.
func (s *Store) Begin(ctx context.Context) {
	must.Be(!s.Runs(), "%s runs already", s.Name)
	s.Process = s.keeper.Start(Order{
		Dir:     s.dir,
		Command: s.network.command(s.Name, s.args(ctx)...),
		Env:     s.Env,
	})
	Until(ctx, func() {
		must.Be(s.Runs(), "%s has ended: %s", s.Name, s.Words())
		s.answers(ctx)
	})
}

// answers panics unless the server answers soon.
func (s *Store) answers(ctx context.Context) {
	For(ctx, operatorTime, func(ctx context.Context) { s.Exec(ctx, "PING") })
}

// Exec runs a command at the server past all proxies, with all rights, and returns the
// answer as redis-cli writes it.
func (s *Store) Exec(ctx context.Context, command ...string) string {
	host, port := split(s.Address)
	args := append([]string{"-e", "-h", host, "-p", port}, command...)
	output, err := exec.CommandContext(ctx, "redis-cli", args...).CombinedOutput() //nolint:gosec // a fault says which
	must.Be(err == nil, "%s: %v: %w: %s", s.Name, command, err, output)
	return strings.TrimSpace(string(output))
}

// leads tells whether the server is a master now. One that is frozen does not say so.
func (s *Store) leads(ctx context.Context) bool {
	ctx, stop := context.WithTimeout(ctx, operatorTime)
	defer stop()
	role, err := must.Got(func() string { return s.Exec(ctx, "ROLE") })
	return err == nil && strings.HasPrefix(role, "master")
}

// Master returns the node that is the master now, the first if there are several.
func (r *Redis) Master(ctx context.Context) *Store {
	for _, s := range r.Nodes {
		if s.Runs() && s.leads(ctx) {
			return s
		}
	}
	panic(errors.New("no server of Redis is the master"))
}

// Move moves the slot of a key, with what is there, to another node of a cluster.
func (r *Redis) Move(ctx context.Context, key string) { r.cluster.Move(must.TB{Life: ctx}, key) }

// door is the server that replicas are told of.
func (r *Redis) door() *Store { return r.all[0] }

// url is what the config of a gateway says that reaches the door at an address.
func (r *Redis) url(address string) string {
	return map[string]string{
		"one": "redis://" + address, "watched": "redis+sentinel://" + address + "/" + masterName,
		"cluster": "redis+cluster://" + address,
	}[r.kind]
}

// split returns the host and the port of an address of ours.
func split(address string) (host, port string) {
	host, port, _ = net.SplitHostPort(address) // we made it
	return host, port
}
