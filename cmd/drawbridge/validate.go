package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/pgdial"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/registry/builtin"
)

// findings are what the command validate found. With -json they are printed as they are.
type findings struct {
	OK       bool             `json:"ok"`
	File     string           `json:"file"`
	Problems []config.Problem `json:"problems"`
	Warnings []config.Warning `json:"warnings,omitempty"` // settings that work and may not be meant
	// things that are left out or needless, and no fault
	Notes  []string `json:"notes,omitempty"`
	Online []check  `json:"online,omitempty"`
	Audit  string   `json:"audit,omitempty"` // where the audit records of a good config go

	strict bool // warnings make the config fail too
}

// judge looks at a config that was loaded without problems for warnings and notes.
// Warnings about patterns need to know what the servers offer. So a catalogue is filled
// as in the running gateway, with the built-in tools and HTTP APIs and, if online, with
// what the other servers say when they are connected to.
func (f *findings) judge(ctx context.Context, cfg *config.Config, online bool) {
	p := newPlanned(ctx, cfg, online, triesBeside(cfg)...)
	defer p.fleet.close()
	f.Online = p.checks
	known, idle := p.fleet.known(), make(map[string][]string)
	for i := range cfg.Servers {
		s := &cfg.Servers[i]
		status := known[s.Name]
		idle[s.Name] = status.Idle
		f.Notes = slices.Concat(f.Notes, s.API.Notes, quarantineNotes(status),
			unenforced(status, len(status.Unenforced)))
	}
	f.Notes = append(f.Notes, p.desk().LeftOut()...)
	reached := len(failed(p.checks)) == 0
	warnings, needless := cfg.Judge(p.fleet.catalogue, online && reached, idle)
	f.Warnings, f.OK = warnings, reached && (!f.strict || len(warnings) == 0)
	for _, one := range needless {
		f.Notes = append(f.Notes, one.String())
	}
}

// validateHelp is the help of the command validate.
var validateHelp = help{
	"[-config F] [-json] [-online] [-strict]",
	"Loads and checks everything that needs no network, and starts nothing. All problems come at once, " +
		"as file:line:col: problem.\n" +
		"What works and may not be meant is a warning, with its code at the end; acknowledge: [code] " +
		"in the config, a tenant, a rule or a server silences it there.\n" +
		"Exit 0 when the config is good, 1 when it has problems, 2 when it cannot be read.",
}

// validateCommand is the command validate. A file that cannot be read has an exit code of
// its own, because then nothing is known about the config.
func validateCommand(flags *flag.FlagSet) action {
	file := flags.String("config", defaultConfigFile, "the config `file`")
	inJSON := flags.Bool("json", false, "print JSON")
	online := flags.Bool("online", false, "also connect to the servers, databases, Redis and PostgreSQL of "+
		"data, fetch the issuers' key sets, and try whether people can sign in")
	strict := flags.Bool("strict", false, "exit 1 also when there are only warnings")
	return func(ctx context.Context, _ []string, s streams) error {
		cfg, err := config.Load(*file, config.ProcessEnvironment())
		found := findings{File: *file, Problems: []config.Problem{}, strict: *strict}
		problems, isRefused := errors.AsType[config.RefusedError](err)
		if err != nil && !isRefused {
			return refused("%w", err)
		}
		described := ""
		if isRefused {
			found.Problems = problems
		} else {
			warnOfMemory(cfg, planHere(cfg.Limits))
			found.judge(ctx, cfg, *online)
			described, found.Audit = summary(cfg), auditLocation(cfg)
		}
		text := found.text(described)
		if *inJSON {
			text = asJSON(&found)
		}
		s.say("%s", text)
		return unsaidIf(!found.OK)
	}
}

// findingsText has a line for each of the findings.
var findingsText = template.Must(template.New("findings").Parse(`{{range .Problems}}{{.}}
{{end}}{{range .Warnings}}{{.}}
{{end}}{{range .Notes}}note: {{.}}
{{end}}{{range .Online}}{{.}}
{{end}}{{if and .OK .Audit}}audit records go to {{.Audit}}
{{end}}`))

// text returns the findings as lines; summary says what a good config holds.
func (f *findings) text(summary string) string {
	verdict := "ok (" + summary + ")"
	if !f.OK {
		problems, warnings := len(f.Problems)+len(failed(f.Online)), len(f.Warnings)
		verdict = strings.Trim(when(problems > 0, "%s", count(problems, "problem"))+", "+
			when(f.strict && warnings > 0, "%s", count(warnings, "warning")), ", ")
	}
	return filled(findingsText, f) + f.File + ": " + verdict + "\n"
}

// triesBeside returns what validate -online tries beside the servers that it asks, in the
// order of the config; Redis, what is kept and issuers are first.
func triesBeside(cfg *config.Config) (tries []try) {
	add := func(name, place string, run func(context.Context) (string, error)) {
		tries = append(tries, try{name: name, place: place, run: run})
	}
	if len(cfg.Redis.Addresses) > 0 {
		add("redis", "redis",
			func(ctx context.Context) (string, error) { return tryRedis(ctx, cfg.Redis) })
	}
	if file := cfg.Data.PostgresFile; file != "" {
		add("data", "data", func(ctx context.Context) (string, error) { return tryStore(ctx, file) })
	}
	for i, iss := range withKeySets(cfg.Issuers) {
		if iss.JWKSURL != "" {
			add("issuer "+iss.Issuer, config.EntryName(i),
				func(ctx context.Context) (string, error) { return tryKeySet(ctx, iss) })
		}
	}
	for i := range cfg.Logins {
		name := "login " + cfg.Logins[i].Name
		add(name, name,
			func(ctx context.Context) (string, error) { return tryLogin(ctx, cfg, &cfg.Logins[i]) })
	}
	if slices.ContainsFunc(cfg.Clients, func(c clients.Fixed) bool { return speaks(&c) }) {
		add("clients", "clients", func(ctx context.Context) (string, error) { return tryNames(ctx, cfg) })
	}
	for _, srv := range cfg.Servers {
		if name := "server " + srv.Name; len(srv.Databases) > 0 {
			add(name, name, func(ctx context.Context) (string, error) { return tryDatabases(ctx, srv) })
		}
		// HTTP APIs are not tried: they have no request that is sure to be harmless.
	}
	return tries
}

// tryNames looks whether access keys are called as clients are.
func tryNames(ctx context.Context, cfg *config.Config) (message string, err error) {
	_, db, err := openThere(cfg, true)
	if err == nil && db != nil {
		defer closeQuietly(db)
		err = namesake(ctx, db, cfg)
	}
	return "no access key has the name of one", err
}

// redisTimeout is how long -online waits for Redis, which has several tries within that.
const redisTimeout = 5 * time.Second

// tryRedis connects to Redis as a replica does, and writes what shows that writes are
// taken: a key that ends by itself.
func tryRedis(ctx context.Context, r config.Redis) (message string, err error) {
	settings, err := redisConfig(r)
	if err != nil {
		return "", err
	}
	store := redis.New(settings)
	// without the end of ctx, so that the reason is not that it is stopped
	running := startTask(context.WithoutCancel(ctx), store.Run)
	defer running.stop()
	late, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	awaitRedis(late, store)
	if err := store.Up(); err != nil {
		return "", err
	}
	use, err := store.MemoryUse(ctx)
	return judgeMemory(use, err, r.Memory)
}

// memoryFactor is how many times redis.memory the server must be able to hold: replicas
// that have ended leave behind what they had for some minutes, and Redis needs memory
// besides.
const memoryFactor = 2

// judgeMemory says whether Redis has room for what replicas may keep there.
func judgeMemory(use redis.MemoryUse, err error, memory int64) (message string, fault error) {
	const mib = 1 << 20
	const up = "is up and takes writes"
	switch {
	case errors.Is(err, redis.ErrDenied):
		return up + "; how much memory it has cannot be asked: give its user the right +info", nil
	case err != nil:
		return "", err
	case use.Evicts:
		return "", errors.New("its maxmemory-policy must be noeviction: any other ends sessions without " +
			"a sign")
	case use.Most == 0:
		return up + "; its maxmemory is not set, so nothing bounds what else it serves", nil
	case use.Most < memoryFactor*memory:
		return "", fmt.Errorf("its maxmemory is %d MiB: it must be %d MiB, %d times redis.memory, or that "+
			"smaller", use.Most/mib, memoryFactor*memory/mib, memoryFactor)
	case use.Used > use.Most-memory:
		return "", fmt.Errorf("%d of its %d MiB are used, which leaves less than the %d MiB of redis.memory",
			use.Used/mib, use.Most/mib, memory/mib)
	}
	return fmt.Sprintf("%s; %d of its %d MiB are used", up, use.Used/mib, use.Most/mib), nil
}

// maxGreeting bounds each message of a PostgreSQL server that lets a role in, in bytes.
const maxGreeting = 64 << 10

// tryStore connects to the PostgreSQL server of data, with the address in a file. The
// tables are left alone: a gateway that starts makes them, and brings them up to date.
func tryStore(ctx context.Context, file string) (message string, err error) {
	connection, err := pgdial.Connect(ctx, file, pgdial.Options{MaxMessage: maxGreeting})
	if err != nil {
		return "", err
	}
	err = errors.Join(pgdial.Writable(ctx, connection), connection.Close(ctx))
	return "PostgreSQL lets the gateway in", err
}

// tryDatabases connects to each database of a server.
func tryDatabases(ctx context.Context, srv config.Server) (message string, err error) {
	lines, err := builtin.CheckDatabases(ctx, srv.BuiltinConfig())
	return strings.Join(lines, "; "), err
}

// tryKeySet fetches an issuer's key set and reads it as the running gateway does. It says
// which keys that refuses.
func tryKeySet(ctx context.Context, iss auth.Issuer) (message string, err error) {
	set, err := iss.Fetch(ctx)
	if err != nil {
		return "", fmt.Errorf("fetch key set: %w", err)
	}
	refused, err := auth.ReadKeySet(set, iss.Algorithms)
	message = "the key set is there and can be read"
	for _, key := range refused {
		message += "; refused " + key
	}
	return message, err
}

// tryLogin asks a provider for all that a sign-in needs, and whether it sends people back
// here.
func tryLogin(ctx context.Context, cfg *config.Config, login *config.Login) (message string, err error) {
	p := newProvider(login, slog.New(slog.DiscardHandler))
	callback := cfg.PublicAddress() + signin.CallbackPath + login.Name
	notes, err := p.Try(ctx, callback, login.ClaimsRead())
	found := append([]string{"people sign in there and come back to " + callback}, notes...)
	return strings.Join(found, "; "), err
}
