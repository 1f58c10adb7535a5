package redistest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/fatal"
)

// MasterName is what the sentinel of StartWatched calls its master.
const MasterName = "shared"

// Watched is a master with one replica, and a sentinel that makes the replica master if
// the master is gone.
type Watched struct {
	Master, Replica, Sentinel *Server
}

// StartWatched starts them, with further arguments for master and replica, and returns
// when the replica has a copy.
func StartWatched(t testing.TB, args ...string) *Watched {
	t.Helper()
	return watch(t, "", args)
}

// StartSecure is StartWatched with TLS between all of them, that wants certificates of
// everybody. dir gets the files cert.pem and key.pem.
func StartSecure(t testing.TB, dir string, args ...string) *Watched {
	t.Helper()
	Certificates(t, dir)
	return watch(t, dir, args)
}

// secured returns the arguments of a server that has TLS at another port, besides the one
// that tests ask.
func secured(t testing.TB, dir string) (address string, args []string) {
	t.Helper()
	if dir == "" {
		return "", nil
	}
	address = FreeAddress(t)
	_, port := split(t, address)
	certificate := filepath.Join(dir, "cert.pem")
	return address, []string{
		"--tls-port", port, "--tls-replication", "yes", "--tls-cert-file", certificate,
		"--tls-ca-cert-file", certificate, "--tls-key-file", filepath.Join(dir, "key.pem"),
	}
}

// begin starts a server of those.
func (w *Watched) begin(t testing.TB, dir string, args []string) *Server {
	t.Helper()
	address, more := secured(t, dir)
	s := StartOpen(t, append(more, args...)...)
	s.secure = address
	return s
}

func watch(t testing.TB, dir string, args []string) *Watched {
	t.Helper()
	w := &Watched{}
	w.Master = w.begin(t, dir, args)
	host, port := split(t, w.Master.reach())
	w.Replica = w.begin(t, dir, append([]string{"--replicaof", host, port, "--repl-diskless-sync-delay", "0"},
		args...))
	w.hasCopy(t)
	w.Sentinel = newServer(t, "--sentinel")
	w.Sentinel.master = MasterName
	var more []string
	w.Sentinel.secure, more = secured(t, dir)
	_, own := split(t, w.Sentinel.Address)
	w.Sentinel.config = filepath.Join(w.Sentinel.Dir, "sentinel.conf")
	text := fmt.Sprintf("bind 127.0.0.1\nport %s\ndir %s\nlogfile log\n", own, w.Sentinel.Dir) +
		strings.NewReplacer(" --", "\n", "--", "").Replace(strings.Join(more, " ")) +
		fmt.Sprintf(
			"\nsentinel monitor %[1]s %[2]s %[3]s 1\nsentinel down-after-milliseconds %[1]s 1000\nsentinel "+
				"failover-timeout %[1]s 5000\n", MasterName, host, port)
	fatal.OK(t, os.WriteFile(w.Sentinel.config, []byte(text), 0o600))
	w.Sentinel.Begin(t)
	w.Sentinel.tells(t, []string{"SENTINEL", "REPLICAS", MasterName}, "ip")
	return w
}

// FailOver kills the master, waits until the sentinel has made its replica the master,
// and starts it again as the replica of that.
func (w *Watched) FailOver(t testing.TB) {
	t.Helper()
	w.Master.Stop()
	w.Replica.tells(t, []string{"ROLE"}, "master\n") // whom the sentinel promotes ends its connections
	w.Master, w.Replica = w.Replica, w.Master
	w.Replica.Begin(t)
	host, port := split(t, w.Master.reach())
	Wait(t, func() error {
		_, err := w.Replica.ask(t, "REPLICAOF", host, port)
		return err
	})
	w.hasCopy(t)
}

// hasCopy returns when the replica has a copy.
func (w *Watched) hasCopy(t testing.TB) {
	t.Helper()
	w.Replica.tells(t, []string{"INFO", "replication"}, "master_link_status:up")
}

// tells returns when the answer to a command has all of some words.
func (s *Server) tells(t testing.TB, command []string, words ...string) {
	t.Helper()
	Wait(t, func() error {
		answer, err := s.ask(t, command...)
		lacks := func(word string) bool { return !strings.Contains(answer, word) }
		if err != nil || slices.ContainsFunc(words, lacks) {
			return errors.Join(fmt.Errorf("%v: got %q, want %q", command, answer, words), err)
		}
		return nil
	})
}

// StartCluster starts a cluster of three masters, with further arguments for each, and
// returns when they have divided the slots.
func StartCluster(t testing.TB, args ...string) *Server {
	t.Helper()
	c := &Server{}
	for range 3 {
		_, bus := split(t, FreeAddress(t))
		n := StartOne(t, append([]string{
			"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "2000",
		}, args...)...)
		n.Bus = bus
		c.Nodes = append(c.Nodes, n)
	}
	c.Address, c.admin = c.Nodes[0].Address, c.Nodes[0].admin
	c.Join(t)
	for _, n := range c.Nodes {
		n.tells(t, []string{"CLUSTER", "INFO"}, "cluster_state:ok", "cluster_known_nodes:3")
	}
	return c
}

// Join divides the slots among three nodes that run by themselves, and shows the nodes to
// each other.
func (s *Server) Join(t testing.TB) {
	t.Helper()
	for i, n := range s.Nodes {
		// Of nodes with one epoch some take another one later, at a time of their own,
		// and one that does so while a slot is moved gets it back: then two nodes each
		// send clients to the other for ever. redis-cli --cluster create does the same.
		n.Exec(t, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
	}
	for i, slots := range []string{"0 5460", "5461 10922", "10923 16383"} {
		n := s.Nodes[i]
		n.Exec(t, append([]string{"CLUSTER", "ADDSLOTSRANGE"}, strings.Fields(slots)...)...)
		host, port := split(t, n.Address)
		s.Nodes[0].Exec(t, "CLUSTER", "MEET", host, port, n.Bus)
	}
}

// Move moves the slot of a key, and all that is there, from the node that has keys of it
// to the next one, as redis-cli --cluster reshard does.
// https://redis.io/docs/latest/commands/cluster-setslot/
func (s *Server) Move(t testing.TB, key string) {
	t.Helper()
	slot := s.Nodes[0].Exec(t, "CLUSTER", "KEYSLOT", key)
	owner := slices.IndexFunc(s.Nodes, func(n *Server) bool {
		return n.Exec(t, "CLUSTER", "COUNTKEYSINSLOT", slot) != "0"
	})
	if owner < 0 {
		t.Fatalf("no node has keys of the slot of %s", key)
	}
	from, to := s.Nodes[owner], s.Nodes[(owner+1)%3]
	host, port := split(t, to.Address)
	var login []string
	if to.admin != nil {
		login = []string{"AUTH2", "admin", "admin"}
	}
	to.Exec(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", from.Exec(t, "CLUSTER", "MYID"))
	from.Exec(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", to.Exec(t, "CLUSTER", "MYID"))
	for {
		keys := strings.Fields(from.Exec(t, "CLUSTER", "GETKEYSINSLOT", slot, "100"))
		if len(keys) == 0 {
			break
		}
		from.Exec(t, slices.Concat([]string{"MIGRATE", host, port, "", "0", "60000"}, login,
			[]string{"KEYS"}, keys)...)
	}
	for _, node := range []*Server{to, from, s.Nodes[(owner+2)%3]} {
		node.Exec(t, "CLUSTER", "SETSLOT", slot, "NODE", to.Exec(t, "CLUSTER", "MYID"))
	}
}
