package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
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
func (w *world) tell(n int, seed uint64, say reporter) (all []timed) {
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
	took := [2][]time.Duration{make([]time.Duration, n), make([]time.Duration, n)}
	asked := [2]request{c.unknown, c.forbidden}
	runtime.GC() // what came before is not part of this
	for i := range n {
		first := r.IntN(2)
		for _, which := range []int{first, 1 - first} {
			took[which][i] = w.clock(&asked[which])
		}
	}
	unknown, forbidden := took[0], took[1]
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
	must.Be(unknown.status == forbidden.status && len(unknown.body) == len(forbidden.body),
		"%s: unknown is answered with %d %s, forbidden with %d %s", c.what, unknown.status, unknown.body,
		forbidden.status, forbidden.body)
	messages, _ := spoken(&forbidden)
	must.Be(!slices.ContainsFunc(messages, isServed), "%s: not refused: %d %s", c.what, forbidden.status,
		forbidden.body)
}

// greater returns how likely one of a is greater than one of b, which it sorts: the
// statistic of Mann and Whitney, divided by how many pairs there are. Equal ones count
// half.
func greater(a, b []time.Duration) float64 {
	slices.Sort(b)
	twice := 0 // how many of b are smaller, and how many are not greater
	for _, took := range a {
		smaller, _ := slices.BinarySearch(b, took)
		smallerOrEqual, _ := slices.BinarySearch(b, took+1)
		twice += smaller + smallerOrEqual
	}
	return float64(twice) / 2 / float64(len(a)*len(b))
}

// contrasts are what a person may ask for that is not there, beside what is there and is
// not that person's. end gives up what was opened for them.
func (w *world) contrasts() (all []contrast, end func()) {
	var open []func()
	for _, revision := range []string{mcp.Revision2511, mcp.Revision2607, overSSE} {
		thief, owner := w.speak(people[0], revision), w.speak(people[6], revision)
		open = append(open, thief.close, owner.close)
		if revision != overSSE {
			all = append(all, named(thief)...)
		}
		ids, parked := owner.gather()
		if parked != nil {
			open = append(open, func() { parked.end() })
		}
		all = append(all, owned(thief, ids)...)
	}
	return all, func() {
		for _, one := range slices.Backward(open) { // calls end before their sessions do
			one()
		}
	}
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

// owned are contrasts of ids that another person was given, each used in one way.
func owned(s *speaker, ids []loot) (all []contrast) {
	places := map[string]way{
		"session":                          sessionWays[0],
		"session of a stream":              inStream,
		"cursor of " + mcp.MethodToolsList: {rpc: mcp.MethodToolsList, body: `"cursor":QUOTED`},
		"task":                             {rpc: mcp.MethodTasksGet, body: `"taskId":QUOTED`},
		"requestState":                     {rpc: mcp.MethodToolsCall, body: declined("QUOTED")},
		"question":                         {body: `{"jsonrpc":"2.0","id":QUOTED,"result":{}}`},
	}
	for _, one := range ids {
		// all answers to the others come on the one stream
		if place, has := places[one.kind]; has && (s.stream == nil || one.kind == "session of a stream") {
			all = append(all, contrast{
				one.kind + ", " + s.revision, place.use(s, "r", forged(one.id)), place.use(s, "r", one.id),
			})
		}
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
