package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// attack is one way to take what is another's.
type attack struct {
	name    string
	does    string // what it does, for the report
	raised  bool   // it needs rates of requests and calls that are higher than the default ones
	raiders int    // how many do it at once, each on connections of its own
	few     int    // how many are enough in the short form, where each is dear; zero: as many
	// begin returns what one raider does again and again. An error of that is a connection that broke, or something
	// else that was not answered.
	begin func(r *raider) func(ctx context.Context) error
	// bites tells whether what was seen at the gateway shows that the attack takes place as it is meant.
	bites func(seen tally) bool
}

// attacks lists all attacks. The first is none: what it shows is how far two measures of the same thing differ.
func attacks() []attack {
	return []attack{
		{name: "no attack", does: "nothing; how far the ratio is from 1 is the noise of the measure"},
		beyondLimits(), lists(),
		bigBodies(), slowChunks(), slowAnnounced(), manyMembers(), dearPatterns(),
		bigAnswers(), streamedAnswers(), slowReaders(), slowStreams(), progressFloods(),
		sessions(), streams(),
		refusedLogins(), strangers(),
	}
}

// mission is what an attacking process is to do.
type mission struct {
	Attack string
	Addr   string
	From   string   // the address to connect from; "" is any
	Tokens []string // one for each user
	Real   bool     // it is the gateway, not the dummy
	Few    bool     // not more raiders than are enough
}

// tally is what the raiders of an attack saw.
type tally struct {
	Attempts int64 // requests, and connections that were opened only to be there
	Answered int64 // with 200
	Refused  int64 // with another status
	Broken   int64 // not answered: refused connections, or closed ones
	Received int64 // bytes of answers
	Held     int64 // connections that were held open at the same time, at most
	Millis   int64 // how long it took
}

// counters is a tally that many raiders add to.
type counters struct{ attempts, answered, refused, broken, received, holds, held atomic.Int64 }

func (c *counters) tally(begun time.Time) tally {
	return tally{
		c.attempts.Load(), c.answered.Load(), c.refused.Load(), c.broken.Load(), c.received.Load(), c.held.Load(),
		time.Since(begun).Milliseconds(),
	}
}

// ready is the line that an attacking process writes once its attack bites.
const ready = "ready\n"

// attackUntilTold is a part: it carries out a mission, which its argument says in JSON, until its standard input ends.
// It writes a line when the attack bites, and its tally at the end. After the line, the tally begins anew.
func attackUntilTold(ctx context.Context, argument string, in io.Reader, out io.Writer) error {
	ctx, cancel := untilEnd(ctx, in)
	defer cancel()
	var m mission
	if err := strictjson.Unmarshal([]byte(argument), &m); err != nil {
		return err
	}
	var a attack
	for _, a = range attacks() {
		if a.name == m.Attack {
			break
		}
	}
	if m.Few && a.few > 0 {
		a.raiders = a.few
	}
	c, begun := &counters{}, time.Now()
	var wg sync.WaitGroup
	for i := range a.raiders {
		wg.Go(func() {
			r := &raider{number: i, mission: m, counters: c}
			r.rage(ctx, a.begin(r))
			r.close()
		})
	}
	for a.raiders > 0 && !a.bitesAt(m, c.tally(begun)) {
		if !waitUntil(ctx, time.Now().Add(10*time.Millisecond)) {
			wg.Wait()
			return fmt.Errorf("%s did not take place: %+v", a.name, c.tally(begun))
		}
	}
	before := c.tally(begun)
	if _, err := io.WriteString(out, ready); err != nil {
		return err
	}
	<-ctx.Done()
	after := c.tally(begun)
	wg.Wait()
	return report(out, after.since(before))
}

// bitesAt tells whether the attack takes place. The dummy refuses nothing, so there it is enough that it is tried.
func (a *attack) bitesAt(m mission, seen tally) bool {
	if !m.Real {
		return seen.Attempts > 0
	}
	return a.bites(seen)
}

// since returns what was added after before. What is held at once is the most of all times.
func (t tally) since(before tally) tally {
	return tally{
		t.Attempts - before.Attempts, t.Answered - before.Answered, t.Refused - before.Refused,
		t.Broken - before.Broken, t.Received - before.Received, t.Held, t.Millis - before.Millis,
	}
}

// plus returns the sum with another tally, as of a later round.
func (t tally) plus(other tally) tally {
	return tally{
		t.Attempts + other.Attempts, t.Answered + other.Answered, t.Refused + other.Refused,
		t.Broken + other.Broken, t.Received + other.Received, max(t.Held, other.Held), t.Millis + other.Millis,
	}
}

// report writes what a part has to say when it ends.
func report(out io.Writer, v any) error {
	text, err := strictjson.Marshal(v)
	if err != nil {
		return err
	}
	_, err = out.Write(append(text, '\n'))
	return err
}

// raider is one of those who carry out an attack.
type raider struct {
	*counters
	number  int
	mission mission
	wire    *wire
}

// rage does step again and again until ctx ends. A raider who finds no connection waits a moment, or it would only heat
// the machine.
func (r *raider) rage(ctx context.Context, step func(context.Context) error) {
	for ctx.Err() == nil {
		if err := step(ctx); err == nil || ctx.Err() != nil {
			continue
		}
		r.broken.Add(1)
		r.close()
		waitUntil(ctx, time.Now().Add(5*time.Millisecond))
	}
}

// token returns the token of the raider's user.
func (r *raider) token() string { return r.mission.Tokens[r.number%len(r.mission.Tokens)] }

// dial opens a connection to what is attacked.
func (r *raider) dial(ctx context.Context) (*wire, error) {
	return dial(ctx, r.mission.Addr, r.mission.From)
}

// exchange sends a request on the raider's connection, reads the answer and counts it.
func (r *raider) exchange(ctx context.Context, request []byte) (*reply, error) {
	if r.wire == nil {
		w, err := r.dial(ctx)
		if err != nil {
			return nil, err
		}
		r.wire = w
	}
	r.attempts.Add(1)
	answer, err := r.wire.exchange(request)
	if err != nil {
		return nil, err
	}
	r.count(answer)
	if answer.closing {
		r.close()
	}
	return answer, nil
}

func (r *raider) count(answer *reply) {
	r.received.Add(answer.size)
	if answer.status == http.StatusOK {
		r.answered.Add(1)
	} else {
		r.refused.Add(1)
	}
}

func (r *raider) close() {
	if r.wire != nil {
		r.wire.close()
		r.wire = nil
	}
}

// hold counts a connection that is held open, until release.
func (r *raider) hold() {
	now := r.holds.Add(1)
	for most := r.held.Load(); now > most && !r.held.CompareAndSwap(most, now); {
		most = r.held.Load()
	}
}

func (r *raider) release() { r.holds.Add(-1) }

// call returns the request of a tools/call of 2026-07-28. Arguments are JSON.
func (r *raider) call(tool, arguments string) request {
	name := "storm__" + tool
	return request{
		addr: r.mission.Addr, token: r.token(), revision: modern, rpc: "tools/call", tool: name,
		body: message("tools/call", `"name":"`+name+`","arguments":`+arguments, modern, true),
	}
}

// repeat returns a step that sends the same request each time.
func (r *raider) repeat(q request) func(context.Context) error {
	text := q.bytes()
	return func(ctx context.Context) error {
		_, err := r.exchange(ctx, text)
		return err
	}
}

// anyAnswer tells whether something was answered as it was asked.
func anyAnswer(seen tally) bool { return seen.Answered > 0 }
