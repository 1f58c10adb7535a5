package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// maxUses bounds the rows of a report in memory; what comes beyond is counted together.
const maxUses = 100_000

// uses are the rows of a report by what they are about.
type uses[Row comparable] map[Row]*use

// use is what one row of a report says: how often something was used.
type use struct {
	Calls   int
	Refused int // of Calls
	Failed  int // of Calls
	First   time.Time
	Last    time.Time
}

// count adds a line to a row or, where there are too many, to that of the others.
func (u uses[Row]) count(row, others Row, e *entry) {
	if u[row] == nil && len(u) >= maxUses {
		row = others
	}
	if u[row] == nil {
		u[row] = &use{First: e.Time}
	}
	u[row].count(e)
}

// usageRow is what a row of a usage report is about, in the order of its by.
type usageRow [maxBy]string

// maxBy is how many things there are to count by.
const maxBy = 8

// usageReport is who used what, from audit files.
type usageReport struct {
	by           []string
	since, until time.Time // until is the first moment that does not count, if it is set
	wanted       wanted
	uses         uses[usageRow]
	unread       int       // lines that are no records
	first        time.Time // of the earliest line
}

// wanted are patterns of what alone is counted; "" stands for all.
type wanted struct{ tenant, user, tool string }

// fits tells whether a line is of what is wanted.
func (w *wanted) fits(e *entry) bool {
	for _, both := range [][2]string{{w.tenant, e.Tenant}, {w.user, e.user()}, {w.tool, e.Item}} {
		if both[0] != "" && !registry.MatchName(both[0], both[1]) {
			return false
		}
	}
	return true
}

// usageHelp is the help of the command usage.
var usageHelp = help{
	"[-config F] [-audit F]… [-since 7d] [-until D] [-tenant T] [-user U] [-tool X] " +
		"[-by tenant,user,tool,client] [-json | -csv]",
	"Counts who used what, from audit files: one row for each tenant, user, tool and client, or as -by " +
		"says.\n" +
		"Refused are calls that were not let through, failed are those that ended in an error, were " +
		"cancelled or found their server away; -by outcome,reason tells these apart.\n" +
		"Exit 0 when the files could be read, 2 otherwise.",
}

// usageCommand is the command usage.
func usageCommand(flags *flag.FlagSet) action {
	file := flags.String("config", defaultConfigFile, "the config `file`, which says where the audit file is")
	since := flags.String("since", "7d", "how far back, as `7d`, 12h or a day such as 2026-11-01")
	until := flags.String("until", "", "the end, as `1d` for a day ago, or a day such as 2026-11-07, which "+
		"counts whole")
	by := flags.String("by", "tenant,user,tool,client",
		"what to count by, a `list` of these four, name, server, outcome and reason")
	r := &usageReport{uses: uses[usageRow]{}}
	flags.StringVar(&r.wanted.tenant, "tenant", "",
		"count this tenant alone; * in a `pattern` stands for any text")
	flags.StringVar(&r.wanted.user, "user", "", "count users alone whose ISSUER#SUBJECT fits this "+
		"`pattern`, as *#alice")
	flags.StringVar(&r.wanted.tool, "tool", "", "count tools alone whose name fits this `pattern`, as "+
		"github__*; prompts and resources, too")
	inJSON := flags.Bool("json", false, "print JSON")
	inCSV := flags.Bool("csv", false, "print CSV")
	var audits []string
	flags.Func("audit", "an audit `file` in place of the config's"+auditAgain, each(&audits))
	return func(_ context.Context, _ []string, s streams) error {
		r.by = strings.Split(*by, ",")
		problem := cmp.Or(r.span(*since, *until, time.Now().UTC()), r.problem())
		if err := refusedFirst(
			wrong{problem != "", problem},
			wrong{*inJSON && *inCSV, "-json and -csv exclude each other"}); err != nil {
			return err
		}
		if len(audits) == 0 {
			cfg, err := config.Load(*file, config.ProcessEnvironment())
			if err == nil {
				audits, err = auditOf(cfg, "usage")
			}
			if err != nil {
				return refusedConfig(err)
			}
		}
		var err error
		if r.unread, err = readAudits("usage", audits, s, r.add); err != nil {
			return refused("%w", err)
		}
		r.print(s, *inJSON, *inCSV)
		r.warn(s)
		return nil
	}
}

// span reads from when to when lines count. It returns what is wrong, "" if nothing is.
func (r *usageReport) span(since, until string, now time.Time) string {
	var err error
	if r.since, err = sinceWhen(since, now); err != nil {
		return "-since: " + err.Error()
	}
	if until == "" {
		return ""
	}
	if r.until, err = sinceWhen(until, now); err != nil {
		return "-until: " + err.Error()
	}
	if _, err := time.Parse(time.DateOnly, until); err == nil {
		r.until = r.until.AddDate(0, 0, 1) // the day counts whole
	}
	return when(!r.since.Before(r.until), "-since is not before -until")
}

// sinceWhen reads a time as -since has it.
func sinceWhen(text string, now time.Time) (time.Time, error) {
	if day, err := time.ParseInLocation(time.DateOnly, text, time.UTC); err == nil {
		return day, nil
	}
	d, err := spanOf(text)
	if err != nil || d < 0 {
		return now, fmt.Errorf("%q is no time: write 7d, 12h or 2026-11-01", text)
	}
	return now.Add(-d), nil
}

// problem says what is wrong with -by, "" if nothing is.
func (r *usageReport) problem() string {
	known := slices.Sorted(maps.Keys((&entry{}).counted()))
	for i, name := range r.by {
		if !slices.Contains(known, name) {
			return fmt.Sprintf("-by knows no %q%s; there are %s", name, hint(name, known),
				strings.Join(known, ", "))
		}
		if slices.Contains(r.by[:i], name) {
			return fmt.Sprintf("-by names %s twice", name)
		}
	}
	return ""
}

// counted returns all by which a line may be counted. Names that nobody but a caller
// chose, of what is not there, are one: there is no bound on how many they are.
func (e *entry) counted() map[string]string {
	tool := e.Item
	if e.Outcome == outcomeUnknown {
		tool = "(unknown)"
	}
	return map[string]string{
		"tenant": e.Tenant, "user": e.user(), "name": e.Name, "tool": tool,
		"client": cmp.Or(e.Client, e.ClientID), "server": e.Server, "outcome": e.Outcome,
		"reason": e.Reason,
	}
}

// add counts a line of an audit file.
func (r *usageReport) add(e *entry) {
	if r.first.IsZero() || e.Time.Before(r.first) {
		r.first = e.Time
	}
	late := !r.until.IsZero() && !e.Time.Before(r.until)
	if late || e.Time.Before(r.since) || !e.isCall() || !r.wanted.fits(e) {
		return
	}
	var row, others usageRow
	said := e.counted()
	for i, what := range r.by {
		row[i], others[i] = said[what], "(others)"
	}
	r.uses.count(row, others, e)
}

// count adds a line to a row.
func (u *use) count(e *entry) {
	n := max(1, e.Count)
	u.Calls += n
	switch {
	case e.isRefused():
		u.Refused += n
	case !slices.Contains([]string{outcomeLet, "task", "input_required", "repeated"}, e.Outcome):
		u.Failed += n
	}
	if e.Time.Before(u.First) {
		u.First = e.Time
	}
	if e.Time.After(u.Last) {
		u.Last = e.Time
	}
}

// isCall tells whether the line counts as a call. None is what is about signing in, nor
// what asks about a task, as often as its client likes: the call that made the task has a
// line of its own. Such a request counts if it was refused.
func (e *entry) isCall() bool {
	return !e.isSignIn() && (e.isRefused() || !strings.HasPrefix(e.Method, "tasks/"))
}

// isRefused tells whether the request was refused, so that nothing was used.
func (e *entry) isRefused() bool {
	return slices.Contains([]string{
		outcomeLimited, outcomeForbidden, outcomeUnknown, outcomeInvalidArguments, "invalid_request",
		"missing_capability", "unrecordable", outcomeUnauthenticated,
	}, e.Outcome)
}

// user names who called: the subject, with its issuer, or "" before anybody was known.
func (e *entry) user() string {
	return when(e.Subject != "", "%s#%s", e.Issuer, e.Subject)
}

// rows returns the report, most calls first.
func (r *usageReport) rows() []usageRow {
	return slices.SortedFunc(maps.Keys(r.uses), func(a, b usageRow) int {
		return cmp.Or(cmp.Compare(r.uses[b].Calls, r.uses[a].Calls), slices.Compare(a[:], b[:]))
	})
}

// print writes the report. That the reader is gone is no error.
func (r *usageReport) print(s streams, inJSON, inCSV bool) {
	if inJSON {
		r.printJSON(s)
		return
	}
	head := append(slices.Clone(r.by), "calls", "refused", "failed", "first", "last")
	if inCSV {
		w := csv.NewWriter(s.out)
		_ = w.Write(head)
		r.each(harmlessCell, func(cells []string) { _ = w.Write(cells) })
		w.Flush()
		return
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, strings.ToUpper(strings.Join(head, "\t")))
	r.each(func(name string) string {
		return strings.Map(visible, cmp.Or(name, "-"))
	}, func(cells []string) { _, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) })
	_ = w.Flush()
}

// each calls do with the cells of each row. Names are written as cell does it.
func (r *usageReport) each(cell func(name string) string, do func(cells []string)) {
	when := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	for _, row := range r.rows() {
		u := r.uses[row]
		var cells []string
		for i := range r.by {
			cells = append(cells, cell(row[i]))
		}
		do(append(cells, strconv.Itoa(u.Calls), strconv.Itoa(u.Refused), strconv.Itoa(u.Failed),
			when(u.First), when(u.Last)))
	}
}

// warn says when the files may not reach back as far as was asked, as after a rotation.
func (r *usageReport) warn(s streams) {
	if r.first.IsZero() {
		s.complain("drawbridge usage: the files have no line: name older ones, too, with -audit\n")
		return
	}
	if len(r.uses) == 0 && r.wanted != (wanted{}) {
		s.complain("drawbridge usage: nothing fits; a user is ISSUER#SUBJECT, and * in a pattern stands " +
			"for any text, as in '*#alice' and 'github__*'\n")
	}
	if r.first.After(r.since) {
		s.complain("drawbridge usage: nothing is known before %s, where the files begin: name older ones, "+
			"too, with -audit\n", r.first.UTC().Format(time.RFC3339))
	}
}

// harmlessCell is a name that a spreadsheet takes for a text, and not for a formula.
func harmlessCell(name string) string {
	if name != "" && strings.IndexByte("=+-@\t\r", name[0]) >= 0 {
		return "'" + name
	}
	return name
}

// printJSON writes the report as JSON.
func (r *usageReport) printJSON(s streams) {
	out := struct {
		Since  time.Time        `json:"since"`
		Until  time.Time        `json:"until,omitzero"`
		By     []string         `json:"by"`
		Rows   []map[string]any `json:"rows"`
		Unread int              `json:"unread"`
	}{r.since, r.until, r.by, []map[string]any{}, r.unread}
	for _, row := range r.rows() {
		u := r.uses[row]
		members := map[string]any{
			"calls": u.Calls, "refused": u.Refused, "failed": u.Failed, "first": u.First.UTC(),
			"last": u.Last.UTC(),
		}
		for i, name := range r.by {
			members[name] = row[i]
		}
		out.Rows = append(out.Rows, members)
	}
	s.say("%s", asJSON(out))
}
