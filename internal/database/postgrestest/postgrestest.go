// Package postgrestest starts a real PostgreSQL server for tests.
package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fatal"
	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// Where servers listen, and the password of every role.
const (
	host     = "127.0.0.1"
	password = "postgrestest-secret" //nolint:gosec // of tests
)

// Server is a PostgreSQL server that runs for the tests of one package.
type Server struct {
	Address string // host:port
	port    string
	bin     string // the folder of the programs of PostgreSQL
	dir     string
	program *exec.Cmd
}

// Start starts a server, which Stop ends. The error is exec.ErrNotFound if PostgreSQL is
// not installed.
func Start() (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	port, err := freeport.Take()
	if err != nil {
		return nil, err
	}
	s := &Server{Address: net.JoinHostPort(host, strconv.Itoa(port)), port: strconv.Itoa(port), bin: bin}
	if s.dir, err = os.MkdirTemp("", "postgrestest"); err != nil {
		return nil, err
	}
	if err := s.begin(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// data is the folder of the server's files.
func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// begin makes the files of the server and starts it. PostgreSQL does not run as root, so
// that another user does.
func (s *Server) begin() error {
	secret := filepath.Join(s.dir, "secret")
	if err := errors.Join(os.WriteFile(secret, []byte(password), 0o600), os.Mkdir(s.data(), 0o700),
		give(s.dir, secret, s.data())); err != nil {
		return err
	}
	made := unprivileged(exec.Command(filepath.Join(s.bin, "initdb"), "--pgdata", s.data(), "--username", "postgres", "--pwfile", secret, //nolint:gosec,noctx // of PostgreSQL
		"--auth", "md5", "--encoding", "UTF8", "--locale", "C", "--no-sync"))
	made.Dir = s.dir
	if output, err := made.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, output)
	}
	return s.start()
}

// start starts the server, and waits until it answers.
func (s *Server) start() error {
	s.program = unprivileged(exec.Command(filepath.Join(s.bin, "postgres"), "-D", s.data(), "-h", host, "-p", s.port, //nolint:gosec,noctx // Stop ends it
		"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "password_encryption=md5", "-c",
		"shared_buffers=16MB", "-c", "max_connections=40", "-c", "logging_collector=off"))
	s.program.Dir = s.dir
	if err := redistest.StartBound(s.program); err != nil {
		return err
	}
	for began := time.Now(); ; <-time.After(50 * time.Millisecond) {
		if _, err := s.run("postgres", "SELECT 1"); err == nil || time.Since(began) > time.Minute {
			return err
		}
	}
}

// BecomeStandby starts the server anew as a standby, which waits for a primary and is
// read from meanwhile.
func (s *Server) BecomeStandby(t testing.TB) {
	t.Helper()
	s.end()
	signal := filepath.Join(s.data(), "standby.signal")
	fatal.OK(t, errors.Join(os.WriteFile(signal, nil, 0o600), give(signal), s.start()))
}

// give gives files and folders to the user that the server runs as.
func give(paths ...string) (err error) {
	for _, path := range paths {
		if os.Getuid() == 0 {
			err = errors.Join(err, os.Chown(path, nobody, nobody))
		}
	}
	return err
}

// Stop ends the server and removes its files.
func (s *Server) Stop() {
	s.end()
	_ = os.RemoveAll(s.dir) // only of a test
}

// end ends the program of the server, if it runs.
func (s *Server) end() {
	if s.program != nil && s.program.Process != nil {
		_ = s.program.Process.Signal(os.Interrupt) // a fast shutdown, which ends its children
		_ = s.program.Wait()                       // it was told to end
	}
}

// binaries returns the folder of the programs of the server, which Debian has not in
// PATH.
func binaries() (string, error) {
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb"); len(found) > 0 { // in order
		return filepath.Dir(found[len(found)-1]), nil
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", exec.ErrNotFound
	}
	return filepath.Dir(path), nil
}

// Run runs the tests of a package with a server, and returns their exit code. A machine
// without PostgreSQL runs them with none, unless CI is true: Need then passes over those
// that need it.
func Run(m *testing.M, use func(*Server)) int {
	s, err := Start()
	if err != nil {
		if !errors.Is(err, exec.ErrNotFound) || slices.Contains(os.Environ(), "CI=true") {
			panic(err)
		}
		return m.Run()
	}
	defer s.Stop()
	use(s)
	return m.Run()
}

// Need passes the test over if there is no server.
func (s *Server) Need(t testing.TB) *Server {
	t.Helper()
	if s == nil {
		t.Skip("PostgreSQL is not installed; .ci/setup installs it")
	}
	return s
}

// Exec runs statements as the superuser in a database, and returns the rows as psql
// writes them.
func (s *Server) Exec(t testing.TB, database, statements string) string {
	t.Helper()
	return fatal.Have(s.run(database, statements))(t)
}

func (s *Server) run(database, statements string) (string, error) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	c := exec.CommandContext(ctx, "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", //nolint:gosec // a test says which
		"-d", s.url(database, "postgres"), "-f", "-")
	c.Stdin = strings.NewReader(statements)
	output, err := c.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("psql: %w: %s", err, output)
	}
	return strings.TrimSpace(string(output)), nil
}

// Create makes a database with a role of the same name, which may connect to it and
// nothing else, and runs statements there.
func (s *Server) Create(t testing.TB, name, statements string) {
	t.Helper()
	s.Exec(t, "postgres", fmt.Sprintf("CREATE ROLE %[1]s LOGIN PASSWORD '%[2]s'; CREATE DATABASE %[1]s;",
		name, password))
	s.Exec(t, "postgres", fmt.Sprintf("REVOKE TEMP ON DATABASE %[1]s FROM PUBLIC", name))
	s.Exec(t, name, statements)
}

// File writes the address of a database for a role into a file, and returns its path.
func (s *Server) File(t testing.TB, database, role string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), database+".dsn")
	fatal.OK(t, os.WriteFile(path, []byte(s.url(database, role)+"\n"), 0o600))
	return path
}

// url is the address of a database for a role.
func (s *Server) url(database, role string) string {
	return fmt.Sprintf("postgres://%s:%s@%s/%s", role, password, s.Address, database)
}

// Secure has the server speak TLS too, and returns the path of the authority of its
// certificate.
func (s *Server) Secure(t testing.TB) (authority string) {
	t.Helper()
	dir := t.TempDir()
	redistest.Certificates(t, dir)
	for _, name := range []string{"cert.pem", "key.pem"} {
		data := fatal.Have(os.ReadFile(filepath.Join(dir, name)))(t) //nolint:gosec // of this test
		path := filepath.Join(s.data(), name)
		fatal.OK(t, errors.Join(os.WriteFile(path, data, 0o600), give(path)))
	}
	s.Exec(t, "postgres", "ALTER SYSTEM SET ssl_cert_file = 'cert.pem'")
	s.Exec(t, "postgres", "ALTER SYSTEM SET ssl_key_file = 'key.pem'")
	s.Exec(t, "postgres", "ALTER SYSTEM SET ssl = on")
	s.Exec(t, "postgres", "SELECT pg_reload_conf()")
	return filepath.Join(dir, "cert.pem")
}
