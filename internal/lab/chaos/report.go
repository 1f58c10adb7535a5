package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
)

// sum is what became of all rounds of one fault.
type sum struct {
	fault  *fault
	rounds int
	v      ledger.Verdict // the numbers added up
	lost   int            // without what is expected with the fault
	missed []string       // of rounds in which something was not as it must be
}

// sums adds up the rounds of each fault.
func sums(faults []*fault, outcomes []*outcome) (all []*sum) {
	for _, f := range faults {
		s := &sum{fault: f, v: ledger.Verdict{Ends: map[string]int{}}}
		for _, o := range outcomes {
			if o.job.fault == f {
				s.add(o)
			}
		}
		all = append(all, s)
	}
	return all
}

func (s *sum) add(o *outcome) {
	s.rounds++
	s.lost += o.lost
	addVerdict(&s.v, &o.verdict)
	if o.missed != nil {
		s.missed = append(s.missed, fmt.Sprintf("round %d, %s: %v", o.job.round+1, o.job.balancer, o.missed))
	}
	for _, sample := range slices.Concat(o.verdict.Samples, o.verdict.Notes) {
		if o.lost > 0 {
			s.missed = append(s.missed, fmt.Sprintf("round %d, %s: %s", o.job.round+1, o.job.balancer,
				sample))
		}
	}
}

// addVerdict adds the numbers of a verdict.
func addVerdict(to, v *ledger.Verdict) {
	for _, n := range []struct {
		to *int
		n  int
	}{
		{&to.Requests, v.Requests},
		{&to.Answered, v.Answered},
		{&to.Refused, v.Refused},
		{&to.Broken, v.Broken},
		{&to.Executed, v.Executed},
		{&to.Events, v.Events},
		{&to.Changes, v.Changes},
		{&to.Twice, v.Twice},
		{&to.TwiceKeyed, v.TwiceKeyed},
		{&to.Unanswered, v.Unanswered},
		{&to.Unexecuted, v.Unexecuted},
		{&to.Denied, v.Denied},
		{&to.EventsLost, v.EventsLost},
		{&to.EventsTwice, v.EventsTwice},
		{&to.EventsOutOfOrder, v.EventsOutOfOrder},
		{&to.ChangesLost, v.ChangesLost},
		{&to.WrongTenant, v.WrongTenant},
		{&to.Unaudited, v.Unaudited},
		{&to.Unfounded, v.Unfounded},
		{&to.BrokenUnaudited, v.BrokenUnaudited},
		{&to.Uncancelled, v.Uncancelled},
		{&to.Unstreamed, v.Unstreamed},
	} {
		*n.to += n.n
	}
	for word, n := range v.Ends {
		to.Ends[word] += n
	}
}

// describe writes the section.
func describe(faults, unable []*fault, outcomes []*outcome, seed uint64, took time.Duration) string {
	all := sums(faults, outcomes)
	total := ledger.Verdict{Ends: map[string]int{}}
	kept := 0
	for _, s := range all {
		addVerdict(&total, &s.v)
		if s.rounds > 0 && s.lost == 0 && s.missed == nil {
			kept++
		}
	}
	var b strings.Builder
	fmt.Fprintf(
		&b, "Seed %d, %v. **%d kinds of faults, %d rounds: %d kinds in which everything held, %d in which something did not.**\n\n",
		seed, took.Round(time.Second), len(faults), len(outcomes), kept, len(faults)-kept)
	b.WriteString(
		"| fault | rounds | requests | answered | refused | broken | twice | unanswered | unexecuted | events and changes lost, doubled, out of order | wrong tenant | not on record: answered, broken | held |\n" +
			"|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|\n")
	for _, s := range all {
		b.WriteString(s.row())
	}
	fmt.Fprintf(&b, "| **all** | %d %s |\n", len(outcomes), figures(&total))
	describeBroken(&b, all)
	describeKinds(&b, all, unable)
	b.WriteString("\nThis is how the calls ended that were not answered:\n\n" + tabled("end", total.Ends))
	return b.String()
}

// figures are the cells of a row from the requests on.
func figures(v *ledger.Verdict) string {
	return fmt.Sprintf("| %s | %s | %s | %s | %d | %d | %d | %d, %d, %d | %d | %d, %d",
		page.Grouped(v.Requests), page.Grouped(v.Answered), page.Grouped(v.Refused), page.Grouped(v.Broken),
		v.Twice, v.Unanswered, v.Unexecuted+v.Denied+v.Unfounded, v.EventsLost+v.ChangesLost, v.EventsTwice,
		v.EventsOutOfOrder, v.WrongTenant, v.Unaudited, v.BrokenUnaudited)
}

func (s *sum) row() string {
	held := "yes"
	if s.lost > 0 || s.missed != nil {
		held = "**no**"
	}
	return fmt.Sprintf("| %s | %d %s | %s |\n", s.fault.name, s.rounds, figures(&s.v), held)
}

// describeBroken says what did not hold.
func describeBroken(b *strings.Builder, all []*sum) {
	for _, s := range all {
		if s.lost == 0 && s.missed == nil {
			continue
		}
		fmt.Fprintf(b, "\n**%s** did not hold:\n\n", upper(s.fault.name))
		for i, missed := range s.missed {
			if i == 10 {
				fmt.Fprintf(b, "- and %d more\n", len(s.missed)-i)
				break
			}
			fmt.Fprintf(b, "- %s\n", strings.Join(strings.Fields(missed), " "))
		}
	}
}

// describeKinds says what each fault is.
func describeKinds(b *strings.Builder, all []*sum, unable []*fault) {
	b.WriteString("\n| fault | what is done | what must hold, beyond that nothing is lost |\n|---|---|---|\n")
	for _, s := range all {
		fmt.Fprintf(b, "| %s | %s | %s |\n", s.fault.name, s.fault.done, s.fault.holds)
	}
	for _, f := range unable {
		fmt.Fprintf(b, "| %s | **not run, since it needs root**: %s | %s |\n", f.name, f.done, f.holds)
	}
}

// tabled is the table of calls by what came how often, the most frequent first.
func tabled(title string, counts map[string]int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | calls |\n|---|--:|\n", title)
	for _, word := range page.Frequent(counts) {
		fmt.Fprintf(&b, "| %s | %s |\n", word, page.Grouped(counts[word]))
	}
	return b.String()
}

func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
