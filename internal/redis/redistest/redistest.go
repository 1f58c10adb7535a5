// Package redistest starts real Redis servers for tests.
package redistest

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fatal"
	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/internal/lifetime/lifetimetest"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/sources"
)

// Patience is that of a Store in tests, where other programs keep the processors busy.
const Patience = 10 * time.Second

// kind is what Start starts, so that every test can be run on each kind of server.
var kind = flag.String("redis", "one", "what tests of replicas share: one server, or a cluster")

// Server is a redis-server that runs for one test, or a cluster of them, which is
// started, stopped and asked as one.
type Server struct {
	Address string    // host:port; of a cluster that of one of its nodes
	Dir     string    // of its files
	Nodes   []*Server // of a cluster; nil: it is one server
	Bus     string    // port at which nodes of a cluster talk; empty: it is no node
	program *exec.Cmd
	args    []string
	config  string   // a file, instead of the usual arguments; empty: none
	admin   []string // what redis-cli needs to be the user that may do everything; empty: nothing
	master  string   // the one that this sentinel watches; empty: it is none
	secure  string   // host:port, with TLS; empty: without
}

// Start starts a server that keeps nothing on disk, or with -redis=cluster a cluster of
// such, and ends it with the test. args are further ones of its command line, such as
// "--requirepass", "x". A machine without redis-server passes the test over, unless CI is
// true.
//
// Whoever connects has the rights that the operator's page gives to the gateway, and no
// others, so that no test passes with a command that an operator has not allowed. Where
// args are about users, they alone say who has which rights.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	if *kind == "cluster" {
		return StartCluster(t, args...)
	}
	return StartOne(t, args...)
}

// StartOne is Start for tests that need one server, since they look at it without a
// Store.
func StartOne(t testing.TB, args ...string) *Server {
	t.Helper()
	s := newServer(t, args...)
	if !slices.Contains(args, "--requirepass") && !slices.Contains(args, "--aclfile") {
		s.args = append(slices.Concat([]string{"--user", "default", "on", "nopass"}, Rule(t),
			[]string{"--user", "admin", "on", ">admin", "~*", "&*", "+@all"}), args...)
		s.admin = []string{"--user", "admin", "--pass", "admin", "--no-auth-warning"}
	}
	s.Begin(t)
	return s
}

// StartOpen is StartOne for a server at which everybody may do everything, as a replica
// and a sentinel must.
func StartOpen(t testing.TB, args ...string) *Server {
	t.Helper()
	s := newServer(t, args...)
	s.Begin(t)
	return s
}

// Rule returns the rights that the operator's page gives to the user of the gateway,
// without a password.
func Rule(t testing.TB) []string {
	t.Helper()
	root := fatal.Have(sources.Root())(t)
	page := fatal.Have(os.ReadFile(filepath.Join(root, "docs", "replicas.md")))(t) //nolint:gosec // a page of this repository
	found := regexp.MustCompile(`(?m)^user drawbridge on >PASSWORD (.*)$`).FindSubmatch(page)
	if found == nil {
		t.Fatal("docs/replicas.md has no rule")
	}
	return strings.Fields(string(found[1]))
}

// newServer returns a server that does not run yet.
func newServer(t testing.TB, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if slices.Contains(os.Environ(), "CI=true") {
			t.Fatal(err)
		}
		t.Skip("redis-server is not installed; .ci/setup installs it")
	}
	s := &Server{Address: FreeAddress(t), Dir: t.TempDir(), args: args}
	t.Cleanup(s.Stop)
	return s
}

// FreeAddress returns an address of this machine at which nobody listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return fatal.Have(freeport.Address())(t)
}

// split returns the host and the port of an address.
func split(t testing.TB, address string) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	fatal.OK(t, err)
	return host, port
}

// reach returns where other servers find this one.
func (s *Server) reach() string { return cmp.Or(s.secure, s.Address) }

// Config is for a Store of the server, or of the master that a sentinel watches.
func (s *Server) Config() redis.Config {
	return redis.Config{
		Addresses: []string{s.Address}, Cluster: s.Nodes != nil, Master: s.master,
		Patience: Patience,
	}
}

// URL is what the config of a gateway says.
func (s *Server) URL() string {
	switch {
	case s.secure != "":
		return "rediss+sentinel://" + s.secure + "/" + s.master
	case s.Nodes != nil:
		return "redis+cluster://" + s.Address
	case s.master != "":
		return "redis+sentinel://" + s.Address + "/" + s.master
	}
	return "redis://" + s.Address
}

// Begin starts the server again, after Stop, at the same address.
func (s *Server) Begin(t testing.TB) {
	t.Helper()
	for _, n := range s.Nodes {
		n.Begin(t)
	}
	if s.Nodes != nil {
		return
	}
	host, port := split(t, s.Address)
	args := append([]string{
		"--bind", host, "--port", port, "--save", "", "--appendonly", "no", "--dir",
		s.Dir, "--logfile", filepath.Join(s.Dir, "log"),
	}, s.args...)
	if s.config != "" {
		args = append([]string{s.config}, s.args...)
	}
	s.program = exec.Command("redis-server", args...) //nolint:gosec,noctx // a test says which arguments; Stop ends it
	fatal.OK(t, StartBound(s.program))
	Wait(t, func() error {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", s.Address)
		if err != nil {
			log, _ := os.ReadFile(filepath.Join(s.Dir, "log")) // there may be none yet
			return fmt.Errorf("redis-server does not listen: %w\n%s", err, log)
		}
		return c.Close()
	})
}

// Stop kills the server. What it kept is lost.
func (s *Server) Stop() {
	for _, n := range s.Nodes {
		n.Stop()
	}
	if s.program != nil {
		_ = s.program.Process.Kill()
		_ = s.program.Wait()
		s.program = nil
	}
}

// Freeze stops the processor time of the server: its connections stay open, and nothing
// is answered.
func (s *Server) Freeze(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Thaw ends Freeze.
func (s *Server) Thaw(t testing.TB) { s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, number syscall.Signal) {
	t.Helper()
	for _, n := range s.Nodes {
		n.signal(t, number)
	}
	if s.Nodes != nil {
		return
	}
	fatal.OK(t, s.program.Process.Signal(number))
}

// Exec runs a command at the server past all faults of a Proxy, and returns the answer as
// redis-cli writes it. A command about a server and not about a key is run at each node
// of a cluster, and the answers of all are one.
func (s *Server) Exec(t testing.TB, command ...string) (answer string) {
	t.Helper()
	ofServers := []string{"CLIENT", "CONFIG", "FLUSHALL", "KEYS", "SCRIPT"}
	if s.Nodes == nil || !slices.Contains(ofServers, command[0]) {
		return fatal.Have(s.ask(t, command...))(t)
	}
	for _, n := range s.Nodes {
		answer = strings.TrimSpace(answer + "\n" + n.Exec(t, command...))
	}
	return answer
}

// ask runs a command at this server, or at the node of the cluster that has its key.
func (s *Server) ask(t testing.TB, command ...string) (answer string, err error) {
	t.Helper()
	host, port := split(t, s.Address)
	args := slices.Concat([]string{"-e", "-h", host, "-p", port}, s.admin)
	if s.Nodes != nil {
		args = append(args, "-c")
	}
	output, err := exec.CommandContext(t.Context(), "redis-cli", append(args, command...)...).CombinedOutput() //nolint:gosec // a test says which
	if err != nil {
		return "", fmt.Errorf("%v: %w: %s", command, err, output)
	}
	return strings.TrimSpace(string(output)), nil
}

// Store returns a Store of the server that is up, and runs until the test ends.
func (s *Server) Store(t testing.TB) *redis.Store {
	t.Helper()
	return Run(t, redis.New(s.Config()))
}

// Admin is Store for a user that may do everything.
func (s *Server) Admin(t testing.TB) *redis.Store {
	t.Helper()
	cfg := s.Config()
	if s.admin != nil {
		cfg.User, cfg.Password = "admin", func() (string, error) { return "admin", nil }
	}
	return Run(t, redis.New(cfg))
}

// Run runs a Store until the test ends, and returns when it is up.
func Run(t testing.TB, store *redis.Store) *redis.Store {
	t.Helper()
	lifetimetest.Run(t, store.Run)
	WaitUp(t, store)
	return store
}

// WaitUp returns when the store is up.
func WaitUp(t testing.TB, store *redis.Store) {
	t.Helper()
	Wait(t, func() error { return store.Up() })
}

// WaitDown returns when the store is not up.
func WaitDown(t testing.TB, store *redis.Store) {
	t.Helper()
	Wait(t, func() error {
		if store.Up() == nil {
			return errors.New("the store is still up")
		}
		return nil
	})
}

// Wait returns when what is wrong is right at last.
func Wait(t testing.TB, wrong func() error) {
	t.Helper()
	for began := time.Now(); ; {
		err := wrong()
		if err == nil {
			return
		}
		if time.Since(began) > 3*time.Minute {
			t.Fatal(err)
		}
		<-time.After(5 * time.Millisecond)
	}
}
