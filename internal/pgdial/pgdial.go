// Package pgdial reaches PostgreSQL servers: it reads the address in a file, dials with
// internal/dial, and demands TLS beyond this machine. It does not know what is asked of
// them.
//
// What is dangerous about the driver: it takes settings from the environment and from
// files of the home directory, and options of an address could undo what is made sure of
// here. So everything is set by this package.
package pgdial

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
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

// address is what the file of an address says.
type address struct {
	host, user, password, database string
	port                           uint16
	secure                         *tls.Config // nil: without TLS
}

// CheckFile returns an error that says what is wrong with the address in a file, without
// its text, which has a password.
func CheckFile(file string) error {
	_, err := read(file)
	return err
}

// read returns the address in a file.
func read(file string) (address, error) {
	data, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return address{}, err
	}
	a, err := parse(strings.TrimSpace(string(data)), filepath.Dir(file))
	if err != nil {
		return a, fmt.Errorf("%s: %w", file, err)
	}
	return a, nil
}

// errForm is that an address is none.
var errForm = errors.New("this is no address of PostgreSQL; write " + Form)

// parse reads an address. Files that it names are relative to dir. Nothing is taken from
// the environment, and nothing but what stands here may stand in it: options of the
// driver could undo what this package makes sure of.
func parse(text, dir string) (a address, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Opaque != "" ||
		u.Fragment != "" {
		return a, errForm // and not err, which quotes the text
	}
	a.host, a.user, a.database = u.Hostname(), u.User.Username(), strings.TrimPrefix(u.Path, "/")
	a.password, _ = u.User.Password()
	if a.host == "" || a.user == "" || a.database == "" || strings.ContainsAny(a.host, "/,") {
		return a, errForm
	}
	port, err := strconv.ParseUint("0"+u.Port(), 10, 16)
	if err != nil {
		return a, errForm
	}
	a.port = uint16(port)
	if port == 0 {
		a.port = 5432
	}
	options := u.Query()
	for name := range options {
		switch name {
		case "sslmode", "sslrootcert", "sslcert", "sslkey":
		default:
			return a, fmt.Errorf(
				"the option %q has no meaning here; there are sslmode, sslrootcert, sslcert and sslkey", name)
		}
	}
	switch mode := options.Get("sslmode"); {
	case mode == "verify-full":
		a.secure, err = secured(a.host, options, dir)
		return a, err
	case mode != "" && mode != "disable":
		return a, fmt.Errorf(
			"sslmode=%s does not make sure whom the password is sent to; write sslmode=verify-full", mode)
	case !isLoopback(a.host):
		return a, errors.New("TLS is needed beyond this machine; write sslmode=verify-full")
	}
	return a, nil
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
	Settings   map[string]string // of the session at the server
	MaxMessage int               // bytes that one message of the server may have
}

// unset has all that the driver would take from the environment and the home directory:
// what stands in the text wins. What counts is set afterwards.
const unset = "host=localhost port=5432 user=none dbname=none sslmode=disable sslrootcert='' sslcert='' " +
	"sslkey='' sslcertmode=allow passfile='' target_session_attrs=any connect_timeout=0 " +
	"min_protocol_version='' max_protocol_version='' channel_binding=prefer require_auth=''"

// Connect opens a connection to the address in a file, which is read anew.
func Connect(ctx context.Context, file string, o Options) (*pgconn.PgConn, error) {
	a, err := read(file)
	if err != nil {
		return nil, err
	}
	cfg, err := pgconn.ParseConfig(unset)
	if err != nil {
		return nil, errors.New("PGSERVICE in the environment names a service that cannot be read: unset it")
	}
	cfg.Host, cfg.Port, cfg.User, cfg.Password, cfg.Database = a.host, a.port, a.user, a.password, a.database
	cfg.TLSConfig, cfg.Fallbacks, cfg.ValidateConnect = a.secure, nil, nil
	cfg.SSLNegotiation, cfg.KerberosSrvName, cfg.KerberosSpn = "", "", ""
	cfg.MaxProtocolMessageBodyLen = o.MaxMessage
	cfg.RuntimeParams = map[string]string{"application_name": "drawbridge", "client_encoding": "UTF8"}
	maps.Copy(cfg.RuntimeParams, o.Settings)
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
