package redistest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// MasterName is what the sentinel of StartWatched calls its master.
const MasterName = "shared"

// Watched is a master with one replica, and a sentinel that makes the replica master if the master is gone.
type Watched struct {
	Master, Replica, Sentinel *Server
}

// StartWatched starts them, with further arguments for master and replica, and returns when the replica has a copy.
func StartWatched(t testing.TB, args ...string) *Watched {
	t.Helper()
	w := &Watched{Master: startOpen(t, args...)}
	host, port := split(t, w.Master.Address)
	w.Replica = startOpen(t, append([]string{"--replicaof", host, port, "--repl-diskless-sync-delay", "0"}, args...)...)
	Wait(t, func() error {
		if info := w.Replica.Exec(t, "INFO", "replication"); !strings.Contains(info, "master_link_status:up") {
			return errors.New("the replica has no copy")
		}
		return nil
	})
	w.Sentinel = newServer(t, "--sentinel")
	_, own := split(t, w.Sentinel.Address)
	w.Sentinel.config = filepath.Join(w.Sentinel.Dir, "sentinel.conf")
	text := fmt.Sprintf("bind %s\nport %s\ndir %s\nlogfile log\n", host, own, w.Sentinel.Dir) +
		fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s 1\nsentinel down-after-milliseconds %[1]s 1000\nsentinel failover-timeout %[1]s 5000\n", MasterName, host, port)
	if err := os.WriteFile(w.Sentinel.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Sentinel.Begin(t)
	Wait(t, func() error {
		if found := w.Sentinel.Exec(t, "SENTINEL", "REPLICAS", MasterName); !strings.Contains(found, "ip") {
			return errors.New("the sentinel does not know the replica")
		}
		return nil
	})
	return w
}

// Config is for a Store of the master, whichever that is.
func (w *Watched) Config() redis.Config {
	return redis.Config{Addresses: []string{w.Sentinel.Address}, Master: MasterName, Patience: Patience}
}

// StartCluster starts a cluster of three masters, with further arguments for each, and returns when they have divided the
// slots.
func StartCluster(t testing.TB, args ...string) *Server {
	t.Helper()
	c := &Server{}
	var busses []string
	for range 3 {
		_, bus := split(t, FreeAddress(t))
		busses = append(busses, bus)
		c.Nodes = append(c.Nodes, StartOne(t, append([]string{"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "2000"}, args...)...))
	}
	c.Address, c.admin = c.Nodes[0].Address, c.Nodes[0].admin
	for i, slots := range []string{"0 5460", "5461 10922", "10923 16383"} {
		c.Nodes[i].Exec(t, append([]string{"CLUSTER", "ADDSLOTSRANGE"}, strings.Fields(slots)...)...)
		host, port := split(t, c.Nodes[i].Address)
		c.Nodes[0].Exec(t, "CLUSTER", "MEET", host, port, busses[i])
	}
	for _, n := range c.Nodes {
		Wait(t, func() error {
			if info := n.Exec(t, "CLUSTER", "INFO"); !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:3") {
				return errors.New(info)
			}
			return nil
		})
	}
	return c
}
