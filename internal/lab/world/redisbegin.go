package world

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// startRedis starts the servers of one kind of Redis, and returns when they are joined.
func startRedis(ctx context.Context, kind, dir string, k *Keeper, n *network) *Redis {
	names := storeNames(kind)
	r := &Redis{kind: kind}
	for _, name := range names {
		s := newStore(name, dir, k, n)
		s.args = func(context.Context) []string { return s.server() }
		r.all = append(r.all, s)
		if name == "sentinel" {
			r.Sentinel = s
		} else {
			r.Nodes = append(r.Nodes, s)
		}
	}
	switch kind {
	case "watched":
		r.watch()
	case "cluster":
		r.spread()
	}
	for _, s := range r.Nodes {
		s.Begin(ctx)
	}
	if r.cluster != nil {
		r.cluster.Join(must.TB{Life: ctx})
	}
	if r.Sentinel != nil {
		r.Sentinel.Begin(ctx)
	}
	Until(ctx, func() { r.isReady(ctx) })
	return r
}

// watch makes each node a copy of the master when it begins, and writes the config of the
// sentinel, which keeps there what it learns.
func (r *Redis) watch() {
	for _, s := range r.Nodes {
		s.args = func(ctx context.Context) []string {
			args := s.server("--repl-diskless-sync-delay", "0")
			if master := r.leader(ctx); master != s.Address {
				host, port := split(master)
				args = append(args, "--replicaof", host, port)
			}
			return args
		}
	}
	own, ownPort := split(r.Sentinel.Address)
	host, port := split(r.Nodes[0].Address)
	config := filepath.Join(r.Sentinel.dir, "sentinel.conf")
	text := fmt.Sprintf(
		"bind %[4]s\nport %[5]s\nprotected-mode no\ndir %[6]s\nsentinel monitor %[1]s %[2]s %[3]s 1\n"+
			"sentinel down-after-milliseconds %[1]s 1000\nsentinel failover-timeout %[1]s 5000\n", masterName,
		host, port, own, ownPort, r.Sentinel.dir)
	r.Sentinel.args = func(context.Context) []string { return []string{"redis-server", config, "--sentinel"} }
	must.OK(os.WriteFile(config, []byte(text), 0o600))
}

// leader returns the address of the master: of a node that is, which the sentinel may not
// have noticed yet, of whom the sentinel has in mind, or at the start of the first.
func (r *Redis) leader(ctx context.Context) string {
	if master, err := must.Got(func() *Store { return r.Master(ctx) }); err == nil {
		return master.Address
	}
	ctx, stop := context.WithTimeout(ctx, operatorTime)
	defer stop()
	found, err := must.Got(func() string {
		return r.Sentinel.Exec(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName)
	})
	if host, port, whole := strings.Cut(found, "\n"); err == nil && whole {
		return net.JoinHostPort(host, port)
	}
	return r.Nodes[0].Address
}

// spread makes each node one of a cluster.
func (r *Redis) spread() {
	r.cluster = &redistest.Server{}
	for _, s := range r.Nodes {
		_, bus := split(s.network.address(s.Name))
		s.args = func(context.Context) []string {
			return s.server("--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout",
				"2000")
		}
		r.cluster.Nodes = append(r.cluster.Nodes, &redistest.Server{Address: s.Address, Bus: bus})
	}
}

// isReady panics unless all servers run and are joined as they should be.
func (r *Redis) isReady(ctx context.Context) {
	for _, s := range r.all {
		must.Be(s.Runs(), "%s does not run", s.Name)
		s.answers(ctx)
	}
	switch r.kind {
	case "watched":
		master := r.Master(ctx)
		for _, s := range r.Nodes {
			if s != master {
				s.says(ctx, []string{"INFO", "replication"}, "master_link_status:up")
			}
		}
		_, port := split(master.Address)
		r.Sentinel.says(ctx, []string{"SENTINEL", "MASTER", masterName}, "\n"+port+"\n", "\nmaster\n")
		r.Sentinel.says(ctx, []string{"SENTINEL", "REPLICAS", masterName}, "\nslave\n")
	case "cluster":
		for _, s := range r.Nodes {
			s.says(ctx, []string{"CLUSTER", "INFO"}, "cluster_state:ok", "cluster_known_nodes:3")
		}
	}
}

// says panics unless the answer to a command has some words.
func (s *Store) says(ctx context.Context, command []string, words ...string) {
	answer := strings.ReplaceAll("\n"+s.Exec(ctx, command...)+"\n", "\r", "")
	for _, word := range words {
		must.Be(strings.Contains(answer, word),
			"%s: %q is not in what it says to %v: %s", s.Name, word, command, answer)
	}
}
