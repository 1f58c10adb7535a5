// Package world starts what replicas of the gateway need to be tried out on one machine, and breaks it on command:
//
//	crowd ──▶ nginx | haproxy ──▶ [netfault] replica-0 … ──▶ [netfault] Redis
//	                                              └────────▶ [netfault] upstreams
//
// All programs are real and end with the process that started them. It does not know what clients ask, and judges
// nothing.
package world

import (
	"context"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/chaos/ledger"
)

// Config says how a world is.
type Config struct {
	Dir       string            // empty folder for everything
	Program   string            // path of the gateway
	Balancer  string            // "nginx" or "haproxy"
	Replicas  int               // how many run at the start, Room at most
	Redis     string            // "one"; "watched": master, replica and sentinel; "cluster" of three
	Upstreams map[string]string // name → host:port/path of servers, which each replica reaches through a proxy of its own

	// Direct makes the balancer reach the replicas without proxies, so that one that does not listen refuses
	// connections by itself, as in production. A proxy can only accept and reset them. Replica.Balancer is nil then.
	Direct bool

	// Namespaces puts each replica and each server of Redis into a network namespace of its own, for Partition. It
	// needs root.
	Namespaces bool

	DrainDelay time.Duration // of the gateways; zero: 500 ms
	Patience   time.Duration // redis.patience of the gateways; zero: 1 s
}

// Room is how many replicas a world has at most: the balancer knows an address for each.
const Room = 5

// The tenants: those of Tenants have limits too high to matter, Tight has tight ones. A token may name any user.
const Tight = "tight" // 5 calls a second, bursts of 10

// Tenants returns the tenants with limits that do not matter.
func Tenants() []string { return []string{"red", "blue", "green"} }

// World is a running world.
type World struct {
	URL      string     // of the load balancer, such as http://127.0.0.1:20000, without a path
	Replicas []*Replica // those of the start, and those added later
	Redis    *Redis
}

// Start starts a world. All is ready when it returns, or it returns why not and nothing is left.
func Start(ctx context.Context, c Config) (*World, error) { return &World{}, nil }

// Close ends all and returns when nothing is left.
func (w *World) Close() {}

// Token returns a token of a user of a tenant, which holds for a day.
func (w *World) Token(tenant, user string) string { return "" }

// Ready waits until Redis is up, all replicas that run are ready and use Redis and all upstreams, and the balancer
// sends requests to them. When ctx ends before that, the error says what is not ready and why.
func (w *World) Ready(ctx context.Context) error { return nil }

// Audit returns the records of all replicas, also of those that are gone.
func (w *World) Audit() ([]ledger.Record, error) { return nil, nil }

// Add starts another replica, which the balancer uses as soon as it listens.
func (w *World) Add(ctx context.Context) (*Replica, error) { return nil, nil }

// Partition drops all packets between two parts, from now until Rejoin: "replica-0", "redis" (or "redis-0" …,
// "sentinel"), "balancer", or the name of an upstream. One of them must be a replica or a server of Redis. It needs
// Namespaces.
func (w *World) Partition(a, b string) error { return nil }

// Rejoin ends all partitions.
func (w *World) Rejoin() error { return nil }
