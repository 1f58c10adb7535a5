// Package world is what labs stand on: the gateway that Build makes of its sources,
// processes that end with the one that started them, and what the system says of these.
// World is replicas of the gateway with all that they need on one machine, which break on
// command:
//
//	clients ──▶ nginx | haproxy ──▶ [netfault] replica-0 … ──▶ [netfault] Redis
//	                                                └────────▶ [netfault] upstreams
//
// All programs are real. The package does not know what clients ask, and judges nothing.
package world

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
)

// Config says how a world is.
type Config struct {
	Dir      string // empty folder for everything
	Program  string // path of the gateway
	Balancer string // "nginx" or "haproxy"
	Replicas int    // how many run at the start, Room at most
	Redis    string // "one"; "watched": master, replica and sentinel; "cluster" of three
	// name → host:port/path of servers, which each replica reaches through a proxy of its
	// own
	Upstreams map[string]string

	// Direct makes the balancer reach the replicas without proxies, so that one that does
	// not listen refuses connections by itself, as in production: while it stops, a proxy
	// can only accept and reset them. Replica.Balancer is nil then.
	Direct bool

	// Links makes the replicas reach each other through proxies, Replica.Link. It goes
	// without Namespaces.
	Links bool

	// Namespaces puts each replica and each server of Redis into a network namespace of
	// its own, for Drop. Where they cannot be had, the error of Start is
	// ErrNoNamespaces.
	Namespaces bool

	EventAge time.Duration // sessions.events.age of the gateways; zero: their default of 5 m
	Patience time.Duration // redis.patience of the gateways; zero: 1 s, since all share a few processors
}

// Room is how many replicas a world has at most: the balancer knows an address for each.
const Room = 5

// World is a running world. Its methods are for one goroutine, but for Token.
type World struct {
	URL      string     // of the load balancer, such as http://127.0.0.1:20000, without a path
	Replicas []*Replica // those of the start, and those added later
	Redis    *Redis

	*Keeper // of all its processes, and of those beside it, which end with it

	config   Config
	network  *network
	balancer *balancer
	slots    []*Replica   // Room of them; the first ones are Replicas
	client   *http.Client // of the operator
}

// Start starts a world. All is ready when it returns, or it returns why not and nothing
// is left. It lasts until Close, also when ctx ends.
func Start(ctx context.Context, c Config) *World {
	c.Patience, c.EventAge = cmp.Or(c.Patience, time.Second), cmp.Or(c.EventAge, 5*time.Minute)
	must.Be(c.Replicas >= 1 && c.Replicas <= Room, "%d replicas, want 1 to %d", c.Replicas, Room)
	must.Be(c.Balancer == "nginx" || c.Balancer == "haproxy", "the balancer is %q, want nginx or haproxy",
		c.Balancer)
	must.Be(len(c.Upstreams) > 0, "there is no upstream, and a gateway needs one")
	c.Dir, c.Program = must.Have(filepath.Abs(c.Dir)), must.Have(filepath.Abs(c.Program))
	w := &World{config: c, Keeper: &Keeper{}, client: &http.Client{
		Timeout:   operatorTime,
		Transport: &http.Transport{DisableKeepAlives: true},
	}}
	defer must.Else(w.Close)
	w.begin(ctx)
	return w
}

// begin starts all parts, each after those that it needs.
func (w *World) begin(ctx context.Context) {
	w.network = w.newNetwork(ctx)
	w.Redis = startRedis(ctx, w.config.Redis, w.config.Dir, w.Keeper, w.network)
	address := must.Have(freeport.Address())
	w.URL = "http://" + address
	must.OK(os.WriteFile(filepath.Join(w.config.Dir, secretFile), []byte(secret), 0o600))
	for i := range Room {
		w.slots = append(w.slots, w.newReplica(i))
	}
	for range w.config.Replicas {
		w.launchNext(ctx)
	}
	for _, r := range w.Replicas { // all begin at once, and one that ends says why
		r.ready(ctx)
	}
	w.balancer = w.startBalancer(partBalancer, address)
	w.Ready(ctx)
}

// newNetwork puts all on loopback, or each server of Redis and each replica that may ever
// be into a space.
func (w *World) newNetwork(ctx context.Context) *network {
	if !w.config.Namespaces {
		return &network{outside: loopback, balancer: loopback, trusted: loopback + "/32"}
	}
	parts := storeNames(w.config.Redis)
	for i := range Room {
		parts = append(parts, replicaName(i))
	}
	return inSpaces(ctx, w.Keeper, w.config.Dir, parts)
}

// Add starts another replica and returns when it is ready. The balancer uses it from then
// on. Stop is its opposite.
func (w *World) Add(ctx context.Context) *Replica {
	r := w.launchNext(ctx)
	r.ready(ctx)
	return r
}

// launchNext starts the first replica that was never started.
func (w *World) launchNext(ctx context.Context) *Replica {
	must.Be(len(w.Replicas) < len(w.slots),
		"there are %d replicas already, and the balancer knows no others: start one that has stopped", Room)
	r := w.slots[len(w.Replicas)]
	r.Launch(ctx)
	w.Replicas = w.slots[:len(w.Replicas)+1]
	return r
}

// Close ends all and returns when nothing is left. It may be called again.
func (w *World) Close() {
	w.Keeper.Close()
	for _, r := range w.slots {
		r.closeProxies()
	}
	if w.network != nil {
		For(context.Background(), commandTime, w.network.close)
	}
}

const (
	issuer     = "https://chaos.test/"
	secret     = "chaos-2b5f90c1e47d6a83-hmac-secret" //nolint:gosec // of tokens that nobody takes but our own gateways
	secretFile = "secret"
	logFile    = "log"
)

// Token returns a token of a user of a tenant, which holds for 23 hours. It may be called
// from many goroutines.
func (w *World) Token(tenant, user string) string {
	return Token(secret, issuer, w.URL+"/mcp", user, map[string]any{tenantClaim: tenant})
}

// Token returns a token by HMAC with SHA-256 for a gateway of ours, which holds for 23
// hours. The secret is that of the issuer's file.
func Token(secret, issuer, audience, user string, claims map[string]any) string {
	now := time.Now()
	return must.Have(auth.Sign(auth.Key{Public: []byte(secret), Private: []byte(secret)}, "HS256",
		auth.Claims{
			Issuer: issuer, Subject: user, Audience: audience, Extra: claims,
			IssuedAt: now.Add(-time.Minute), Expiry: now.Add(23 * time.Hour),
		}))
}

// Audit returns the records of all replicas, also of those that are gone. Audit files
// that are no files, such as pipes, are left out.
func (w *World) Audit() (all []ledger.Record) {
	for _, r := range w.Replicas {
		for _, path := range r.audits {
			all = append(all, readAudit(path)...)
		}
	}
	return all
}

func readAudit(path string) []ledger.Record {
	if about, err := os.Stat(path); errors.Is(err, os.ErrNotExist) || err == nil &&
		!about.Mode().IsRegular() {
		return nil
	}
	file := must.Have(os.Open(path)) //nolint:gosec // a file of ours
	defer file.Close()               //nolint:errcheck // it was only read
	return ledger.ReadRecords(file)
}
