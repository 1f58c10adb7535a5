package exchange

import (
	"cmp"
	"context"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/connlimit"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

const (
	// SumWindow is for how long refusals are summed up.
	SumWindow      = time.Minute
	shownOfOne     = 5   // requests of one caller in a window that are told one by one
	maxShown       = 500 // requests of all such callers in a window that are told one by one
	undelayedOfOne = 100 // refusals of one caller in a window that are answered at once
	// with a sum of their own in a window; all others share one for each outcome
	maxSums = 1000

	otherAddresses = "other_addresses" // the reason of the sum of those beyond maxSums
)

// refusalSums decides how requests of callers who are not let in are told, on record and
// in the log. No limit bounds how many such requests there are, and a full disk would
// keep every tenant from its calls. So the first few of each address and reason in a
// window of time are told one by one; of the others, one line with their number is
// written when the window ends. It is safe for concurrent use.
//
// Without maxShown, a thousand addresses made six lines a minute each: some 2 GB of
// record in a day and, with long paths, ten times as much in the log. With it, record and
// log are bounded by 1,500 lines a minute each, whatever comes.
type refusalSums struct {
	mu    sync.Mutex // guards the fields below
	seen  map[sumKey]*tally
	shown int // requests of this window that are told one by one
}

// sumKey is the key under which requests are summed up: an address (or a /64 network of
// IPv6), an outcome and a reason. Refusals of different users are counted apart, because
// many clients may share one address. Of a token that was refused the issuer alone
// counts, if the signature says so. The zero network stands for all for whom there is no
// room.
type sumKey struct {
	network         netip.Prefix
	outcome, reason string
	user            auth.User // as far as it is known
	method          string    // of a sign-in; "" for all others
	logged          bool      // in the log alone, such as a path that is not there; no refusal on record
}

// tally is how often a caller has come in this window.
type tally struct {
	times int
	sum   audit.Record // of the requests that are not told one by one; its Count is zero if there are none
}

// lineForm is how the log tells of a request.
type lineForm int

const (
	lineUndecided lineForm = iota // it is not over, or its caller is known
	lineOwn                       // in a line of its own
	lineSummed                    // in a sum of requests
)

// count counts a request, and returns how it is told. If not in a line of its own, it has
// been added to a sum. It was refused often if that is more than undelayedOfOne times in
// this window. Those who share a sum because there is no room for more are not known
// apart, and count as not often refused.
func (s *refusalSums) count(who sumKey, at time.Time) (form lineForm, often bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.seen[who]
	if one == nil && len(s.seen) >= maxSums {
		who = sumKey{outcome: who.outcome, reason: otherAddresses, method: who.method, logged: who.logged}
		one = s.seen[who]
	}
	if one == nil {
		one = &tally{}
		s.seen[who] = one
	}
	known := who.network.IsValid()
	if one.times++; known && one.times <= shownOfOne && s.shown < maxShown {
		s.shown++
		return lineOwn, false
	}
	one.add(who, at)
	return lineSummed, known && one.times > undelayedOfOne
}

// add adds a request to the sum.
func (o *tally) add(who sumKey, at time.Time) {
	sum := &o.sum
	if sum.Count == 0 {
		*sum = audit.Record{
			Time: at, Outcome: who.outcome, Reason: who.reason, Remote: remoteName(who.network),
			TenantID: who.user.TenantID, Issuer: who.user.Issuer, Subject: who.user.Subject,
			Method: who.method,
		}
	}
	sum.Count++
	sum.Duration = max(sum.Duration, at.Sub(sum.Time))
}

// networkOf returns the network whose refusals are summed up together.
func networkOf(remote string) netip.Prefix {
	address, _ := netip.ParseAddr(remote) // what is none has no network
	return connlimit.Network(address)
}

func remoteName(network netip.Prefix) string {
	switch {
	case !network.IsValid():
		return ""
	case network.IsSingleIP():
		return network.Addr().String()
	}
	return network.String()
}

// endWindow ends the window, begins a new one, and returns the sums of the one that
// ended, in the order of time.
func (s *refusalSums) endWindow() []sum {
	s.mu.Lock()
	before := s.seen
	s.seen, s.shown = make(map[sumKey]*tally), 0
	s.mu.Unlock()
	var sums []sum
	for who, one := range before {
		if one.sum.Count > 0 {
			sums = append(sums, sum{one.sum, who.logged})
		}
	}
	slices.SortFunc(sums, func(a, b sum) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Remote, b.Remote),
			cmp.Compare(a.Issuer, b.Issuer), cmp.Compare(a.Subject, b.Subject))
	})
	return sums
}

// sum is a number of requests of one caller.
type sum struct {
	audit.Record

	logged bool // as in sumKey
}

// How long a client waits at least for the answer that it is refused, by how much more
// the waits differ, and how many clients of one kind wait at once.
const (
	refusalDelay  = 100 * time.Millisecond
	refusalJitter = 50 * time.Millisecond
	jitterSteps   = 50
	maxDelayed    = 1024
)

// delayer makes clients of one kind wait that send more requests than they may. One
// that does not heed the refusal sends the next request as soon as it has the answer, so
// without this it would keep a processor busy with refusals. Who waits must hold no slot
// among the requests in work. A body that came without a length was read before its cost
// was known, and stays counted meanwhile. The zero delayer is ready to use; it is safe
// for concurrent use, and must not be copied.
//
// Clients that began together and all waited equally long would come back in one burst
// each time, behind which the calls of others wait. So each waits a step longer than the
// one before.
type delayer struct {
	waiting atomic.Int64
	steps   atomic.Int64
}

// full tells whether no further one may wait.
func (l *delayer) full() bool { return l.waiting.Load() >= maxDelayed }

// wait returns after refusalDelay or somewhat later, or when the client leaves. Where
// many wait already, it returns at once, and the answer is the last one on its
// connection: to connect again makes up for the time. Of an answer whose header is
// written WriteHeader has said that; one that was written just before the last place was
// taken waits all the same.
func (l *delayer) wait(ctx context.Context, answer http.Header, written bool) {
	defer l.waiting.Add(-1)
	if l.waiting.Add(1) > maxDelayed {
		if !written {
			answer.Set("Connection", "close")
		}
		if answer.Get("Connection") == "close" {
			return
		}
	}
	more := refusalJitter / jitterSteps * time.Duration(l.steps.Add(1)%jitterSteps)
	pace.Wait(ctx, refusalDelay+more)
}
