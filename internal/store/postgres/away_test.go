package postgres_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/database/postgrestest"
	"github.com/drawbridge-mcp/drawbridge/internal/fatal"
	"github.com/drawbridge-mcp/drawbridge/internal/netfault"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
	"github.com/drawbridge-mcp/drawbridge/internal/store/postgres"
)

func record(id string) store.Record {
	return store.Record{Kind: "family", ID: id, Expires: time.Now().Add(time.Hour), Value: []byte("x")}
}

// patience is how long a test waits for what takes a few seconds at most.
const patience = time.Minute

func TestReplicasMigrateAtTheSameTime(t *testing.T) {
	file, name := create(t)
	cfg := config()
	var over sync.WaitGroup
	for i := range 6 {
		s := open(t, file, cfg)
		over.Go(func() {
			if _, err := s.Put(t.Context(), record(fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		})
	}
	over.Wait()
	if got := server.Exec(t, name, "SELECT version FROM drawbridge.schema"); got != "1" {
		t.Errorf("got version %q, want 1", got)
	}
	if got := server.Exec(t, name, "SELECT sum(records) FROM drawbridge.counts"); got != "6" {
		t.Errorf("got %s records, want 6", got)
	}
}

func TestReplicasNeverBothChangeARecord(t *testing.T) {
	file, _ := create(t)
	cfg := config()
	replicas := []store.Store{open(t, file, cfg), open(t, file, cfg), open(t, file, cfg)}
	if _, err := replicas[0].Put(t.Context(), record("1")); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		r, err := replicas[0].Get(t.Context(), "family", "1")
		if err != nil {
			t.Fatal(err)
		}
		var changed atomic.Int64
		var over sync.WaitGroup
		for _, replica := range replicas {
			over.Go(func() {
				switch _, err := replica.Put(t.Context(), r); {
				case err == nil:
					changed.Add(1)
				case !errors.Is(err, store.ErrConflict):
					t.Error(err)
				}
			})
		}
		over.Wait()
		if changed.Load() != 1 {
			t.Fatalf("%d replicas changed the record, want 1", changed.Load())
		}
	}
}

func TestLaterSchemaIsRefusedIfItMustBe(t *testing.T) {
	file, name := create(t)
	if err := open(t, file, config()).Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Exec(t, name, "UPDATE drawbridge.schema SET version = version + 2, oldest = version + 1")
	err := open(t, file, config()).Check(t.Context())
	if _, ok := errors.AsType[*store.SchemaError](err); !ok {
		t.Errorf("got error %v, want that of the schema", err)
	}
}

func TestConnectionsThatTheServerEndsAreOpenedAnew(t *testing.T) {
	file, name := create(t)
	s := open(t, file, config())
	if _, err := s.Put(t.Context(), record("1")); err != nil {
		t.Fatal(err)
	}
	server.Exec(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+name+"'")
	began := time.Now()
	for { // a connection that was used just now is not tried before
		_, err := s.Get(t.Context(), "family", "1")
		if err == nil {
			return
		}
		if time.Since(began) > patience {
			t.Fatal(err)
		}
	}
}

// TestAStandbyIsLeft has an address lead to the server that a failover has made a
// standby, and then to the primary. No standby ends a connection by itself.
func TestAStandbyIsLeft(t *testing.T) {
	primary, name := create(t)
	before := fatal.Have(postgrestest.Start())(t)
	t.Cleanup(before.Stop)
	before.Create(t, name, "")
	before.Exec(t, "postgres", fmt.Sprintf("ALTER DATABASE %[1]s OWNER TO %[1]s", name))
	file := before.File(t, name, name)
	s := open(t, file, config())
	for _, used := range []store.Database{s, open(t, primary, config())} {
		fatal.OK(t, used.Check(t.Context()))
	}
	before.BecomeStandby(t)
	for range 3 { // the first may meet a connection that has ended
		if s.Check(t.Context()) == nil {
			t.Fatal("a standby was written to")
		}
	}
	fatal.OK(t, os.WriteFile(file, fatal.Have(os.ReadFile(primary))(t), 0o600))
	for began := time.Now(); ; {
		_, err := s.Put(t.Context(), record("1"))
		if err == nil {
			return
		}
		if time.Since(began) > patience {
			t.Fatal(err)
		}
	}
}

// TestConnectionsThatAreSilentAreLeft has the host of the server vanish, as in a
// failover, without an end of its connections, and the address lead to another one.
func TestConnectionsThatAreSilentAreLeft(t *testing.T) {
	direct, _ := create(t)
	proxy := fatal.Have(netfault.Start(server.Address))(t)
	t.Cleanup(proxy.Close)
	address := string(fatal.Have(os.ReadFile(direct))(t))
	file := filepath.Join(t.TempDir(), "dsn")
	fatal.OK(t, os.WriteFile(file, []byte(strings.Replace(address, server.Address, proxy.Address, 1)), 0o600))
	s := open(t, file, config())
	var over sync.WaitGroup
	for i := range 8 { // over several connections
		over.Go(func() {
			if _, err := s.Put(t.Context(), record(fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		})
	}
	over.Wait()
	proxy.BlackHole()
	fatal.OK(t, os.WriteFile(file, []byte(address), 0o600))
	time.Sleep(1100 * time.Millisecond) // connections that were used just now are not tried
	if _, err := s.Get(t.Context(), "family", "1"); err != nil {
		t.Errorf("got error %v from a store that is there", err)
	}
}

// address writes the file of an address that nobody need answer at.
func address(t *testing.T, host string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(file, []byte("postgres://u:hush@"+host+"/db\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestServerThatIsAwayIsTriedSeldom(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // of this machine
	if err != nil {
		t.Fatal(err)
	}
	var tried atomic.Int64
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			tried.Add(1)
			_ = c.Close()
		}
	}()
	s := open(t, address(t, l.Addr().String()), config())
	began := time.Now()
	for range 1000 {
		if _, err := s.Get(t.Context(), "family", "1"); err == nil || errors.Is(err, store.ErrNotFound) {
			t.Fatalf("got error %v, want one that says that the database is away", err)
		} else if strings.Contains(err.Error(), "hush") {
			t.Fatalf("the error %v has the password", err)
		}
	}
	seconds := time.Since(began)/time.Second + 1
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	<-over
	if tried.Load() > 2*int64(seconds) { // a connection without TLS is one more try
		t.Errorf("%d connections in %d seconds", tried.Load(), seconds)
	}
}

func TestServerThatIsSilentIsNotWaitedForLong(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // of this machine; it accepts nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // nothing came in
	s := open(t, address(t, l.Addr().String()), config())
	failed := make(chan error)
	const callers = 20
	for range callers {
		go func() {
			_, err := s.Put(t.Context(), record("1"))
			failed <- err
		}()
	}
	for range callers {
		select {
		case err := <-failed:
			if err == nil {
				t.Error("got no error")
			}
		case <-time.After(patience):
			t.Fatal("a call waits")
		}
	}
}

func TestClosedStoreTakesNothing(t *testing.T) {
	file, _ := create(t)
	s := postgres.New(file, config())
	if err := errors.Join(s.Check(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "family", "1"); err == nil || errors.Is(err, store.ErrNotFound) {
		t.Errorf("got error %v, want one that says that it is closed", err)
	}
}

// TestOpenConnectionsServeWhereNoOtherFits has a server that takes no second one.
func TestOpenConnectionsServeWhereNoOtherFits(t *testing.T) {
	file, name := create(t)
	server.Exec(t, "postgres", "ALTER ROLE "+name+" CONNECTION LIMIT 1")
	s := open(t, file, config())
	for range 3 {
		_, refused := s.Put(t.Context(), record("1"))
		if refused != nil && !errors.Is(refused, store.ErrConflict) {
			t.Fatal(refused)
		}
		var over sync.WaitGroup
		for range 2 { // one of them may be refused
			over.Go(func() { _, _ = s.Get(t.Context(), "family", "1") })
		}
		over.Wait()
	}
}
