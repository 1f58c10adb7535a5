package ledger

import (
	"fmt"
	"math/bits"
)

// done is what servers and records say of one call.
type done struct {
	serial               uint64 // of its first execution
	executions           uint8  // at most 255 are counted
	cancelled            bool   // one of them was told
	serialKnown          bool   // one of them has the serial of the answer
	recorded, recordedOK bool
	outcome              string // of its last record
	strangeExecution     bool   // one says another tenant
	strangeRecord        bool
}

// Judge joins the ledger with all executions of the servers and all records of the
// gateway. Those that are of none of its calls, as of an earlier round, are left out.
// Nothing may be in flight any more. It is the oracle:
//
//	clients        what each call ended with      ┐
//	servers        which calls were executed      ├─ by nonce, which all three have ─▶ verdict
//	audit files    which calls are on record      ┘
func (l *Ledger) Judge(executions []Execution, records []Record) Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := judge{ledger: l, done: make([]done, len(l.entries)), verdict: Verdict{Ends: map[string]int{}}}
	j.takeExecutions(executions)
	j.takeRecords(records)
	for i := range l.entries {
		j.count(&l.entries[i])
		j.call(i, &l.entries[i], &j.done[i])
	}
	j.verdict.Changes = int(l.told.Load())
	for _, w := range l.wrong {
		find(w.counts(&j.verdict), 1, &j.verdict.Samples, func() string { return w.what })
	}
	return j.verdict
}

// judge is one judgement in work.
type judge struct {
	ledger  *Ledger
	done    []done // as entries of the ledger
	verdict Verdict
}

func (j *judge) takeExecutions(executions []Execution) {
	for i := range executions {
		x := &executions[i]
		at := j.ledger.index(x.Nonce, len(j.done))
		if at < 0 {
			continue
		}
		j.verdict.Executed++
		d, e := &j.done[at], &j.ledger.entries[at]
		if d.executions == 0 {
			d.serial = x.Serial
		}
		d.executions = increased(d.executions)
		d.cancelled = d.cancelled || x.Cancelled
		d.serialKnown = d.serialKnown || x.Serial == e.serial
		d.strangeExecution = d.strangeExecution || x.Tenant != e.tenant.Value()
	}
}

func (j *judge) takeRecords(records []Record) {
	for _, r := range records {
		at := j.ledger.index(r.Nonce, len(j.done))
		if at < 0 {
			continue
		}
		d := &j.done[at]
		d.recorded, d.outcome = true, r.Outcome
		d.recordedOK = d.recordedOK || r.Outcome == "ok"
		d.strangeRecord = d.strangeRecord || r.Tenant != j.ledger.entries[at].tenant.Value()
	}
}

// count adds up how a call ended.
func (j *judge) count(e *entry) {
	v := &j.verdict
	v.Requests++
	v.Events += bits.OnesCount64(e.seen)
	switch e.end {
	case answered:
		v.Answered++
		return
	case refused:
		v.Refused++
	case broken:
		v.Broken++
	case open, silent: // a loss, which call finds
	}
	if e.end != open {
		v.Ends[e.word.Value()]++
	}
}

// call finds what is wrong with one call, and what is not a loss by itself.
func (j *judge) call(i int, e *entry, d *done) {
	v, ran, good := &j.verdict, d.executions > 0, e.end == answered
	seen := bits.OnesCount64(e.seen)
	unrecorded := !good && ran && !d.recorded
	lost, noted := &v.Samples, &v.Notes
	for _, found := range []struct {
		count   *int
		n       int // so much is added to it; what and samples are of the first few
		samples *[]string
		what    string
	}{
		{&v.Twice, one(d.executions > 1), lost, "executed more than once"},
		{&v.Unanswered, one(e.end == silent || e.end == open), lost, "no end"},
		{
			&v.Unexecuted, one(good && !e.otherTenant && (e.foreign || !d.serialKnown)), lost,
			"answered, not executed",
		},
		{
			&v.Denied, one(e.end == refused && !e.made && ran), lost,
			"executed, and the error says it was not",
		},
		{&v.EventsLost, one(good && !e.wasBroken && !e.plain) * (int(e.events) - seen), lost, "events lost"},
		{&v.EventsTwice, int(e.doubled), lost, "events or answers twice"},
		{
			&v.EventsOutOfOrder, int(e.disordered) + one(!good && e.foreign && !e.otherTenant), lost,
			"events out of order",
		},
		{&v.WrongTenant, one(e.otherTenant || d.strangeExecution || d.strangeRecord), lost, "wrong tenant"},
		{&v.Unaudited, one(good && !d.recordedOK), lost, "answered, not on record as done"},
		{&v.Unfounded, one(d.recordedOK && !ran), lost, "on record as done, not executed"},
		{&v.BrokenUnaudited, one(unrecorded), noted, "executed, unknown to the caller, not on record"},
		{
			&v.Unstreamed, one(good && e.plain && int(e.events) > seen), noted,
			"answered without a stream for its events",
		},
		{
			&v.Uncancelled, one(e.cancelled && !good && ran && !d.cancelled), noted,
			"cancelled, and the server was not told",
		},
	} {
		if found.n > 0 {
			find(found.count, found.n, found.samples,
				func() string { return found.what + ": " + j.describe(i) })
		}
	}
	v.TwiceKeyed += one(d.executions > 1 && e.keyed)
	v.EventsOfCopies += one(d.executions > 1 && !e.keyed) * int(e.doubled)
	if unrecorded && !e.left && !e.cancelled {
		v.Unrecorded = append(v.Unrecorded, j.nonce(i))
	}
}

// maxSamples is how many samples of one kind are kept.
const maxSamples = 5

// find adds n to a number of the verdict, and keeps a sample as long as there are few of
// its kind.
func find(count *int, n int, samples *[]string, sample func() string) {
	if *count < maxSamples {
		*samples = append(*samples, sample())
	}
	*count += n
}

// nonce names the call at an index of the ledger.
func (j *judge) nonce(i int) Nonce { return j.ledger.base + Nonce(i) + 1 } //nolint:gosec // an index is not negative

// describe says all that is known of a call, for whoever looks for the cause.
func (j *judge) describe(i int) string {
	e, d := &j.ledger.entries[i], &j.done[i]
	how := []string{"open", "answered", "refused", "broken", "silent"}[e.end]
	if e.end != answered && e.end != open {
		how += " (" + e.word.Value() + ")"
	}
	return fmt.Sprintf(
		"call %s of %s, %s: %s, answer %x, %d executions (first %x), %d of %d events, on record as %q",
		j.nonce(i), e.tenant.Value(), e.kind.Value(), how, e.serial, d.executions, d.serial,
		bits.OnesCount64(e.seen), e.events, d.outcome)
}

func one(claim bool) int {
	if claim {
		return 1
	}
	return 0
}

// increased adds one to a small number that stops at its end.
func increased(n uint8) uint8 { return max(n, n+1) }
