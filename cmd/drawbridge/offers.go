package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// planned is a config, and what its servers offer, for commands that start no gateway.
// Built-in tools and HTTP APIs are known from the config; programs and addresses only if
// they were asked. Of the others it is known that they were not reached, so that a name
// can be told to be one of theirs by its prefix.
type planned struct {
	cfg    *config.Config
	speaks map[[2]string]bool      // Speakers of the config: of many tenants they are many
	fleet  *fleet                  // runs those of the config, and has the status of all that are known
	desk   func() *gateway.Gateway // made when it is asked for first
	checks []check
}

// newPlanned returns a config with what its servers offer. Only if online, those
// elsewhere are asked, and what is to be tried beside them is tried at the same time. Its
// fleet is for the caller to close.
func newPlanned(ctx context.Context, cfg *config.Config, online bool, beside ...try) *planned {
	catalogue := registry.New()
	p := &planned{
		cfg: cfg, speaks: map[[2]string]bool{},
		desk: sync.OnceValue(func() *gateway.Gateway { return deskOf(cfg, catalogue) }),
	}
	for _, speaker := range cfg.Speakers() {
		p.speaks[speaker] = true
	}
	p.fleet = newFleet(catalogue, metrics.New(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	p.fleet.extensions, p.fleet.signer = carried(cfg), newSigner(cfg)
	tries := beside
	for _, s := range cfg.Servers {
		if s.IsElsewhere() {
			catalogue.Lose(s.Name, s.Prefix)
			tries = append(tries, p.try(s))
		}
	}
	p.fleet.apply(ctx, slices.DeleteFunc(slices.Clone(cfg.Servers), config.Server.IsElsewhere))
	if online {
		p.checks = tryAll(ctx, cfg, tries)
	}
	return p
}

// deskOf returns a gateway that serves nobody, with the tenants of a config and what the
// catalogue offers.
func deskOf(cfg *config.Config, catalogue *registry.Registry) *gateway.Gateway {
	g := gateway.New(gateway.Config{
		Registry: catalogue, Limiter: ratelimit.NewMemory(0), Metrics: metrics.New(prometheus.NewRegistry()),
		Logger: slog.New(slog.DiscardHandler), Slots: cfg.Limits.MaxRequests,
	})
	g.SetPolicy(cfg.Digest, cfg.Tenants)
	return g
}

// try returns how a server elsewhere is asked.
func (p *planned) try(s config.Server) try {
	name := "server " + s.Name
	t := try{name: name, place: name, run: func(ctx context.Context) (string, error) {
		return p.ask(ctx, s)
	}}
	if s.Command != "" {
		t.more = s.StartTimeout // a program has to start before it can answer
	}
	return t
}

// ask connects to one server, as the gateway does, reads its lists into the catalogue and
// disconnects.
func (p *planned) ask(ctx context.Context, s config.Server) (message string, err error) {
	cfg, catalogue := p.fleet.connection(s), p.fleet.catalogue
	defer cfg.Credential.Close()
	if s.Auth.OwnLists {
		catalogue = registry.New() // nobody will read the lists of a person
	}
	status, err := upstream.New(cfg, catalogue).Probe(ctx)
	if err != nil {
		return "", errors.New(status.Problem + lastSaid(status))
	}
	p.fleet.keep(withoutMeant(s, status))
	message = fmt.Sprintf("speaks %s, offers %s", status.Revision, offered(status))
	if n := len(status.Refused); n > 0 {
		message += fmt.Sprintf("; %d left out (%s)", n, refusals(status.Refused))
	}
	return message, nil
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
}

// failed returns the checks that failed.
func failed(checks []check) []check {
	return slices.DeleteFunc(slices.Clone(checks), func(c check) bool { return c.OK })
}

// String writes a check as a line. Only a failed one has its place, for an editor to go
// to.
func (c check) String() string {
	if c.OK {
		return fmt.Sprintf("ok   %s: %s", c.Name, c.Message)
	}
	return fmt.Sprintf("FAIL %s:%d:%d: %s: %s", c.File, c.Line, c.Column, c.Name, c.Message)
}

// try is one thing that -online tries. The message says what it finds, or the error why
// it failed. Where it stands in the config is the Position of its place.
type try struct {
	name, place string
	more        time.Duration // that it may take beyond onlineTimeout
	run         func(ctx context.Context) (message string, err error)
}

// onlineTimeout bounds all connections of -online, which are made at once.
const onlineTimeout = 15 * time.Second

// check runs a try.
func (t try) check(ctx context.Context, cfg *config.Config) check {
	ctx, cancel := context.WithTimeout(ctx, onlineTimeout+t.more)
	defer cancel()
	message, err := t.run(ctx)
	if err != nil {
		message = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	at := cfg.Position(t.place)
	return check{t.name, err == nil, message, at.File, at.Line, at.Column}
}

// tryAll tries all at once and waits for the answers, so that a slow one does not add its
// time to that of the others.
func tryAll(ctx context.Context, cfg *config.Config, tries []try) []check {
	checks := make([]check, len(tries))
	var all sync.WaitGroup
	for i, try := range tries {
		all.Go(func() { checks[i] = try.check(ctx, cfg) })
	}
	all.Wait()
	return checks
}

// offered says what a server offers: its tools, and of the other kinds those that it has.
func offered(s upstream.Status) string {
	parts := []string{count(s.Tools, "tool")}
	for _, other := range []struct {
		n    int
		noun string
	}{{s.Prompts, "prompt"}, {s.Resources, "resource"}, {s.Templates, "template"}, {s.Skills, "skill"}} {
		if other.n > 0 {
			parts = append(parts, count(other.n, other.noun))
		}
	}
	return strings.Join(parts, ", ")
}

// refusals says in one line which item is the first that is left out, and what is wrong
// with it. Of what is quarantined there are notes.
func refusals(all []registry.Refusal) string {
	first := all[0]
	text := fmt.Sprintf("%s %s: %s", first.Kind, first.Item, whyLeftOut(first))
	if isList(first) {
		text = fmt.Sprintf("all %ss, %v", first.Kind, first.Err)
	}
	return legible(text) + when(len(all) > 1, ", …")
}
