package main

import (
	"context"
	"crypto/ed25519"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
)

const (
	devTenant = "dev"
	// a name and no address, so that clients are not sent there for another token
	devIssuer    = "drawbridge-dev"
	devToolbox   = "toolbox"
	forecasts    = "https://api.open-meteo.com"
	geocoding    = "https://geocoding-api.open-meteo.com"
	devTokenLife = auth.MaxLifetime
)

// trial is what the command dev runs and prints.
type trial struct {
	config  *config.Config
	token   string // "": people sign in
	expires time.Time
	login   string          // where people sign in; "": nowhere
	found   config.Imported // the servers, and what the file of -servers holds beside them that has no effect
}

// devHelp is the help of the command dev.
var devHelp = help{
	"[-listen 127.0.0.1:8080] [-servers FILE] [-login]",
	"Runs on loopback without any file: one tenant dev that may use everything, the built-in tools, a " +
		"generated key.\nPrints a ready token and what to paste into clients. Only this machine can " +
		"connect.",
}

// devCommand is the command dev. Everybody who can connect and has the token may use
// everything, so dev listens on loopback only and refuses any other address.
func devCommand(flags *flag.FlagSet) action {
	cfg := config.Default()
	flags.StringVar(&cfg.Listen, "listen", cfg.Listen, "`address` for clients; port 0 takes a free one")
	flags.StringVar(&cfg.Operator, "operator", cfg.Operator, "`address` of /metrics, /healthz and /readyz")
	file := flags.String("servers", "",
		"also run the servers of a client's JSON `file` (mcpServers, or servers of VS Code)")
	login := flags.Bool("login", false,
		"people sign in with a browser, at a toy login that checks nobody, and no token is printed")
	return func(ctx context.Context, _ []string, s streams) error {
		for _, address := range []string{cfg.Listen, cfg.Operator} {
			if !config.IsLoopback(address) {
				return refused("%s is not a loopback address; dev has a token for everything and is for "+
					"this machine only. For others there is drawbridge serve.", address)
			}
		}
		found, err := devServers(*file, config.ProcessEnvironment())
		if err != nil {
			return refused("%w", err)
		}
		cfg.Servers = found.Servers
		l, err := bind(ctx, cfg)
		if err != nil {
			return devBindError(err, os.Args[0])
		}
		defer l.close()
		dir, err := os.MkdirTemp("", "drawbridge-dev-*")
		if err != nil {
			return err
		}
		// nothing of a trial is to stay; a file that does is in the directory for
		// temporary files
		defer func() { _ = os.RemoveAll(dir) }()
		cfg.Audit = audit.Config{File: filepath.Join(dir, "audit.jsonl")}
		t := newTrial(cfg, l, found)
		if *login {
			var stop func()
			if stop, err = t.startLogin(ctx, dir); err == nil {
				defer stop()
			}
		} else {
			err = t.makeToken(time.Now())
		}
		if err != nil {
			return err
		}
		return serve(ctx, cfg, l, options{
			up: func() { s.say("%s", t.text(l)) },
			// someone who tries a server wants to see when it is up, but no line for each
			// request
			serverLevel: slog.LevelInfo,
		}, s)
	}
}

// devServers returns the server with the built-in tools, and after it those of a client's
// file, if one is named.
func devServers(file string, env config.Environment) (config.Imported, error) {
	servers := []config.Server{{
		Name: devToolbox, Prefix: devToolbox, Builtin: []string{
			"analyze_csv", "calculate", "current_time",
			"get_weather",
		},
		CSVRoot: ".", WeatherURL: forecasts, GeocodingURL: geocoding,
	}}
	if file == "" {
		return config.Imported{Servers: servers}, nil
	}
	found, err := config.Import(file, []string{devToolbox}, env)
	found.Servers = append(servers, found.Servers...)
	return found, err
}

// newTrial completes the config with a tenant that may use everything.
func newTrial(cfg *config.Config, l listeners, found config.Imported) *trial {
	cfg.PublicURL = "http://" + l.clients.Addr().String()
	cfg.LogLevel, cfg.LogFormat = slog.LevelWarn, "text"
	names := make([]string, len(cfg.Servers))
	for i := range cfg.Servers {
		// One person is behind all calls, which no key of a config file can say.
		cfg.Servers[i].OneUser = true
		names[i] = cfg.Servers[i].Name
	}
	cfg.Tenants = []gateway.TenantConfig{{
		ID: devTenant, Servers: names, Rules: []gateway.Rule{{Allow: everything()}},
	}}
	return &trial{config: cfg, found: found}
}

// everything returns the patterns of all that there is.
func everything() []string { return []string{"*", "prompt:*", "resource:*", "skill:*"} }

// makeToken completes the config with an issuer with a fresh key, and signs a token with
// it. The key lives in this process only, so tokens of an earlier run are refused.
func (t *trial) makeToken(now time.Time) error {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	t.config.Issuers = []config.Issuer{{Issuer: auth.Issuer{
		Issuer:     devIssuer,
		Algorithms: []string{"EdDSA"},
		Audiences:  []string{t.config.PublicURL + "/mcp"},
		Tenant:     devTenant,
		Keys:       []auth.Key{{Public: public, Private: private}},
	}}}
	request := tokenRequest{tenant: devTenant, subject: "dev", ttl: devTokenLife}
	t.token, _, err = signToken(t.config, request, now)
	t.expires = now.Add(devTokenLife)
	return err
}

// devText is what dev prints once everything has been started: with a token, or with a
// login, at which the address is enough for a client.
var devText = template.Must(template.New("dev").Parse(
	`drawbridge {{.version}}, dev mode: only this machine can connect

  endpoint  {{.url}}
  operator  http://{{.operator}}/readyz and /metrics
  audit     {{.audit}} (until you stop)
{{range .tools}}  tools     {{.}}
{{end}}{{range .found.Missing}}  missing   {{.}}
{{end}}{{range .found.Skipped}}  skipped   {{.}}
{{end}}{{range .found.Ignored}}  ignored   {{.}}
{{end}}{{if .login}}  login     {{.login}} (a toy that checks nobody)

TOY LOGIN: nobody is checked. Whoever can open a browser here can be anybody. It is for
trying out on this machine; docs/login says how your company's login takes its place.

Claude Code:

claude mcp add --transport http drawbridge {{.url}}

Then type /mcp in Claude Code, choose drawbridge and sign in. A browser opens: choose who
you are, and allow it.
{{else}}  token     tenant {{.tenant}}, may use everything, good until {{.expires}}

Call a tool:

{{.curl}}

Claude Code:

claude mcp add --transport http drawbridge {{.url}} --header "Authorization: Bearer {{.token}}"
{{end}}
Cursor and other clients with an mcpServers file:

{
  "mcpServers": {
    "drawbridge": {
      "type": "http",
      "url": "{{.url}}"{{if .token}},
      "headers": {"Authorization": "Bearer {{.token}}"}{{end}}
    }
  }
}
{{if .token}}
The token alone:

{{.token}}
{{end}}
Stop with Ctrl-C.
`))

// text returns what dev prints, the token included.
func (t *trial) text(l listeners) string {
	tools := make([]string, len(t.config.Servers))
	for i := range t.config.Servers {
		tools[i] = describe(&t.config.Servers[i])
	}
	url := t.config.PublicURL + "/mcp"
	return filled(devText, map[string]any{
		"version": thisBuild().version, "url": url, "operator": l.operator.Addr(),
		"audit": t.config.Audit.File, "tools": tools, "found": t.found, "login": t.login,
		"tenant": devTenant, "expires": t.expires.Format("Mon 15:04 MST"), "token": t.token,
		"curl": t.curl(url),
	})
}

// curl returns one line that works in a shell as it stands. It is a call of the revision
// 2026-07-28, which needs a single request and no session.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
func (t *trial) curl(url string) string {
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"toolbox__calculate","arguments":{"expression":"6*7"},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"curl","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{}}}}`
	headers := []string{
		"Authorization: Bearer " + t.token,
		"Content-Type: application/json",
		"Accept: application/json, text/event-stream",
		"MCP-Protocol-Version: 2026-07-28",
		"Mcp-Method: tools/call",
		"Mcp-Name: toolbox__calculate",
	}
	return fmt.Sprintf("curl -sS %s -H '%s' -d '%s'", url, strings.Join(headers, "' -H '"), body)
}
