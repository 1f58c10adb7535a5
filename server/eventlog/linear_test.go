package eventlog_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/drawbridge-mcp/drawbridge/internal/netfault"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
)

// operation is one call of a Log, for a session with one stream.
type operation struct{ session, what, text string }

// outcome is what it returned. Of one that failed it is not known whether it was done.
type outcome struct {
	text    string
	unknown bool
	failed  bool
}

// sessionHistory is what a session has been through.
type sessionHistory struct {
	events string
	last   bool
}

// after returns what a session may be after a deed, if the outcome is one that it can
// have then.
func (p sessionHistory) after(d operation, o outcome) []sessionHistory {
	next, refused := p, false
	switch d.what {
	case "append", "last":
		refused = refused || p.last
		next.events += d.text + " "
		next.last = d.what == "last"
	}
	switch {
	case o.failed && refused:
		return []sessionHistory{p}
	case o.failed:
		return []sessionHistory{p, next}
	case d.what == "read" && o.unknown && p.events == "" && !p.last: // it has not begun
		return []sessionHistory{p}
	case o.unknown != refused:
		return nil
	case refused:
		return []sessionHistory{p}
	case d.what == "read" && o.text != p.events:
		return nil
	}
	return []sessionHistory{next}
}

// model says what a Log is: as if all calls had been made one after the other, each at
// some time while it ran.
func model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
			by := make(map[string][]porcupine.Operation)
			for _, o := range history {
				name := o.Input.(operation).session
				by[name] = append(by[name], o)
			}
			for _, part := range by {
				parts = append(parts, part)
			}
			return parts
		},
		Init: func() []any { return []any{sessionHistory{}} },
		Step: func(state, input, output any) (states []any) {
			for _, p := range state.(sessionHistory).after(input.(operation), output.(outcome)) {
				states = append(states, p)
			}
			return states
		},
		Equal: func(a, b any) bool { return a == b },
	}
	return m.ToModel()
}

// do makes the call.
func (d operation) do(t *testing.T, l eventlog.Log) outcome {
	var o outcome
	var err error
	switch d.what {
	case "append", "last":
		_, err = l.Append(t.Context(), of(d.session), "q1", []byte(d.text), d.what == "last")
	case "read":
		var events []eventlog.Event
		events, _, err = l.Read(t.Context(), of(d.session), "q1", "")
		for _, e := range events {
			o.text += string(e.Data) + " "
		}
	}
	o.unknown = errors.Is(err, eventlog.ErrUnknown)
	o.failed = err != nil && !o.unknown
	return o
}

// history has clients make calls at several replicas, all at the same time, and returns
// what came of them. Now and then one of them cuts all connections, and who meets that
// heals them; with a nil cut, none is.
func history(t *testing.T, replicas []eventlog.Log, seed uint64, cut func(bool)) []porcupine.Operation {
	const clients, sessions, deeds = 4, 6, 60
	began := time.Now()
	var mu sync.Mutex
	var all []porcupine.Operation
	var over sync.WaitGroup
	for client := range clients {
		over.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(client)))
			for n := range deeds {
				in := fmt.Sprint("s", seed, "x", n*sessions/deeds)
				what := []string{"append", "append", "append", "read", "read", "read", "last"}[random.IntN(7)]
				if n%(deeds/sessions) < deeds/sessions/2 && what == "last" {
					what = "read" // so that a session has a life before its end
				}
				d := operation{in, what, fmt.Sprint(client, ".", n)}
				breaks := cut != nil && client == 0 && n%30 == 10
				if breaks {
					cut(true)
				}
				o := porcupine.Operation{ClientId: client, Input: d, Call: time.Since(began).Nanoseconds()}
				result := d.do(t, replicas[random.IntN(len(replicas))])
				o.Output, o.Return = result, time.Since(began).Nanoseconds()
				if result.failed {
					o.Return = time.Hour.Nanoseconds() // it may be done at any later time
				}
				if breaks || result.failed {
					cut(false)
				}
				if result.failed && d.what == "read" {
					continue // it has done nothing, and said nothing
				}
				mu.Lock()
				all = append(all, o)
				mu.Unlock()
			}
		})
	}
	over.Wait()
	return all
}

// linear fails the test if the calls cannot have been made one after the other.
func linear(t *testing.T, all []porcupine.Operation) {
	t.Helper()
	switch porcupine.CheckOperationsTimeout(model(), all, 10*time.Minute) {
	case porcupine.Illegal:
		slices.SortFunc(all, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
		var lines []string
		for _, o := range all {
			lines = append(lines, fmt.Sprintf("%d-%d %v %v", o.Call, o.Return, o.Input, o.Output))
		}
		t.Errorf("the calls contradict each other:\n%s", strings.Join(lines, "\n"))
	case porcupine.Unknown:
		t.Error("ten minutes are too little to check this")
	case porcupine.Ok:
	}
}

func TestCallsOfOneReplicaAreLinear(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		linear(t, history(t, []eventlog.Log{eventlog.NewMemory(eventlog.MemoryConfig{})}, seed, nil))
	}
}

func TestCallsOfSeveralReplicasAreLinear(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	replicas := []eventlog.Log{h.join(t), h.join(t), h.join(t)}
	for seed := range uint64(10) {
		linear(t, history(t, replicas, seed, nil))
	}
}

// TestCallsAreLinearWhenConnectionsBreak breaks the connections of the replicas to the
// server again and again.
func TestCallsAreLinearWhenConnectionsBreak(t *testing.T) {
	t.Parallel()
	h := &house{server: redistest.StartOne(t), ring: seal.RandomRing()} // a proxy stands before one
	var replicas []eventlog.Log
	var proxies []*netfault.Proxy
	var stores []*redis.Store
	for range 3 {
		proxy := redistest.NewProxy(t, h.server.Address)
		store := redis.New(redis.Config{Addresses: []string{proxy.Address}, Patience: redistest.Patience})
		proxies, stores = append(proxies, proxy), append(stores, store)
		replicas = append(replicas, h.joinBy(t, store))
	}
	cut := func(all bool) {
		for i, p := range proxies {
			if all {
				p.Cut()
				continue
			}
			p.Heal()
			redistest.WaitUp(t, stores[i])
		}
	}
	broken := 0
	for seed := range uint64(2) {
		all := history(t, replicas, 100+seed, cut)
		for _, o := range all {
			if o.Output.(outcome).failed {
				broken++
			}
		}
		linear(t, all)
	}
	if broken == 0 {
		t.Error("no call failed")
	}
}
