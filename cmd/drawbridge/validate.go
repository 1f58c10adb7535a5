package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/builtin"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// onlineTimeout bounds all connections of -online, which are made at once; a program has
// its start_timeout in addition.
const onlineTimeout = 15 * time.Second

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
	for i := range cfg.Servers {
		f.Notes = append(f.Notes, cfg.Servers[i].API.Notes...)
	}
	catalogue := registry.New()
	fleet := newFleet(catalogue, metrics.New(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	defer fleet.close()
	fleet.apply(ctx, slices.DeleteFunc(slices.Clone(cfg.Servers), config.Server.IsElsewhere))
	if online {
		f.Online = tryOnline(ctx, cfg, catalogue)
	}
	idle := make(map[string][]string)
	for _, s := range f.Online {
		f.Notes = append(f.Notes, slices.Concat(quarantineNotes(s.status), unenforced(s.status))...)
		idle[s.status.Server] = s.status.Idle
	}
	for _, s := range fleet.known() {
		idle[s.Server] = s.Idle // what is quarantined of an HTTP API is in its notes
	}
	f.Warnings = cfg.AllWarnings(catalogue, idle)
	reached := !slices.ContainsFunc(f.Online, func(c check) bool { return !c.OK })
	f.OK = reached && (!f.strict || len(f.Warnings) == 0)
	for _, p := range cfg.Needless(catalogue, online && reached) {
		f.Notes = append(f.Notes, p.String())
	}
}

// check is one thing that -online tried over the network, with the place of the server or
// issuer in the config.
type check struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	Message string `json:"message"`

	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`

	status upstream.Status // of a server that was reached
}

// String writes a check as a line. Only a failed one has its place, for an editor to go
// to.
func (c check) String() string {
	if c.OK {
		return fmt.Sprintf("ok   %s: %s", c.Name, c.Message)
	}
	return fmt.Sprintf("FAIL %s:%d:%d: %s: %s", c.File, c.Line, c.Column, c.Name, c.Message)
}

// runValidate is the command validate. A file that cannot be read has an exit code of its
// own, because then nothing is known about the config.
func runValidate(ctx context.Context, args []string, s streams) error {
	flags := newFlags("validate", "[-config F] [-json] [-online] [-strict]",
		"Loads and checks everything that needs no network, and starts nothing. All problems come at once, "+
			"as file:line:col: problem.\n"+
			"What works and may not be meant is a warning, with its code at the end; acknowledge: [code] "+
			"in the config, a tenant, a rule or a server silences it there.\n"+
			"Exit 0 when the config is good, 1 when it has problems, 2 when it cannot be read.", s)
	file := flags.String("config", defaultConfigFile, "the config `file`")
	asJSON := flags.Bool("json", false, "print JSON")
	online := flags.Bool("online", false, "also connect to the servers, databases and Redis, "+
		"fetch the issuers' key sets, and try whether people can sign in")
	strict := flags.Bool("strict", false, "exit 1 also when there are only warnings")
	if err := parseFlags(flags, args, s); err != nil {
		return err
	}
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
	show := found.text
	if *asJSON {
		show = found.json
	}
	s.say("%s", show(described))
	if !found.OK {
		return errUnsaid
	}
	return nil
}

// text returns the findings as lines; summary says what a good config holds.
func (f *findings) text(summary string) string {
	var out strings.Builder
	for _, p := range f.Problems {
		fmt.Fprintln(&out, p)
	}
	for _, w := range f.Warnings {
		fmt.Fprintln(&out, w)
	}
	for _, note := range f.Notes {
		fmt.Fprintf(&out, "note: %s\n", note)
	}
	for _, c := range f.Online {
		fmt.Fprintln(&out, c)
	}
	if f.OK && f.Audit != "" {
		fmt.Fprintf(&out, "audit records go to %s\n", f.Audit)
	}
	if f.OK {
		fmt.Fprintf(&out, "%s: ok (%s)\n", f.File, summary)
		return out.String()
	}
	var why []string
	if n := len(f.Problems) + f.failures(); n > 0 {
		why = append(why, count(n, "problem"))
	}
	if f.strict && len(f.Warnings) > 0 {
		why = append(why, count(len(f.Warnings), "warning"))
	}
	fmt.Fprintf(&out, "%s: %s\n", f.File, strings.Join(why, ", "))
	return out.String()
}

// failures counts the checks that failed.
func (f *findings) failures() int {
	n := 0
	for _, c := range f.Online {
		if !c.OK {
			n++
		}
	}
	return n
}

// json returns the findings as JSON. It ignores the summary, and has that argument only
// to be interchangeable with text.
func (f *findings) json(string) string {
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		panic(err) // findings consist of texts and numbers, which can always be encoded
	}
	return string(data) + "\n"
}

// tryOnline connects to all servers and key sets at once and waits for the answers, so
// that a slow one does not add its time to that of the others. What the servers offer
// goes into the catalogue. The checks come in the order of the config, Redis and issuers
// first.
func tryOnline(ctx context.Context, cfg *config.Config, catalogue *registry.Registry) []check {
	limited, cancel := context.WithTimeout(ctx, onlineTimeout)
	defer cancel()
	var tries []func() check
	extensions, signer := carried(cfg), newSigner(cfg)
	if len(cfg.Redis.Addresses) > 0 {
		tries = append(tries, func() check { return tryRedis(limited, cfg.Redis) })
	}
	for _, iss := range cfg.Issuers {
		if iss.JWKSURL != "" {
			tries = append(tries, func() check { return tryKeySet(limited, iss) })
		}
	}
	for i := range cfg.Logins {
		tries = append(tries, func() check { return tryLogin(limited, cfg, &cfg.Logins[i]) })
	}
	if slices.ContainsFunc(cfg.Clients, func(c config.Client) bool { return speaks(&c) }) {
		tries = append(tries, func() check { return tryNames(limited, cfg) })
	}
	for _, srv := range cfg.Servers {
		if len(srv.Databases) > 0 {
			tries = append(tries, func() check { return tryDatabases(limited, srv) })
		}
		// HTTP APIs are not tried: they have no request that is sure to be harmless.
		if srv.IsElsewhere() {
			tries = append(tries, func() check {
				if srv.Command == "" {
					return tryServer(limited, srv, signer, extensions, catalogue)
				}
				// a program has to start before it can answer
				limited, cancel := context.WithTimeout(ctx, srv.StartTimeout+onlineTimeout)
				defer cancel()
				return tryServer(limited, srv, signer, extensions, catalogue)
			})
		}
	}
	checks := make([]check, len(tries))
	var all sync.WaitGroup
	for i, try := range tries {
		all.Go(func() { checks[i] = try() })
	}
	all.Wait()
	for i := range checks {
		at := cfg.Position(checks[i].Name)
		checks[i].File, checks[i].Line, checks[i].Column = at.File, at.Line, at.Column
	}
	return checks
}

// tryNames looks whether access keys are called as clients are.
func tryNames(ctx context.Context, cfg *config.Config) check {
	c := check{Name: "clients", OK: true, Message: "no access key has the name of one"}
	_, db, err := openThere(cfg, true)
	if err == nil && db != nil {
		var problem string
		problem, err = namesake(ctx, db, cfg)
		if err = errors.Join(err, db.Close()); problem != "" {
			c.OK, c.Message = false, problem
		}
	}
	if err != nil {
		c.OK, c.Message = false, err.Error()
	}
	return c
}

// redisTimeout is how long -online waits for Redis, which has several tries within that.
const redisTimeout = 5 * time.Second

// tryRedis connects to Redis as a replica does, and writes what shows that writes are
// taken: a key that ends by itself.
func tryRedis(ctx context.Context, r config.Redis) check {
	c := check{Name: "redis"}
	settings, err := redisConfig(r)
	if err != nil {
		c.Message = err.Error()
		return c
	}
	// so that the reason is not that it is stopped
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	store, up := redis.New(settings), make(chan struct{})
	var first sync.Once
	store.OnChange(func(bool) { first.Do(func() { close(up) }) }) // the first change is that it is up
	var over sync.WaitGroup
	over.Go(func() { _ = store.Run(running) }) // it ends with its context, without an error
	defer func() { stop(); over.Wait() }()
	late := time.NewTimer(redisTimeout)
	defer late.Stop()
	select {
	case <-up:
		c.OK, c.Message = true, "is up and takes writes"
	case <-late.C:
	case <-ctx.Done():
	}
	if err := store.Up(); err != nil {
		c.OK, c.Message = false, err.Error()
		return c
	}
	use, err := store.MemoryUse(ctx)
	c.OK, c.Message = judgeMemory(use, err, r.Memory)
	return c
}

// memoryFactor is how many times redis.memory the server must be able to hold: replicas
// that have ended leave behind what they had for some minutes, and Redis needs memory
// besides.
const memoryFactor = 2

// judgeMemory says whether Redis has room for what replicas may keep there.
func judgeMemory(use redis.MemoryUse, err error, memory int64) (ok bool, message string) {
	const mib = 1 << 20
	const up = "is up and takes writes"
	switch {
	case errors.Is(err, redis.ErrDenied):
		return true, up + "; how much memory it has cannot be asked: give its user the right +info"
	case err != nil:
		return false, err.Error()
	case use.Evicts:
		return false, "its maxmemory-policy must be noeviction: any other ends sessions without a sign"
	case use.Most == 0:
		return true, up + "; its maxmemory is not set, so nothing bounds what else it serves"
	case use.Most < memoryFactor*memory:
		return false, fmt.Sprintf("its maxmemory is %d MiB: it must be %d MiB, %d times redis.memory, or "+
			"that smaller",
			use.Most/mib, memoryFactor*memory/mib, memoryFactor)
	case use.Used > use.Most-memory:
		return false, fmt.Sprintf("%d of its %d MiB are used, which leaves less than the %d MiB of "+
			"redis.memory",
			use.Used/mib, use.Most/mib, memory/mib)
	}
	return true, fmt.Sprintf("%s; %d of its %d MiB are used", up, use.Used/mib, use.Most/mib)
}

// tryDatabases connects to each database of a server.
func tryDatabases(ctx context.Context, srv config.Server) check {
	lines, err := builtin.CheckDatabases(ctx, srv.BuiltinConfig())
	c := check{Name: "server " + srv.Name, OK: err == nil, Message: strings.Join(lines, "; ")}
	if err != nil {
		c.Message = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return c
}

// tryServer connects to one server, reads its lists into the catalogue and disconnects. It
// declares the same extensions as the gateway does.
func tryServer(ctx context.Context, srv config.Server, signer *credential.Signer,
	extensions *mcp.ExtensionTable, catalogue *registry.Registry,
) check {
	c := check{Name: "server " + srv.Name}
	cfg := upstreamConfig(srv, slog.New(slog.DiscardHandler))
	cfg.Extensions = extensions
	if own := credentialConfig(srv, signer, slog.New(slog.DiscardHandler)); own != nil {
		cfg.Credential = credential.New(*own)
		defer cfg.Credential.Close()
	}
	status, err := upstream.New(cfg, catalogue).Probe(ctx)
	if err != nil {
		c.Message = status.Problem + lastSaid(status)
		return c
	}
	c.status = withoutMeant(srv, status)
	c.OK, c.Message = true, fmt.Sprintf("speaks %s, offers %s", status.Revision, offered(status))
	if n := len(status.Refused); n > 0 {
		first := status.Refused[0]
		c.Message += fmt.Sprintf("; %d left out (%s %s: %s, …)", n, first.Kind, first.Item, first.Reason)
	}
	return c
}

// offered says what a server offers: its tools, and of the other kinds those that it has.
func offered(s upstream.Status) string {
	parts := []string{count(s.Tools, "tool")}
	for _, other := range []struct {
		n    int
		noun string
	}{{s.Prompts, "prompt"}, {s.Resources, "resource"}, {s.Templates, "template"}} {
		if other.n > 0 {
			parts = append(parts, count(other.n, other.noun))
		}
	}
	return strings.Join(parts, ", ")
}

// tryKeySet fetches an issuer's key set and checks it.
func tryKeySet(ctx context.Context, iss config.Issuer) check {
	c := check{Name: "issuer " + iss.Issuer.Issuer}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, iss.JWKSURL, http.NoBody)
	if err != nil {
		c.Message = "jwks_url is not an address"
		return c
	}
	response, err := keySetClient(iss).Do(request)
	if err != nil {
		c.Message = err.Error()
		return c
	}
	defer closeQuietly(response.Body)
	body, err := readLimited(response.Body)
	switch {
	case err != nil:
		c.Message = err.Error()
	case response.StatusCode != http.StatusOK:
		c.Message = fmt.Sprintf("jwks_url answered %d", response.StatusCode)
	default:
		c.OK, c.Message = checkKeySet(iss, body)
	}
	return c
}

// tryLogin asks a provider for all that a sign-in needs, and whether it sends people back
// here.
func tryLogin(ctx context.Context, cfg *config.Config, login *config.Login) check {
	c := check{Name: "login " + login.Name}
	p, err := newProvider(login, slog.New(slog.DiscardHandler))
	if err != nil {
		c.Message = err.Error()
		return c
	}
	callback := cfg.PublicAddress() + signin.CallbackPath + login.Name
	notes, err := p.Try(ctx, callback, claimsRead(login))
	if err != nil {
		c.Message = err.Error()
		return c
	}
	c.OK = true
	c.Message = strings.Join(append([]string{"people sign in there and come back to " + callback}, notes...),
		"; ")
	return c
}

// checkKeySet tells whether a key set that was fetched can be used for the issuer. It
// makes a verifier with the key set as if it came from a file, since package auth reads
// files at once and fetches only later.
func checkKeySet(iss config.Issuer, body []byte) (ok bool, message string) {
	fromFile := iss.Issuer
	fromFile.JWKSURL, fromFile.JWKS = "", body
	if _, err := auth.New(auth.Config{Issuers: []auth.Issuer{fromFile}}); err != nil {
		return false, err.Error()
	}
	return true, "the key set is there and can be read"
}
