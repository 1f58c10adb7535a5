package world

import (
	"context"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/netfault"
)

const (
	partBalancer = "balancer"       // the load balancer as a part
	partCareless = "careless"       // the one that Careless starts
	commandTime  = 20 * time.Second // for one of the system's own commands
)

// Loss says which packets between two parts are dropped.
type Loss int

// Which packets are dropped.
const (
	AllLost   Loss = iota // all, in both directions
	SentLost              // all that the first part sends, where that one is in a namespace
	HeardLost             // all that is sent to it; likewise
	SomeLost              // three of ten, in both directions
)

// Drop drops packets between two parts, from now until Rejoin: "replica-0" …, "redis"
// ("redis-0" … and "sentinel" where there are several), "balancer", or the name of an
// upstream. One of them must be a replica or a server of Redis. It needs Namespaces.
func (w *World) Drop(a, b string, which Loss) {
	if w.replica(a) == nil && w.replica(b) != nil || w.network.spaces[a] == nil {
		a, b = b, a
	}
	must.Be(w.network.spaces[a] != nil, "neither %s nor %s is in a namespace", a, b)
	rules := w.between(a, b)
	must.Be(rules != nil, "%s has nothing to do with %s", a, b)
	ctx, stop := context.WithTimeout(context.Background(), commandTime)
	defer stop()
	for _, rule := range rules {
		switch {
		case which == SentLost && rule[0] != "OUTPUT", which == HeardLost && rule[0] != "INPUT":
			continue
		case which == SomeLost:
			rule = append(rule, "-m", "statistic", "--mode", "random", "--probability", "0.3")
		}
		command := append([]string{"iptables", "-w", "-A"}, append(rule, "-j", "DROP")...)
		Run(ctx, "", w.network.command(a, command...)...)
	}
}

// between returns what the part a, which is in a space and is a replica if one of them
// is, must drop to have nothing from or to b: what goes directly, and what goes through a
// proxy that stands between them.
func (w *World) between(a, b string) (rules [][]string) {
	if to := w.network.spaces[b]; to != nil {
		rules = direct(to.host)
	}
	r := w.replica(a)
	if r == nil {
		return rules
	}
	if proxy := r.Upstream[b]; proxy != nil {
		rules = append(rules, w.through(proxy)...)
	}
	if b == w.Redis.door().Name {
		rules = append(rules, w.through(r.Redis)...)
	}
	if b != partBalancer {
		return rules
	}
	rules = direct(w.network.balancer)
	if r.Balancer != nil {
		_, port, _ := net.SplitHostPort(r.Address) // we made it
		rules = append(rules, []string{"INPUT", "-p", "tcp", "-s", w.network.outside, "--dport", port},
			[]string{"OUTPUT", "-p", "tcp", "-d", w.network.outside, "--sport", port})
	}
	return rules
}

// direct is all from and to a host.
func direct(host string) [][]string { return [][]string{{"INPUT", "-s", host}, {"OUTPUT", "-d", host}} }

// through is all from and to a proxy that a part connects to.
func (w *World) through(proxy *netfault.Proxy) [][]string {
	_, port, _ := net.SplitHostPort(proxy.Address) // we made it
	return [][]string{
		{"OUTPUT", "-p", "tcp", "-d", w.network.outside, "--dport", port},
		{"INPUT", "-p", "tcp", "-s", w.network.outside, "--sport", port},
	}
}

// Dropped returns how many packets from and to a part in a namespace, a replica or a
// server of Redis, were dropped by Drop since the last Rejoin.
func (w *World) Dropped(ctx context.Context, part string) (packets int) {
	table := Run(ctx, "", w.network.command(part, "iptables", "-w", "-n", "-v", "-x", "-L")...)
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[2] == "DROP" {
			packets += must.Have(strconv.Atoi(fields[0]))
		}
	}
	return packets
}

// Rejoin ends all partitions.
func (w *World) Rejoin() {
	For(context.Background(), commandTime, func(ctx context.Context) {
		for part := range w.network.spaces {
			Run(ctx, "", w.network.command(part, "iptables", "-w", "-F")...)
		}
	})
}

// replica returns the replica of that name, or nil.
func (w *World) replica(name string) *Replica {
	for _, r := range w.Replicas {
		if r.Name == name {
			return r
		}
	}
	return nil
}
