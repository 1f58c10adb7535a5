package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// score is what became of one act.
type score struct {
	act      *act
	balancer string
	restarts int
	deeds    crowd.Deeds
	troubles map[string]int
	verdict  ledger.Verdict
	failures []ledger.Failure
	inFlight map[ledger.Nonce]bool // calls that were in flight when a replica was killed
	soon     map[ledger.Nonce]bool // calls that were asked soon after
	took     time.Duration
}

// lost returns how many requests of all kinds did not end as they would have without a
// restart.
func (s *score) lost() (n int) {
	for _, times := range s.troubles {
		n += times
	}
	return max(n, len(s.failures))
}

// late returns the calls that failed although they were not in flight when a replica was
// killed: how many of them were asked before the load balancer had time to notice, and
// the others.
func late(all []ledger.Failure, inFlight, asked map[ledger.Nonce]bool) (soon int, others []ledger.Failure) {
	for _, f := range all {
		switch {
		case inFlight[f.Nonce]:
		case asked[f.Nonce]:
			soon++
		default:
			others = append(others, f)
		}
	}
	return soon, others
}

// unrecorded returns how many calls were executed, are unknown to their callers and not
// on record, although no replica was killed, or they were not in flight then. Calls that
// their clients left count only where no replica was killed, since nobody knows until
// when they were in flight.
func unrecorded(v *ledger.Verdict, inFlight, soon map[ledger.Nonce]bool) (n int) {
	if len(inFlight)+len(soon) == 0 {
		return v.BrokenUnaudited
	}
	for _, nonce := range v.Unrecorded {
		if !inFlight[nonce] && !soon[nonce] {
			n++
		}
	}
	return n
}

// wrong returns the promises that were broken, nil if none was.
func (s *score) wrong() error {
	var c world.Claims
	v := &s.verdict
	claimCalls(&c, v, unrecorded(v, s.inFlight, s.soon), slices.Concat(v.Samples, v.Notes))
	if s.act.deadly {
		_, others := late(s.failures, s.inFlight, s.soon)
		c.Claim(others == nil, "%d calls failed that were not in flight when a replica was killed: %v",
			len(others),
			others)
	} else {
		c.Claim(s.lost() == 0, "%d requests were lost: %s; calls: %v", s.lost(),
			page.Counted(s.troubles, "none"),
			s.failures)
		c.Claim(s.deeds.Reconnects == 0, "%d sessions were gone", s.deeds.Reconnects)
		c.Claim(v.Uncancelled == 0, "of %d calls that were cancelled the server was not told: %q", v.Uncancelled,
			v.Notes)
	}
	return c.Broken()
}

// claimCalls claims what holds of calls however replicas come and go.
func claimCalls(c *world.Claims, v *ledger.Verdict, unrecorded int, samples []string) {
	c.Claim(v.Lost() == 0, "the oracle found %d: %q", v.Lost(), samples)
	c.Claim(unrecorded == 0, "%d calls were executed, are unknown to their callers and not on record: %q",
		unrecorded, samples)
	c.Claim(v.Unstreamed == 0, "%d calls were answered without a stream for their events: %q", v.Unstreamed,
		samples)
}

// String is the score in a line.
func (s *score) String() string {
	text := fmt.Sprintf(
		"%s, %s: %d restarts, %d requests, %d calls, %d lost, %d twice, %d streams told to come back, %d "+
			"torn, %d resumed, longest call %v, gap %v (%v)",
		s.balancer, s.act.name, s.restarts, s.deeds.Requests, s.verdict.Requests, s.lost(), s.verdict.Twice,
		s.deeds.Goodbyes, s.deeds.Aborted, s.deeds.Resumed,
		s.deeds.LongestCall.Round(time.Millisecond), s.deeds.LongestGap.Round(time.Millisecond),
		s.took.Round(time.Second))
	if err := s.wrong(); err != nil {
		text += ": " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return text
}

// rolls is what went through behind one load balancer while replicas were restarted.
type rolls struct {
	balancer         string
	restarts, failed int
	requests         int64
}

// rolled adds up, for each load balancer, the acts in which replicas were restarted and
// none was killed.
func rolled(scores []*score) (all []rolls) {
	for _, s := range scores {
		at := slices.IndexFunc(all, func(r rolls) bool { return r.balancer == s.balancer })
		if at < 0 {
			all, at = append(all, rolls{balancer: s.balancer}), len(all)
		}
		if r := &all[at]; s.restarts > 0 && !s.act.deadly {
			r.restarts += s.restarts
			r.requests += s.deeds.Requests
			r.failed += s.lost()
		}
	}
	return all
}

// describeRolling writes the section.
func describeRolling(scores []*score, took time.Duration) string {
	broken := 0
	for _, s := range scores {
		if s.wrong() != nil {
			broken++
		}
	}
	behind := page.Rows(rolled(scores), func(all rolls) string {
		return fmt.Sprintf(" **Behind %s: %s requests during %d restarts, %d lost.**", all.balancer,
			page.Grouped(int(all.requests)), all.restarts, all.failed)
	})
	if broken > 0 {
		behind += fmt.Sprintf(" **%d rows did not hold.**", broken)
	}
	return fmt.Sprintf(rollingSection, took.Round(time.Second), behind, page.Rows(scores, (*score).row),
		page.Rows(scores, (*score).deadlyRow), page.Rows(scores, (*score).broken),
		page.Rows(acts, func(a *act) string {
			played := slices.ContainsFunc(scores, func(s *score) bool { return s.act.name == a.name })
			return fmt.Sprintf("| %s | %s%s |\n", a.name, page.Either(played, "", "**not run**: "), a.done)
		}))
}

// rollingSection is the section, with places for what was found.
const rollingSection = `%v.%s

| behind | how replicas come and go | restarts | requests | calls | lost | twice | events and changes lost, doubled, out of order | broken and not on record, without a stream | streams told to come back | torn | resumed | longest call | longest gap of a stream | held |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|
%s
| behind | kills | requests | calls | calls in flight at any replica when one was killed | of these not answered | of those asked within a second | of others | without a word | twice | broken and not on record, without a stream | how calls ended that were not answered | held |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|---|
%s%s
| how replicas come and go | what is done |
|---|---|
%s`

// broken says what did not hold.
func (s *score) broken() string {
	err := s.wrong()
	if err == nil {
		return ""
	}
	return fmt.Sprintf("\n**%s, %s** did not hold: %.2000s\n", s.balancer, s.act.name,
		strings.Join(strings.Fields(err.Error()), " "))
}

func (s *score) held() string { return page.Either(s.wrong() != nil, "**no**", "yes") }

// row is the line of an act without kills, "" of another one.
func (s *score) row() string {
	if s.act.deadly {
		return ""
	}
	v, d := &s.verdict, &s.deeds
	return fmt.Sprintf(
		"| %s | %s | %d | %s | %s | %d | %d | %d, %d, %d | %d, %d | %s | %d | %s | %s | %s | %s |\n",
		s.balancer, s.act.name, s.restarts, page.Grouped(int(d.Requests)), page.Grouped(v.Requests),
		s.lost(), v.Twice, v.EventsLost+v.ChangesLost, v.EventsTwice, v.EventsOutOfOrder, v.BrokenUnaudited,
		v.Unstreamed, page.Grouped(int(d.Goodbyes)), d.Aborted, page.Grouped(int(d.Resumed)),
		seconds(d.LongestCall), seconds(d.LongestGap), s.held())
}

// deadlyRow is the line of an act with kills, "" of another one.
func (s *score) deadlyRow() string {
	if !s.act.deadly {
		return ""
	}
	v, ends := &s.verdict, map[string]int{}
	for _, f := range s.failures {
		ends[f.How]++
	}
	soon, others := late(s.failures, s.inFlight, s.soon)
	return fmt.Sprintf("| %s | %d | %s | %s | %d | %d | %d | %d | %d | %d | %d, %d | %s | %s |\n", s.balancer,
		s.restarts, page.Grouped(int(s.deeds.Requests)), page.Grouped(v.Requests), len(s.inFlight),
		len(s.failures)-soon-len(others), soon, len(others), v.Unanswered, v.Twice, v.BrokenUnaudited,
		v.Unstreamed, page.Counted(ends, "none"), s.held())
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
