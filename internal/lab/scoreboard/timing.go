package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// contrast is two requests of one person that are refused in the same words: the one
// because there is no such thing, the other because it is not for that person. The time
// until the answer must not tell which is which either.
type contrast struct {
	what               string
	unknown, forbidden request
}

// timed is how long the answers of a contrast took.
type timed struct {
	what               string
	unknown, forbidden time.Duration // medians
	spread             time.Duration // between the quartiles of the unknown
	// how often a forbidden one takes longer than an unknown one; 0.5: nothing can be
	// told
	auc float64
}

// What may be told at most. One answer of each kind tells next to nothing within
// mostTold, even to somebody inside this process, who sees no noise of networks: it is
// seventeen times the error that 20,000 pairs leave, so that a quiet result is no
// accident either. A difference up to mostApart can be seen in this process, and no
// further: between two machines of one network the same answer comes earlier or later by
// some twenty times that, so it takes thousands of calls for each name to see it, and
// they cost the caller's limits.
const (
	mostTold  = 0.05
	mostApart = 2 * time.Microsecond
)

// isTold tells whether the time gives away which of the two it was.
func (t timed) isTold() bool {
	return math.Abs(t.auc-0.5) > mostTold && (t.forbidden-t.unknown).Abs() > mostApart
}

// tell measures each contrast with n pairs of requests.
func (w *world) tell(n int, seed uint64, say teller) (all []timed) {
	both, end := w.contrasts()
	defer end()
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // G404: to be repeated, not to be secret
	for _, c := range both {
		w.alike(&c)
		all = append(all, w.time(&c, n, r))
		say("time of answers: %s: %.3f", c.what, all[len(all)-1].auc)
	}
	return all
}

// time sends n pairs, each in an order of its own, so that whatever else the machine does
// falls on both kinds alike.
func (w *world) time(c *contrast, n int, r *rand.Rand) timed {
	unknown, forbidden := make([]time.Duration, n), make([]time.Duration, n)
	runtime.GC() // what came before is not part of this
	for i := range n {
		if r.IntN(2) == 0 {
			unknown[i] = w.clock(&c.unknown)
			forbidden[i] = w.clock(&c.forbidden)
			continue
		}
		forbidden[i] = w.clock(&c.forbidden)
		unknown[i] = w.clock(&c.unknown)
	}
	auc := greater(forbidden, unknown)
	slices.Sort(unknown)
	slices.Sort(forbidden)
	return timed{c.what, unknown[n/2], forbidden[n/2], unknown[n*3/4] - unknown[n/4], auc}
}

// clock returns how long the gateway takes for a request.
func (w *world) clock(m *request) time.Duration {
	r, c := m.of(context.Background()), &capture{header: make(http.Header)}
	begun := time.Now()
	w.ServeHTTP(c, r)
	return time.Since(begun)
}

// alike tells whether both answers are refusals in the same words. If they are not, their
// times mean nothing.
func (w *world) alike(c *contrast) {
	unknown, forbidden := w.send(&c.unknown), w.send(&c.forbidden)
	if unknown.status != forbidden.status || len(unknown.body) != len(forbidden.body) {
		panic(fmt.Errorf("%s: unknown is answered with %d %s, forbidden with %d %s", c.what, unknown.status,
			unknown.body, forbidden.status, forbidden.body))
	}
	messages, _ := spoken(&forbidden)
	if slices.ContainsFunc(messages, isServed) {
		panic(fmt.Errorf("%s: not refused: %d %s", c.what, forbidden.status, forbidden.body))
	}
}

// greater returns how likely one of a is greater than one of b: the statistic of Mann and
// Whitney, divided by how many pairs there are. Equal ones count half.
func greater(a, b []time.Duration) float64 {
	type sample struct {
		took time.Duration
		ofA  bool
	}
	all := make([]sample, 0, len(a)+len(b))
	for _, took := range a {
		all = append(all, sample{took, true})
	}
	for _, took := range b {
		all = append(all, sample{took, false})
	}
	slices.SortFunc(all, func(x, y sample) int { return cmp.Compare(x.took, y.took) })
	ranks := 0.0 // sum of those of a
	for begin := 0; begin < len(all); {
		end, ofA := begin, 0
		for ; end < len(all) && all[end].took == all[begin].took; end++ {
			if all[end].ofA {
				ofA++
			}
		}
		ranks += float64(ofA) * float64(begin+end+1) / 2
		begin = end
	}
	n, m := float64(len(a)), float64(len(b))
	return (ranks - n*(n+1)/2) / (n * m)
}

// contrasts are what a person may ask for that is not there, beside what is there and is
// not that person's. end gives up what was opened for them.
func (w *world) contrasts() (all []contrast, end func()) {
	thief, owner := people()[0], people()[6]
	var open []func()
	end = func() {
		for _, one := range open {
			one()
		}
	}
	for _, revision := range []string{mcp.Revision2511, mcp.Revision2607, overSSE} {
		var speakers [2]*speaker
		for i, p := range []person{thief, owner} {
			speakers[i] = w.speak(p, revision)
			open = append(open, speakers[i].close)
		}
		if revision != overSSE {
			all = append(all, named(speakers[0])...)
		}
		ids, parked, err := speakers[1].gather()
		if parked != nil {
			open = append(open, func() { parked.end() })
		}
		if err != nil {
			must.OK(err)
			return nil, end
		}
		all = append(all, owned(speakers[0], ids)...)
	}
	slices.Reverse(open) // calls end before their sessions do
	return all, end
}

// named are contrasts of names: those that a rule denies, or that another tenant has.
func named(s *speaker) []contrast {
	two := func(what, method, format, unknown, forbidden string) contrast {
		return contrast{
			what + ", " + s.revision,
			s.ask(`"r"`, method, fmt.Sprintf(format, write(unknown))), s.ask(`"r"`, method,
				fmt.Sprintf(format, write(forbidden))),
		}
	}
	at := s.ask(`"r"`, mcp.MethodToolsList, "")
	of := func(tenant string) request {
		m := at
		m.path = "/t/" + tenant + "/mcp"
		return m
	}
	return []contrast{
		two("tool that a rule denies", mcp.MethodToolsCall, `"name":%s`, "box__evix", "box__evil"),
		two("tool of another tenant", mcp.MethodToolsCall, `"name":%s`, "ofnobody__own", "ofglobex__own"),
		two("prompt that a rule denies", mcp.MethodPromptsGet, `"name":%s`, "box__evix", "box__evil"),
		two("prompt to complete", mcp.MethodComplete,
			`"ref":{"type":"ref/prompt","name":%s},"argument":{"name":"a","value":""}`, "box__evix",
			"box__evil"),
		two("resource of another tenant", mcp.MethodResourcesRead, `"uri":%s`, "mcp.nobodyxx+file:///x",
			"mcp.ofglobex+file:///x"),
		two("resource that a rule denies, beside an unknown server", mcp.MethodResourcesRead, `"uri":%s`,
			"mcp.bax+file:///secret/x", exposed+"file:///secret/x"),
		two("resource that a rule denies and a list has, beside one in no list", mcp.MethodResourcesRead,
			`"uri":%s`, exposed+"file:///secret/x", exposed+"file:///secret/k"),
		{"another tenant, " + s.revision, of("nobody"), of("globex")},
	}
}

// owned are contrasts of ids that another person was given.
func owned(s *speaker, ids []loot) (all []contrast) {
	ask := func(method, format string) func(string) request {
		return func(id string) request { return s.ask(`"r"`, method, fmt.Sprintf(format, write(id))) }
	}
	places := map[string]func(id string) request{
		"session": func(id string) request { return sessionWays()[0].use(s, "r", id) },
		"session of a stream": func(id string) request {
			m := s.post(`{"jsonrpc":"2.0","id":"r","method":"tools/list"}`)
			m.path = "/messages?sessionId=" + url.QueryEscape(id)
			return m
		},
		"cursor of " + mcp.MethodToolsList: ask(mcp.MethodToolsList, `"cursor":%s`),
		"task":                             ask(mcp.MethodTasksGet, `"taskId":%s`),
		"requestState":                     func(id string) request { return s.ask(`"r"`, mcp.MethodToolsCall, declined(id)) },
		"question": func(id string) request {
			return s.post(`{"jsonrpc":"2.0","id":` + write(id) + `,"result":{}}`)
		},
	}
	for _, one := range ids {
		place, has := places[one.kind]
		// all answers to these come on the one stream
		if !has || s.stream != nil && one.kind != "session of a stream" {
			continue
		}
		all = append(all, contrast{one.kind + ", " + s.revision, place(forged(one.id)), place(one.id)})
	}
	return all
}

// forged returns an id as somebody makes it who was given one by the same gateway: its
// beginning, which says how it was sealed, and its end, where base64 may have bits that
// mean nothing, are as they should be. So it is refused no sooner than when it is opened.
func forged(id string) string {
	const kept = 8 // characters
	return id[:kept] + lookalike(id)[kept:len(id)-kept] + id[len(id)-kept:]
}
