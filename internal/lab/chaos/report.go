package main

import (
	"cmp"
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
		{&to.EventsOfCopies, v.EventsOfCopies},
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
	return fmt.Sprintf(faultsSection, seed, took.Round(time.Second), len(faults), len(outcomes), kept,
		len(faults)-kept, page.Rows(all, (*sum).row), len(outcomes), figures(&total), page.Rows(all, (*sum).broken),
		page.Rows(all, func(s *sum) string {
			return fmt.Sprintf("| %s | %s | %s |\n", s.fault.name, s.fault.done, s.fault.holds)
		}),
		page.Rows(unable, func(f *fault) string {
			return fmt.Sprintf("| %s | **not run, since it needs %s**: %s | %s |\n", f.name,
				cmp.Or(f.behind, "root"), f.done, f.holds)
		}),
		tabled("end", total.Ends))
}

// faultsSection is the section, with places for what was found.
const faultsSection = `Seed %d, %v. **%d kinds of faults, %d rounds: %d kinds in which everything held, %d in which something did not.**

| fault | rounds | requests | answered | refused | broken | twice | unanswered | unexecuted | events and changes lost, doubled, out of order | wrong tenant | not on record: answered, broken | held |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|
%s| **all** | %d %s |
%s
| fault | what is done | what must hold, beyond that nothing is lost |
|---|---|---|
%s%s
This is how the calls ended that were not answered:

%s`

// figures are the cells of a row from the requests on.
func figures(v *ledger.Verdict) string {
	return fmt.Sprintf("| %s | %s | %s | %s | %d | %d | %d | %d, %d, %d | %d | %d, %d",
		page.Grouped(v.Requests), page.Grouped(v.Answered), page.Grouped(v.Refused), page.Grouped(v.Broken),
		v.Twice, v.Unanswered, v.Unexecuted+v.Denied+v.Unfounded, v.EventsLost+v.ChangesLost, v.EventsTwice,
		v.EventsOutOfOrder, v.WrongTenant, v.Unaudited, v.BrokenUnaudited)
}

func (s *sum) row() string {
	return fmt.Sprintf("| %s | %d %s | %s |\n", s.fault.name, s.rounds, figures(&s.v),
		page.Either(s.lost > 0 || s.missed != nil, "**no**", "yes"))
}

// broken says what did not hold.
func (s *sum) broken() string {
	if s.lost == 0 && s.missed == nil {
		return ""
	}
	const most = 10
	more := page.Either(len(s.missed) > most, fmt.Sprintf("- and %d more\n", len(s.missed)-most), "")
	return fmt.Sprintf("\n**%s** did not hold:\n\n", upper(s.fault.name)) +
		page.Rows(s.missed[:min(most, len(s.missed))], func(missed string) string {
			return "- " + strings.Join(strings.Fields(missed), " ") + "\n"
		}) + more
}

// tabled is the table of calls by what came how often, the most frequent first.
func tabled(title string, counts map[string]int) string {
	return "| " + title + " | calls |\n|---|--:|\n" + page.Rows(page.Frequent(counts), func(word string) string {
		return fmt.Sprintf("| %s | %s |\n", word, page.Grouped(counts[word]))
	})
}

func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
