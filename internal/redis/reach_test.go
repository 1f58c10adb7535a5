package redis_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/lifetime/lifetimetest"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// use does what the gateway does with a server: commands, a script, a stream, for several
// tenants.
func use(t *testing.T, store *redis.Store) {
	t.Helper()
	script := redis.NewScript(
		`redis.call('SET', KEYS[1], ARGV[1], 'PX', 60000); redis.call('SET', KEYS[2], 'x', 'PX', 60000); return redis.call('GET', KEYS[1])`)
	var commands []redis.Command
	for i := range 20 {
		tenant := fmt.Sprint("tenant-", i)
		reply, err := script.Run(t.Context(), store, []string{redis.Key(tenant, "a"), redis.Key(tenant, "b")},
			[]string{tenant})
		if err != nil {
			t.Fatal(err)
		}
		if text, err := reply.Text(); err != nil || text != tenant {
			t.Errorf("the script returned %q, %v", text, err)
		}
		commands = append(commands, redis.Command{
			Name: "XADD", Key: redis.Key(tenant, "s"),
			Args: []string{"*", "f", tenant},
		},
			redis.Command{Name: "PEXPIRE", Key: redis.Key(tenant, "s"), Args: []string{"60000"}})
	}
	if _, err := store.DoAll(t.Context(), commands...); err != nil {
		t.Fatal(err)
	}
	reply, err := store.Do(t.Context(), redis.Command{
		Name: "XRANGE", Key: redis.Key("tenant-7", "s"),
		Args: []string{"-", "+"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := reply.Entries(); err != nil || len(entries) == 0 ||
		entries[0].FieldValues["f"] != "tenant-7" {
		t.Errorf("the stream holds %v, %v", entries, err)
	}
}

// TestCluster spreads tenants over three masters, and kills one.
func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t).Nodes
	store := redistest.Run(t, redis.New(redis.Config{
		Addresses: []string{nodes[0].Address}, Cluster: true,
		Patience: redistest.Patience,
	}))
	use(t, store)
	for _, n := range nodes {
		if size := n.Exec(t, "DBSIZE"); size == "0" {
			t.Error("a node holds nothing")
		}
	}
	nodes[2].Stop()
	redistest.Wait(t, func() error { // the cluster stops when it has noticed
		if store.State() == redis.StateUp {
			_, _ = store.Do(t.Context(), redis.Command{Name: "GET", Key: redis.Key("tenant-7", "a")})
			return errors.New("the store is still up")
		}
		return nil
	})
	nodes[2].Begin(t)
	redistest.WaitUp(t, store)
}

// TestClusterNamedAsOneServer has the error that says what to write.
func TestClusterNamedAsOneServer(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t).Nodes
	for _, n := range nodes {
		store := redis.New(redis.Config{Addresses: []string{n.Address}, Patience: redistest.Patience})
		lifetimetest.Run(t, store.Run)
		redistest.Wait(t, func() error {
			for i := range 20 { // one of them is another node's
				if _, err := store.Do(t.Context(),
					redis.Command{Name: "GET", Key: redis.Key(fmt.Sprint(i), "a")}); err != nil &&
					strings.Contains(err.Error(), "redis+cluster://") {
					return nil
				}
			}
			return fmt.Errorf("no call was refused: %w", store.Up())
		})
	}
}

// TestPageHasEveryState looks for the states in the operator's page.
func TestPageHasEveryState(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "replicas.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range redis.States() {
		if state != redis.StateUp && !strings.Contains(string(page), "\n| `"+string(state)+"` | ") {
			t.Errorf("docs/replicas.md has no row for %s", state)
		}
	}
}

// TestUserOfPage gives a user the rule of the operator's page and nothing else. Its
// password changes while the Store runs.
func TestUserOfPage(t *testing.T) {
	t.Parallel()
	server := redistest.StartOne(t)
	server.Exec(t, append([]string{"ACL", "SETUSER", "drawbridge", "on", ">first"}, redistest.Rule(t)...)...)
	var password atomic.Pointer[string]
	first, second := "first", "second"
	password.Store(&first)
	store := redistest.Run(t, redis.New(redis.Config{
		Addresses: []string{server.Address}, User: "drawbridge", Password: func() (string,
			error,
		) {
			return *password.Load(), nil
		}, Patience: redistest.Patience,
	}))
	use(t, store)
	for _, denied := range []redis.Command{
		{Name: "GET", Key: "another"},
		{Name: "FLUSHALL", Key: "ASYNC"},
		{Name: "KEYS", Key: "db2:*"},
	} {
		if _, err := store.Do(t.Context(), denied); err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("%s %s: got %v", denied.Name, denied.Key, err)
		}
	}
	redistest.WaitUp(t, store)
	server.Exec(t, "ACL", "SETUSER", "drawbridge", "resetpass", ">second")
	server.Exec(t, "CLIENT", "KILL", "USER", "drawbridge")
	waitState(t, store, redis.StateDenied)
	if err := store.Up(); !strings.Contains(err.Error(), "redis.password_file") {
		t.Errorf("got %v", err)
	}
	password.Store(&second)
	redistest.WaitUp(t, store)
	use(t, store)
}

// TestTLS has a server that wants a certificate of the client, too.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := redistest.Certificates(t, dir)
	server := redistest.StartOne(t)
	server.Exec(t, "CONFIG", "SET", "tls-cert-file", filepath.Join(dir, "cert.pem"), "tls-key-file",
		filepath.Join(dir, "key.pem"), "tls-ca-cert-file", filepath.Join(dir, "cert.pem"))
	address := redistest.FreeAddress(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	server.Exec(t, "CONFIG", "SET", "tls-port", port)
	use(t, redistest.Run(t, redis.New(redis.Config{
		Addresses: []string{address}, TLS: good,
		Patience: redistest.Patience,
	})))
	anonymous := &tls.Config{RootCAs: good.RootCAs, MinVersion: tls.VersionTLS12}
	stranger := &tls.Config{
		RootCAs: x509.NewCertPool(), Certificates: good.Certificates,
		MinVersion: tls.VersionTLS12,
	}
	for want, cfg := range map[string]*tls.Config{
		"certificate required": anonymous,
		"unknown authority":    stranger,
	} {
		store := redis.New(redis.Config{Addresses: []string{address}, TLS: cfg, Patience: redistest.Patience})
		lifetimetest.Run(t, store.Run)
		redistest.Wait(t, func() error {
			if err := store.Up(); err == nil || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("got %w, want %s", err, want)
			}
			return nil
		})
	}
}
