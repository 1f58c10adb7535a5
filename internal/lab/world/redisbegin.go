package world

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
)

// startRedis starts the servers of one kind of Redis, and returns when they are joined.
func startRedis(ctx context.Context, kind, dir string, k *Keeper, n *network) *Redis {
	names := storeNames(kind)
	r := &Redis{kind: kind}
	for _, name := range names {
		s := newStore(name, dir, k, n)
		s.args = func(context.Context) []string { return s.server() }
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
	r.Begin(ctx)
	if r.Sentinel != nil {
		r.Sentinel.Begin(ctx)
	}
	must.OK(Until(ctx, func() error { return r.wrong(ctx) }))
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
	if master, err := r.Master(ctx); err == nil {
		return master.Address
	}
	ctx, stop := context.WithTimeout(ctx, operatorTime)
	defer stop()
	found, err := r.Sentinel.Exec(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName)
	if host, port, whole := strings.Cut(found, "\n"); err == nil && whole {
		return net.JoinHostPort(host, port)
	}
	return r.Nodes[0].Address
}

// spread makes each node one of a cluster.
func (r *Redis) spread() {
	for _, s := range r.Nodes {
		bus := s.network.address(s.Name)
		_, s.bus = split(bus)
		s.args = func(context.Context) []string {
			return s.server("--cluster-enabled", "yes", "--cluster-port", s.bus, "--cluster-node-timeout",
				"2000")
		}
	}
}

// join gives the nodes of a new cluster their slots and shows them to each other. A node
// that has begun again knows both from its file. Other kinds of Redis need nothing.
func (r *Redis) join(ctx context.Context) {
	if r.kind != "cluster" {
		return
	}
	const slots = 16384
	for i, s := range r.Nodes {
		if info, err := s.Exec(ctx, "CLUSTER", "INFO"); err != nil ||
			strings.Contains(info, "cluster_known_nodes:3") {
			must.OK(err)
			return
		}
		first, last := i*slots/len(r.Nodes), (i+1)*slots/len(r.Nodes)-1
		must.Have(s.Exec(ctx, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first),
			strconv.Itoa(last)))
	}
	for _, s := range r.Nodes[1:] {
		host, port := split(s.Address)
		must.Have(r.Nodes[0].Exec(ctx, "CLUSTER", "MEET", host, port, s.bus))
	}
}

// wrong returns what is not as it should be with the servers that run.
func (r *Redis) wrong(ctx context.Context) error {
	for _, s := range r.all() {
		if !s.child.Runs() {
			return fmt.Errorf("%s does not run", s.Name)
		}
		if err := s.answers(ctx); err != nil {
			return err
		}
	}
	switch r.kind {
	case "watched":
		return r.wrongCopy(ctx)
	case "cluster":
		for _, s := range r.Nodes {
			info, err := s.Exec(ctx, "CLUSTER", "INFO")
			if err != nil || !strings.Contains(info, "cluster_state:ok") ||
				!strings.Contains(info, "cluster_known_nodes:3") {
				return errors.Join(err, fmt.Errorf("%s: the cluster is not whole: %s", s.Name, info))
			}
		}
	}
	return nil
}

// wrongCopy tells unless there is one master with a copy, and the sentinel knows both.
func (r *Redis) wrongCopy(ctx context.Context) error {
	master, err := r.Master(ctx)
	if err != nil {
		return err
	}
	for _, s := range r.Nodes {
		if s == master {
			continue
		}
		if info, err := s.Exec(ctx, "INFO", "replication"); err != nil ||
			!strings.Contains(info, "master_link_status:up") {
			return errors.Join(err, fmt.Errorf("%s has no copy of %s", s.Name, master.Name))
		}
	}
	found, err := r.Sentinel.Exec(ctx, "SENTINEL", "MASTER", masterName)
	_, port := split(master.Address)
	if err != nil || !slices.Contains(strings.Fields(found), port) || !slices.Contains(strings.Fields(found),
		"master") {
		return errors.Join(err, fmt.Errorf("the sentinel does not see that %s is the master", master.Name))
	}
	copies, err := r.Sentinel.Exec(ctx, "SENTINEL", "REPLICAS", masterName)
	if err != nil || !slices.Contains(strings.Fields(copies), "slave") {
		return errors.Join(err, errors.New("the sentinel knows no copy that is well"))
	}
	return nil
}
