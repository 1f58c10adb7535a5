// Package raid has the ways to take from a gateway what is another's: memory, time,
// connections, places. Each is a small function that misbehaves on connections of its
// own, written by hand on the wire, until it is told to stop. The package knows the
// server that its calls are meant for, and which requests bite; it does not know what is
// measured meanwhile, nor by whom. Attackers connect to loopback addresses only.
package raid

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Attack is one way to take what is another's.
type Attack struct {
	Name     string
	Does     string // what it does, for a report
	Stranger bool   // it needs no token
	Raised   bool   // it needs rates of requests and calls that are higher than the default ones
	Ruled    bool   // it needs Raised, and a thousand rules that would allow the tool to others
	Raiders  int    // how many do it at once, each on connections of its own
	Few      int    // how many are enough where each is dear; zero: as many
	// Begin returns what one raider does again and again. It panics with an error, as
	// package must does, where a connection broke, or something else was not answered.
	// What the raider holds it gives back when its context ends.
	Begin func(ctx context.Context, r *Raider) func()
	Signs Signs
}

// HighRates are the limits of a tenant for attacks that are Raised, in the words of a
// config.
const HighRates = `{requests: ` + highRate + `, calls: ` + highRate + `, user_calls: ` + highRate + `}`

const highRate = `{rate: 10000, burst: 10000}`

// Signs are what must be seen at the gateway at least when an attack takes place as it is
// meant.
type Signs struct {
	Answered, Refused, Received, Held int64    // as those of a Tally
	Replies                           int64    // answered and refused together
	Vain                              bool     // nothing was answered
	Instead                           []string // each of these came instead of an answer
}

// Bites tells whether what was seen has the signs of the attack.
func (a *Attack) Bites(seen Tally) bool {
	s := &a.Signs
	return seen.Answered >= s.Answered && seen.Refused >= s.Refused && seen.Received >= s.Received &&
		seen.Held >= s.Held && seen.Answered+seen.Refused >= s.Replies && (seen.Answered == 0 || !s.Vain) &&
		!slices.ContainsFunc(s.Instead, func(what string) bool { return seen.Instead[what] == 0 })
}

// Attacks are those that are worth a measure of their own.
var Attacks = []Attack{
	beyondLimits, lists,
	bigBodies, slowChunks, slowAnnounced, manyMembers, dearPatterns,
	bigAnswers, streamedAnswers, slowReaders, slowStreams, progressFloods,
	sessions, streams,
	refusedLogins, strangers, signIns,
	queries,
}

// Variants are further attacks, each akin to one of the others.
var Variants = []Attack{
	batches, reconnects, pipelined, deepValues, garbage, abortedAnswers, resumedAnswers,
	parkedCalls, parkedStreams,
	idleConnections, slowHeaders, logFloods,
}

const (
	kept     = 1 << 10 // bytes of an answer, which tell what came
	progress = `"progressToken":"p"`
)

// Mission is whom an attack is for.
type Mission struct {
	Addr   string
	From   []string // the addresses to connect from, one for each connection in turn; none: any
	Tokens []string // one for each user; strangers only forge others from them
}

// Carry carries out an attack until ctx ends, and waits until all raiders have stopped.
func (a *Attack) Carry(ctx context.Context, m Mission, c *Counters) {
	must.AtOnce(a.Raiders, a.Raiders, func(i int) {
		r := &Raider{Counters: c, number: i, mission: m}
		r.line.Dial = func() *client.Conn { return r.dial(ctx) }
		r.rage(ctx, a.Begin(ctx, r))
		r.line.Close()
	})
}

// raidersApart is how far apart the addresses of a raider's connections are, so that no
// two raiders connect from the same ones: a prime, and more than most attacks have
// raiders.
const raidersApart = 131

// Raider is one of those who carry out an attack.
type Raider struct {
	*Counters
	number  int
	mission Mission
	line    client.Line
	dialed  int // connections
}

// rage does step again and again until ctx ends. A raider who finds no connection waits a
// moment, or it would only heat the machine.
func (r *Raider) rage(ctx context.Context, step func()) {
	for ctx.Err() == nil {
		if err := must.Try(step); err != nil && ctx.Err() == nil {
			r.broke(err)
			r.line.Close()
			world.Pause(ctx, 5*time.Millisecond)
		}
	}
}

// broke counts a connection that ended without an answer.
func (r *Raider) broke(err error) {
	r.broken.Add(1)
	r.seen(page.Either(errors.Is(err, os.ErrDeadlineExceeded), "no answer in time", "connection closed"))
}

// token returns the token of the raider's user.
func (r *Raider) token() string {
	if len(r.mission.Tokens) == 0 {
		return ""
	}
	return r.mission.Tokens[r.number%len(r.mission.Tokens)]
}

// dial opens a connection to what is attacked.
func (r *Raider) dial(ctx context.Context) *client.Conn {
	from := ""
	if len(r.mission.From) > 0 {
		from = r.mission.From[(r.number+r.dialed*raidersApart)%len(r.mission.From)]
		r.dialed++
	}
	return client.Dial(ctx, r.mission.Addr, from)
}

// exchange sends a request on the raider's connection, reads the answer and counts it.
func (r *Raider) exchange(request []byte) *client.Answer {
	r.line.Open()
	r.attempts.Add(1)
	return r.counted(r.line.Exchange(request, kept))
}

// open opens a connection beside the raider's, which counts as an attempt.
func (r *Raider) open() *client.Conn {
	w := r.line.Dial()
	r.attempts.Add(1)
	return w
}

// call returns the request of a tools/call of 2026-07-28. Arguments are JSON.
func (r *Raider) call(tool, arguments string) client.Request {
	return r.callOf("storm", tool, arguments)
}

// callOf returns the request of a call of a server's tool.
func (r *Raider) callOf(server, tool, arguments string) client.Request {
	name := server + "__" + tool
	return client.Request{
		Addr: r.mission.Addr, Token: r.token(), Revision: mcp.LatestModern, RPC: "tools/call", Tool: name,
		Body: client.Message("1", "tools/call", `"name":"`+name+`","arguments":`+arguments, mcp.LatestModern,
			progress),
	}
}

// repeat returns a step that sends one request after the other, again and again. Raiders
// begin at different ones.
func (r *Raider) repeat(requests ...client.Request) func() {
	texts := make([][]byte, len(requests))
	for i, q := range requests {
		texts[i] = q.Bytes()
	}
	turn := r.number
	return func() {
		turn++
		r.exchange(texts[turn%len(texts)])
	}
}

// hoard returns a step that opens connections, does something on each, and holds the last
// most of them until ctx ends. One on which use returns false is of no use, and closed.
func (r *Raider) hoard(most int, use func(w *client.Conn) bool) func() {
	var releases []func()
	return func() {
		w := r.open()
		defer must.Else(w.Close)
		if !use(w) {
			w.Close()
			return
		}
		release := r.hold()
		releases = append(releases, func() {
			w.Close()
			release()
		})
		if len(releases) > most {
			releases[0]()
			releases = releases[1:]
		}
	}
}

// sessioned makes requests in a session, which begin makes when it has the id of a new
// one. It opens another one when that has ended.
func (r *Raider) sessioned(revision, capabilities string, begin func(session string) []byte,
	step func(request []byte) *client.Answer,
) func() {
	var request []byte
	return func() {
		if request != nil {
			if step(request).Status == http.StatusNotFound {
				request = nil // the session has ended
			}
		} else if session := r.openSession(revision, capabilities); session != "" {
			request = begin(session)
		}
	}
}

// refused tells whether the status of an answer is another than 200.
func refused(answer *client.Answer) bool { return answer.Status != http.StatusOK }

// Named returns those of some attacks whose name contains one of the texts.
func Named(attacks []Attack, texts ...string) []Attack {
	return slices.DeleteFunc(slices.Clone(attacks), func(a Attack) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(a.Name, text) })
	})
}
