package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/chaos/ledger"
)

// score is what became of one act.
type score struct {
	act              *act
	balancer         string
	passes, restarts int
	deeds            crowd.Deeds
	troubles         map[string]int
	verdict          ledger.Verdict
	failures         []ledger.Failure
	inFlight         map[ledger.Nonce]bool // calls that were in flight when a replica was killed
	soon             map[ledger.Nonce]bool // calls that were asked soon after
	took             time.Duration
}

// lost returns how many requests of all kinds did not end as they would have without a restart.
func (s *score) lost() (n int) {
	for _, times := range s.troubles {
		n += times
	}
	return max(n, len(s.failures))
}

// late returns the calls that failed although they were not in flight when a replica was killed: how many of them were
// asked before the load balancer had time to notice, and the others.
func (s *score) late() (soon int, failures []ledger.Failure) {
	for _, f := range s.failures {
		switch {
		case s.inFlight[f.Nonce]:
		case s.soon[f.Nonce]:
			soon++
		default:
			failures = append(failures, f)
		}
	}
	return soon, failures
}

// wrong returns the promises that were broken, nil if none was.
func (s *score) wrong() error {
	var wrong []error
	if s.verdict.Lost() > 0 {
		wrong = append(wrong, fmt.Errorf("the oracle found %d: %q", s.verdict.Lost(), s.verdict.Samples))
	}
	switch {
	case s.act.deadly:
		if _, late := s.late(); late != nil {
			wrong = append(wrong, fmt.Errorf("%d calls failed that were not in flight when a replica was killed: %v", len(late), late))
		}
	case s.lost() > 0:
		wrong = append(wrong, fmt.Errorf("%d requests were lost: %s; calls: %v", s.lost(), counted(s.troubles), s.failures))
	}
	if !s.act.deadly && s.deeds.Reconnects > 0 {
		wrong = append(wrong, fmt.Errorf("%d sessions were gone", s.deeds.Reconnects))
	}
	return errors.Join(wrong...)
}

// String is the score in a line.
func (s *score) String() string {
	text := fmt.Sprintf("%s, %s: %d restarts, %d requests, %d calls, %d lost, %d twice, %d streams told to come back, %d torn, %d resumed, longest call %v, gap %v (%v)",
		s.balancer, s.act.name, s.restarts, s.deeds.Requests, s.verdict.Requests, s.lost(), s.verdict.Twice, s.deeds.Goodbyes, s.deeds.Aborted, s.deeds.Resumed,
		s.deeds.LongestCall.Round(time.Millisecond), s.deeds.LongestGap.Round(time.Millisecond), s.took.Round(time.Second))
	if err := s.wrong(); err != nil {
		text += ": " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return text
}

// describeRolling writes the section.
func describeRolling(scores []*score, withPrevious bool, took time.Duration) string {
	var b strings.Builder // which has no errors
	sum := map[string]*score{}
	broken := 0
	for _, s := range scores {
		if s.wrong() != nil {
			broken++
		}
		total := sum[s.balancer]
		if total == nil {
			total = &score{}
			sum[s.balancer] = total
		}
		if !s.act.deadly {
			total.restarts += s.restarts
			total.deeds.Requests += s.deeds.Requests
			total.verdict.Requests += s.lost()
		}
	}
	_, _ = fmt.Fprintf(&b, "%v.", took.Round(time.Second))
	for _, balancer := range []string{"nginx", "haproxy"} {
		if total := sum[balancer]; total != nil {
			_, _ = fmt.Fprintf(&b, " **Behind %s: %s requests during %d restarts, %d lost.**", balancer, grouped(int(total.deeds.Requests)), total.restarts, total.verdict.Requests)
		}
	}
	if broken > 0 {
		_, _ = fmt.Fprintf(&b, " **%d rows did not hold.**", broken)
	}
	b.WriteString("\n\n| behind | how replicas come and go | restarts | requests | calls | lost | twice | events and changes lost, doubled, out of order | streams told to come back | torn | resumed | longest call | longest gap of a stream | held |\n" +
		"|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|\n")
	for _, s := range scores {
		if !s.act.deadly {
			b.WriteString(s.row())
		}
	}
	b.WriteString("\n| behind | kills | requests | calls | calls in flight at any replica when one was killed | of these not answered | of those asked within a second | of others | without a word | twice | how calls ended that were not answered | held |\n" +
		"|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|---|\n")
	for _, s := range scores {
		if s.act.deadly {
			b.WriteString(s.deadlyRow())
		}
	}
	for _, s := range scores {
		if err := s.wrong(); err != nil {
			_, _ = fmt.Fprintf(&b, "\n**%s, %s** did not hold: %.2000s\n", s.balancer, s.act.name, strings.Join(strings.Fields(err.Error()), " "))
		}
	}
	b.WriteString("\n| how replicas come and go | what is done |\n|---|---|\n")
	for _, a := range acts(withPrevious) {
		_, _ = fmt.Fprintf(&b, "| %s | %s |\n", a.name, a.done)
	}
	if !withPrevious {
		b.WriteString("| another program | not run: `-previous` names it |\n")
	}
	return b.String()
}

func (s *score) held() string {
	if s.wrong() != nil {
		return "**no**"
	}
	return "yes"
}

func (s *score) row() string {
	v, d := &s.verdict, &s.deeds
	return fmt.Sprintf("| %s | %s | %d | %s | %s | %d | %d | %d, %d, %d | %s | %d | %s | %s | %s | %s |\n", s.balancer, s.act.name, s.restarts, grouped(int(d.Requests)), grouped(v.Requests),
		s.lost(), v.Twice, v.EventsLost+v.ChangesLost, v.EventsTwice, v.EventsOutOfOrder, grouped(int(d.Goodbyes)), d.Aborted, grouped(int(d.Resumed)),
		seconds(d.LongestCall), seconds(d.LongestGap), s.held())
}

func (s *score) deadlyRow() string {
	v, ends := &s.verdict, map[string]int{}
	for _, f := range s.failures {
		ends[f.How]++
	}
	soon, others := s.late()
	return fmt.Sprintf("| %s | %d | %s | %s | %d | %d | %d | %d | %d | %d | %s | %s |\n", s.balancer, s.restarts, grouped(int(s.deeds.Requests)), grouped(v.Requests), len(s.inFlight),
		len(s.failures)-soon-len(others), soon, len(others), v.Unanswered, v.Twice, counted(ends), s.held())
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
