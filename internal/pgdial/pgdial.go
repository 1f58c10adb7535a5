// Package pgdial reaches PostgreSQL servers: it reads the address in a file, dials with
// internal/dial, and demands TLS beyond this machine. It does not know what is asked of
// them.
//
// What is dangerous about the driver: it takes settings from the environment and from
// files of the home directory, and options of an address could undo what is made sure of
// here. So everything is set by this package.
package pgdial

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/tlsfile"
)

// connectTime is how long a server may take to let the role in.
const connectTime = 10 * time.Second

// Form is what stands in the file of an address.
const Form = "postgres://user:password@host:5432/database?sslmode=verify-full" //nolint:gosec // no password

// CheckFile returns an error that says what is wrong with the address in a file, without
// its text, which has a password.
func CheckFile(file string) error {
	_, err := read(file)
	return err
}

// unset has all that the driver would take from the environment and the home directory:
// what stands in the text wins. What counts is set afterwards.
const unset = "host=localhost port=5432 user=none dbname=none sslmode=disable sslrootcert='' sslcert='' " +
	"sslkey='' sslcertmode=allow passfile='' target_session_attrs=any connect_timeout=0 " +
	"min_protocol_version='' max_protocol_version='' channel_binding=prefer require_auth=''"

// read returns how to reach the address in a file.
func read(file string) (*pgconn.Config, error) {
	data, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return nil, err
	}
	cfg, err := pgconn.ParseConfig(unset)
	if err != nil {
		return nil, errors.New("PGSERVICE in the environment names a service that cannot be read: unset it")
	}
	cfg.TLSConfig, cfg.Fallbacks, cfg.ValidateConnect = nil, nil, nil
	if err := parse(cfg, strings.TrimSpace(string(data)), filepath.Dir(file)); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return cfg, nil
}

// errForm is that an address is none.
var errForm = errors.New("this is no address of PostgreSQL; write " + Form)

// parse reads an address into cfg, which has no TLS. Files that it names are relative to
// dir. Nothing is taken from the environment, and nothing but what stands here may stand
// in it: options of the driver could undo what this package makes sure of.
func parse(cfg *pgconn.Config, text, dir string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Opaque != "" ||
		u.Fragment != "" {
		return errForm // and not err, which quotes the text
	}
	cfg.Host, cfg.User, cfg.Database = u.Hostname(), u.User.Username(), strings.TrimPrefix(u.Path, "/")
	cfg.Password, _ = u.User.Password()
	if cfg.Host == "" || cfg.User == "" || cfg.Database == "" || strings.ContainsAny(cfg.Host, "/,") {
		return errForm
	}
	port, err := strconv.ParseUint(cmp.Or(u.Port(), "5432"), 10, 16)
	if err != nil || port == 0 {
		return errForm
	}
	cfg.Port = uint16(port)
	options := u.Query()
	for name := range options {
		switch name {
		case "sslmode", "sslrootcert", "sslcert", "sslkey":
		default:
			return fmt.Errorf(
				"the option %q has no meaning here; there are sslmode, sslrootcert, sslcert and sslkey", name)
		}
	}
	switch mode := options.Get("sslmode"); {
	case mode == "verify-full":
		cfg.TLSConfig, err = secured(cfg.Host, options, dir)
		return err
	case mode != "" && mode != "disable":
		return fmt.Errorf(
			"sslmode=%s does not make sure whom the password is sent to; write sslmode=verify-full", mode)
	case !isLoopback(cfg.Host):
		return errors.New("TLS is needed beyond this machine; write sslmode=verify-full")
	}
	return nil
}

// isLoopback tells whether a host is this machine by its very name.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// secured returns how to speak TLS with the host.
func secured(host string, options url.Values, dir string) (*tls.Config, error) {
	file := func(name string) string {
		path := options.Get(name)
		if path == "" || filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(dir, path)
	}
	cfg, err := tlsfile.Load(file("sslrootcert"), file("sslcert"), file("sslkey"))
	if err != nil {
		return nil, err
	}
	cfg.ServerName = host
	return cfg, nil
}

// Options are how a connection is used.
type Options struct {
	Settings   map[string]string // of the session at the server, from code
	MaxMessage int               // bytes that one message of the server may have
}

// Connect opens a connection to the address in a file, which is read anew.
func Connect(ctx context.Context, file string, o Options) (*pgconn.PgConn, error) {
	cfg, err := read(file)
	if err != nil {
		return nil, err
	}
	cfg.SSLNegotiation, cfg.KerberosSrvName, cfg.KerberosSpn = "", "", ""
	cfg.MaxProtocolMessageBodyLen = o.MaxMessage
	// A pooler refuses most other settings at the beginning of a connection, and passes
	// these on. https://www.pgbouncer.org/config.html#ignore_startup_parameters
	cfg.RuntimeParams = map[string]string{"application_name": "drawbridge", "client_encoding": "UTF8"}
	var set []string
	for name, value := range o.Settings {
		set = append(set, "SET "+name+" = '"+value+"'")
	}
	cfg.AfterConnect = func(ctx context.Context, c *pgconn.PgConn) error {
		_, err := c.Exec(ctx, strings.Join(set, "; ")).ReadAll()
		return err
	}
	// dial resolves
	cfg.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if network != "tcp" {
			return nil, errForm
		}
		return dial.Connect(ctx, address, nil)
	}
	limited, stop := context.WithTimeout(ctx, connectTime)
	defer stop()
	return pgconn.ConnectConfig(limited, cfg)
}

// Writable returns an error if nothing can be written over a connection, as at a standby.
func Writable(ctx context.Context, c *pgconn.PgConn) error {
	return pgconn.ValidateConnectTargetSessionAttrsReadWrite(ctx, c)
}
