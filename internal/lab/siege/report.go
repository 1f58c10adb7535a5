package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/raid"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// Resident memory is near its start when it exceeds it by no more than nearBytes, or than
// one part of what it grew by: of a heap that was large, the Go runtime keeps its tables,
// and pages that some small value still lies in.
const (
	nearPart  = 8
	nearBytes = 20 << 20
)

// minuteBytes is how much the log or the audit may take of a disk in a minute, whatever
// strangers do: 1,500 lines, of which 500 have a path of theirs, and those of the quiet
// tenant.
const minuteBytes = 3 << 19

// near tells whether the resident memory is back near its start.
func (o *outcome) near() bool { return o.end <= o.start+max((o.most-o.start)/nearPart, nearBytes) }

// verdict returns what was promised and did not hold, nil if all did.
func (o *outcome) verdict() error {
	var c world.Claims
	c.Claim(o.alive && o.kills == 0,
		"the gateway ended after %v, the kernel ended %d processes for want of memory:\n%s",
		o.lasted.Round(time.Second), o.kills, o.words)
	c.Claim(o.near(), "resident memory was %s before the siege and %s after it", page.MiB(o.start),
		page.MiB(o.end))
	c.Claim(o.reloads > 0, "the config was never loaded again")
	c.Claim(len(o.quiet.Instead) == 0 && len(o.quiet.Answered) > 0,
		"of %d calls of the quiet tenant %d were answered; instead came %s", o.sent(),
		len(o.quiet.Answered), page.Counted(o.quiet.Instead, "nothing"))
	most := int64(o.lasted/time.Minute+1) * minuteBytes
	c.Claim(o.disk == nil || o.disk.logged <= most && o.disk.audit <= most,
		"in %v strangers filled the disk, %s",
		o.lasted.Round(time.Second), o.disk)
	for _, a := range o.planned {
		t := o.attacks[a.Name]
		c.Claim(!o.alive || t != nil, "the attack %s was not begun", a.Name)
		c.Claim(!o.alive || t == nil || t.Broken < t.Attempts, "the attack %s did not take place: %+v",
			a.Name, t)
	}
	if err := c.Broken(); err != nil {
		return fmt.Errorf("with %d MiB: %w", o.limit>>20, err)
	}
	return nil
}

// sent returns how many calls the quiet tenant made.
func (o *outcome) sent() int { return len(o.quiet.Answered) + o.quiet.Refused() }

// String is the outcome in a line.
func (o *outcome) String() string {
	return fmt.Sprintf(
		"%d MiB: alive %v after %v, %d ended by the kernel; resident %s, at most %s, %s after %v; quiet: "+
			"%d sent, %d answered, p99 %v, instead %s; disk %s, strangers from %d",
		o.limit>>20, o.alive, o.lasted.Round(time.Second), o.kills, page.MiB(o.start), page.MiB(o.most),
		page.MiB(o.end), o.rested.Round(time.Second),
		o.sent(), len(o.quiet.Answered), o.percentile(99), page.Counted(o.quiet.Instead, "nothing"),
		o.disk, o.from)
}

// describe writes the report.
func describe(outcomes []*outcome) string {
	onDisk := slices.ContainsFunc(outcomes, func(o *outcome) bool { return o.disk != nil })
	return fmt.Sprintf(siegePage, page.Either(onDisk, "When strangers fill the disk", "A siege"),
		page.Rows(outcomes, (*outcome).row), page.Rows(outcomes, (*outcome).broken),
		page.Rows(outcomes, (*outcome).describeAttacks))
}

// siegePage is the report, with places for what was measured.
const siegePage = `# %s

The gateway runs in a control group of Linux, without swap. The kernel ends whatever in it needs more
memory. Three attackers make the attacks below, three at a time each, in an order drawn by a seed. Two of
them have tokens, of two tenants with eight users each; the third has none. The config is loaded again every
few seconds. Meanwhile a quiet tenant makes five to nine calls a second. Clients and servers run outside of
the control group, on the same machine. Those of the quiet tenant have a process of their own.

Limits are the default ones, but one of the two attacking tenants has rates of 10,000 a second. Sessions end
after a minute, and so do events that are kept for resuming; in a short siege both end after a quarter of
it. So soon after the siege only what leaked is left. During the siege both stay at their bounds. Calls that
wait for an answer of their client wait for five minutes as always, and their memory comes back when they
end.

These are the promises:

- The process lives.
- Its resident memory comes back to what it was before. The Go runtime may keep 20 MiB, or an eighth of what
  it grew by. The pages of the program's own file do not count.
- Every call of the quiet tenant is answered.
- Every attack takes place.

| memory | siege | process | resident before, at most, after | charged at most | quiet: sent, answered | p50, p99 | sent again | reloads | strangers from | disk | verdict |
|---|---|---|---|---|---|---|---|---|---|---|---|
%s%s
*Charged* is what the kernel counts for the control group, without the pages of the program's file, which were in memory
before. Version 1 of control groups counts what sockets hold separately, version 2 within the rest. *p50, p99* are of the
calls that were due during the siege, each from when it was due. The attackers use the same processors. *Sent again* are
calls on an idle connection that turned out to be closed; a client sends such a call once more, on a new connection.
*Strangers from* is from how many addresses those without a token come. *Disk* is the one that log and audit share, with
what they took of it; nothing is rotated. *After* is how long after the siege the memory was read, which is as soon as it
was near its start.
%s`

// broken says which promises were.
func (o *outcome) broken() string {
	err := o.verdict()
	if err == nil {
		return ""
	}
	return "\n" + strings.ToUpper(err.Error()[:1]) + err.Error()[1:] + ".\n"
}

func (o *outcome) row() string {
	answered := page.Either(len(o.quiet.Instead) > 0, " ("+page.Counted(o.quiet.Instead, "nothing")+")", "")
	return "| " + strings.Join([]string{
		fmt.Sprint(o.limit>>20, " MiB"), o.lasted.Round(time.Second).String(),
		page.Either(o.alive, "lives", fmt.Sprintf("**ended** (%d by the kernel)", o.kills)),
		fmt.Sprintf("%s, %s, %s (after %v)", page.MiB(o.start), page.MiB(o.most), page.MiB(o.end),
			o.rested.Round(time.Second)),
		fmt.Sprintf("%s, sockets %s", page.MiB(o.charged), page.MiB(o.sockets)),
		fmt.Sprintf("%d, %d%s", o.sent(), len(o.quiet.Answered), answered),
		fmt.Sprintf("%v, %v", o.percentile(50), o.percentile(99)),
		fmt.Sprint(o.quiet.Again), fmt.Sprint(o.reloads), fmt.Sprint(o.from), o.disk.String(),
		page.Either(o.verdict() == nil, "kept", "**broken**"),
	}, " | ") + " |\n"
}

// describeAttacks is the table of the attacks that were made.
func (o *outcome) describeAttacks() string {
	strangers := page.Either(o.disk != nil, fmt.Sprintf(", addresses of strangers: %d", o.from), "")
	return fmt.Sprintf(`
## With %d MiB%s

| attack | what it does | tries | answered | received | held open at most | refused, and how |
|---|---|---|---|---|---|---|
%s`, o.limit>>20, strangers, page.Rows(allAttacks, func(a raid.Attack) string {
		t := o.attacks[a.Name]
		if t == nil {
			return ""
		}
		return fmt.Sprintf("| %s | %s | %d | %d | %s | %d | %s |\n", a.Name, a.Does, t.Attempts, t.Answered,
			page.MiB(t.Received), t.Held, page.Counted(t.Instead, "nothing"))
	}))
}
