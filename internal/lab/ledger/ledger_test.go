package ledger_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
)

// story is a ledger with what servers did and what is on record of it.
type story struct {
	*ledger.Ledger

	executions []ledger.Execution
	records    []ledger.Record
}

// ask enters a call of tenant red and returns its nonce.
func (s *story) ask(q ledger.Question) ledger.Nonce {
	q.Tenant, q.Kind = "red", "test"
	return s.Ask(q)
}

// run enters an execution and returns its serial.
func (s *story) run(n ledger.Nonce, tenant string) uint64 {
	serial := uint64(len(s.executions)) + 100
	s.executions = append(s.executions, ledger.Execution{
		Serial: serial, Nonce: n, Tenant: tenant,
		Tool: "touch",
	})
	return serial
}

func (s *story) record(n ledger.Nonce, tenant, outcome string) {
	s.records = append(s.records, ledger.Record{Tenant: tenant, Outcome: outcome, Nonce: n})
}

// good is a call that went as it should, up to its answer.
func (s *story) good(q ledger.Question) (ledger.Nonce, ledger.Answer) {
	n := s.ask(q)
	serial := s.run(n, "red")
	s.record(n, "red", "ok")
	return n, ledger.Answer{Nonce: n, Serial: serial, Tenant: "red"}
}

// findings are the numbers of a verdict that should be 0.
func findings(v *ledger.Verdict) map[string]int {
	found := map[string]int{}
	value := reflect.ValueOf(*v)
	bad := false
	for i := range value.NumField() {
		name := value.Type().Field(i).Name
		bad = bad || name == "Twice"
		if bad && value.Field(i).Kind() == reflect.Int && value.Field(i).Int() != 0 {
			found[name] = int(value.Field(i).Int())
		}
	}
	return found
}

func TestViolationsAreFoundAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		happens func(s *story)
		want    map[string]int
	}{
		"answered": {happens: func(s *story) { s.Answered(s.good(ledger.Question{})) }},
		"answered with all events": {happens: func(s *story) {
			n, a := s.good(ledger.Question{Events: 3})
			for i := range 3 {
				s.Event(n, n, i+1)
			}
			s.Answered(n, a)
		}},
		"answered without a stream": {
			happens: func(s *story) {
				n, a := s.good(ledger.Question{Events: 3})
				s.Plain(n)
				s.Answered(n, a)
			},
			want: map[string]int{"Unstreamed": 1},
		},
		"refused before anything happened": {happens: func(s *story) {
			n := s.ask(ledger.Question{})
			s.record(n, "red", "limited")
			s.Refused(n, "DB-LIMIT-USER", false)
		}},
		"refused, and not even on record": {happens: func(s *story) {
			n := s.ask(ledger.Question{})
			s.Refused(n, "503", false)
		}},
		"an error after it was done": {happens: func(s *story) {
			n, _ := s.good(ledger.Question{})
			s.Refused(n, "DB-TIMEOUT", true)
		}},
		"broken after it was done": {happens: func(s *story) {
			n, _ := s.good(ledger.Question{Events: 2})
			s.Event(n, n, 1)
			s.Broken(n, "reset")
		}},
		"broken before it was done": {happens: func(s *story) {
			n := s.ask(ledger.Question{})
			s.Broken(n, "refused")
		}},
		"broken, and repeated under its key": {happens: func(s *story) {
			n, a := s.good(ledger.Question{Keyed: true, Events: 2})
			s.Event(n, n, 1)
			s.Broken(n, "reset")
			s.Answered(n, a) // as plain JSON, without the event that was missing
		}},
		"broken, and the repeat cannot tell": {happens: func(s *story) {
			n, _ := s.good(ledger.Question{Keyed: true})
			s.Broken(n, "reset")
			s.Refused(n, "503", false) // says of the repeat, not of the first request
		}},
		"cancelled": {happens: func(s *story) {
			n, _ := s.good(ledger.Question{})
			s.executions[0].Cancelled = true
			s.Cancelled(n)
		}},
		"cancelled too late": {happens: func(s *story) {
			n, a := s.good(ledger.Question{})
			s.Cancelled(n)
			s.Answered(n, a)
		}},
		"of an earlier round": {happens: func(s *story) {
			earlier := &story{Ledger: ledger.New()}
			n, _ := earlier.good(ledger.Question{})
			earlier.run(n, "red")
			s.executions, s.records = append(s.executions, earlier.executions...), append(s.records,
				earlier.records...)
		}},

		"executed twice": {want: map[string]int{"Twice": 1}, happens: func(s *story) {
			n, a := s.good(ledger.Question{})
			s.run(n, "red")
			s.Answered(n, a)
		}},
		"executed twice, and nobody knows": {want: map[string]int{"Twice": 1}, happens: func(s *story) {
			n, _ := s.good(ledger.Question{})
			s.run(n, "red")
			s.Broken(n, "reset")
		}},
		"executed twice under its key": {
			want: map[string]int{"Twice": 1, "TwiceKeyed": 1},
			happens: func(s *story) {
				n, a := s.good(ledger.Question{Keyed: true})
				s.run(n, "red")
				s.Answered(n, a)
			},
		},
		"executed twice, and told twice": {
			want: map[string]int{"Twice": 1, "EventsTwice": 2, "EventsOfCopies": 2},
			happens: func(s *story) {
				n, a := s.good(ledger.Question{Events: 1})
				s.run(n, "red")
				for range 2 {
					s.Event(n, n, 1)
					s.Answered(n, a)
				}
			},
		},
		"executed twice under its key, and told twice": {
			want: map[string]int{"Twice": 1, "TwiceKeyed": 1, "EventsTwice": 1},
			happens: func(s *story) {
				n, a := s.good(ledger.Question{Keyed: true})
				s.run(n, "red")
				s.Answered(n, a)
				s.Answered(n, a)
			},
		},
		"executed and silent": {want: map[string]int{"Unanswered": 1}, happens: func(s *story) {
			n, _ := s.good(ledger.Question{})
			s.Silent(n, "no answer in a minute")
		}},
		"silent": {want: map[string]int{"Unanswered": 1}, happens: func(s *story) {
			n := s.ask(ledger.Question{})
			s.Silent(n, "no answer in a minute")
		}},
		"never ended": {
			want:    map[string]int{"Unanswered": 1},
			happens: func(s *story) { s.ask(ledger.Question{}) },
		},
		"answered, not executed": {
			want: map[string]int{"Unexecuted": 1, "Unfounded": 1},
			happens: func(s *story) {
				n := s.ask(ledger.Question{})
				s.record(n, "red", "ok")
				s.Answered(n, ledger.Answer{Nonce: n, Serial: 100, Tenant: "red"})
			},
		},
		"answered with the answer of another call": {
			want: map[string]int{"Unexecuted": 1},
			happens: func(s *story) {
				n, _ := s.good(ledger.Question{})
				other, a := s.good(ledger.Question{})
				s.Answered(other, a)
				s.Answered(n, a)
			},
		},
		"answered with a serial of its own making": {
			want: map[string]int{"Unexecuted": 1},
			happens: func(s *story) {
				n, a := s.good(ledger.Question{})
				a.Serial++
				s.Answered(n, a)
			},
		},
		"executed, though refused": {want: map[string]int{"Denied": 1}, happens: func(s *story) {
			n, _ := s.good(ledger.Question{})
			s.Refused(n, "DB-UPSTREAM-DOWN", false)
		}},
		"event lost": {want: map[string]int{"EventsLost": 1}, happens: func(s *story) {
			n, a := s.good(ledger.Question{Events: 3})
			s.Event(n, n, 1)
			s.Event(n, n, 3)
			s.Answered(n, a)
		}},
		"event twice": {want: map[string]int{"EventsTwice": 1}, happens: func(s *story) {
			n, a := s.good(ledger.Question{Events: 2})
			s.Event(n, n, 1)
			s.Event(n, n, 1)
			s.Event(n, n, 2)
			s.Answered(n, a)
		}},
		"answer twice": {want: map[string]int{"EventsTwice": 1}, happens: func(s *story) {
			n, a := s.good(ledger.Question{})
			s.Answered(n, a)
			s.Answered(n, a)
		}},
		"events out of order": {want: map[string]int{"EventsOutOfOrder": 1}, happens: func(s *story) {
			n, a := s.good(ledger.Question{Events: 2})
			s.Event(n, n, 2)
			s.Event(n, n, 1)
			s.Answered(n, a)
		}},
		"event after the answer": {
			want: map[string]int{"EventsOutOfOrder": 1, "EventsLost": 0},
			happens: func(s *story) {
				n, a := s.good(ledger.Question{Events: 1})
				s.Answered(n, a)
				s.Event(n, n, 1)
			},
		},
		"event that nobody sent": {want: map[string]int{"EventsOutOfOrder": 1}, happens: func(s *story) {
			n, a := s.good(ledger.Question{Events: 1})
			s.Event(n, n, 1)
			s.Event(n, n, 2)
			s.Answered(n, a)
		}},
		"event of another tenant": {want: map[string]int{"WrongTenant": 1}, happens: func(s *story) {
			n, a := s.good(ledger.Question{})
			s.Event(n, s.Ask(ledger.Question{Tenant: "blue"}), 1)
			s.Refused(n+1, "503", false)
			s.Answered(n, a)
		}},
		"answer of another tenant": {want: map[string]int{"WrongTenant": 1}, happens: func(s *story) {
			n, a := s.good(ledger.Question{})
			a.Tenant = "blue"
			s.Answered(n, a)
		}},
		"executed for another tenant": {want: map[string]int{"WrongTenant": 1}, happens: func(s *story) {
			n := s.ask(ledger.Question{})
			serial := s.run(n, "blue")
			s.record(n, "red", "ok")
			s.Answered(n, ledger.Answer{Nonce: n, Serial: serial, Tenant: "red"})
		}},
		"on record for another tenant": {want: map[string]int{"WrongTenant": 1}, happens: func(s *story) {
			n := s.ask(ledger.Question{})
			serial := s.run(n, "red")
			s.record(n, "blue", "ok")
			s.Answered(n, ledger.Answer{Nonce: n, Serial: serial, Tenant: "red"})
		}},
		"executed and answered, not on record": {
			want: map[string]int{"Unaudited": 1},
			happens: func(s *story) {
				n := s.ask(ledger.Question{})
				s.Answered(n, ledger.Answer{Nonce: n, Serial: s.run(n, "red"), Tenant: "red"})
			},
		},
		"answered, on record as refused": {want: map[string]int{"Unaudited": 1}, happens: func(s *story) {
			n := s.ask(ledger.Question{})
			s.record(n, "red", "limited")
			s.Answered(n, ledger.Answer{Nonce: n, Serial: s.run(n, "red"), Tenant: "red"})
		}},
		"executed and broken, not on record": {
			want: map[string]int{"BrokenUnaudited": 1},
			happens: func(s *story) {
				n := s.ask(ledger.Question{})
				s.run(n, "red")
				s.Broken(n, "reset")
			},
		},
		"on record as done, not executed": {want: map[string]int{"Unfounded": 1}, happens: func(s *story) {
			n := s.ask(ledger.Question{})
			s.record(n, "red", "ok")
			s.Broken(n, "reset")
		}},
		"cancelled, and the server never heard": {
			want: map[string]int{"Uncancelled": 1},
			happens: func(s *story) {
				n, _ := s.good(ledger.Question{})
				s.Cancelled(n)
			},
		},
		"told of the change of another's resource": {
			want:    map[string]int{"WrongTenant": 1},
			happens: func(s *story) { s.Misdelivered("thing") },
		},
		"change not told": {
			want:    map[string]int{"ChangesLost": 1},
			happens: func(s *story) { s.Untold("list") },
		},
		"an event came again on a resumed stream": {
			want:    map[string]int{"EventsTwice": 1},
			happens: func(s *story) { s.Repeated("event") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &story{Ledger: ledger.New()}
			test.happens(s)
			v := s.Judge(s.executions, s.records)
			got := findings(&v)
			if name == "event after the answer" {
				delete(got, "EventsLost") // whether it counts as lost too is of no matter
			}
			want := map[string]int{}
			for finding, n := range test.want {
				if n != 0 {
					want[finding] = n
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("found %v, want %v; samples %q", got, want, v.Samples)
			}
			if len(want) > 0 && len(v.Samples)+len(v.Notes) == 0 {
				t.Error("there is no sample of what was found")
			}
		})
	}
}

func TestVerdictCountsHowCallsEnded(t *testing.T) {
	t.Parallel()
	s := &story{Ledger: ledger.New()}
	s.Answered(s.good(ledger.Question{}))
	n := s.ask(ledger.Question{})
	s.Refused(n, "DB-DRAINING", false)
	n, _ = s.good(ledger.Question{Events: 1})
	s.Event(n, n, 1)
	s.Broken(n, "reset")
	s.Told()
	v := s.Judge(s.executions, s.records)
	got := fmt.Sprint(v.Requests, v.Answered, v.Refused, v.Broken, v.Executed, v.Events, v.Changes, v.Ends,
		v.Lost())
	if want := "3 1 1 1 2 1 1 map[DB-DRAINING:1 reset:1] 0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestManyAtOnce is what a crowd does, and what its size costs.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	const clients, calls = 8, 2000
	l := ledger.New()
	var all sync.WaitGroup
	executions := make([][]ledger.Execution, clients)
	records := make([][]ledger.Record, clients)
	for client := range clients {
		all.Go(func() {
			s := &story{Ledger: l}
			for range calls {
				n := s.ask(ledger.Question{Events: 1})
				serial := uint64(n)
				s.executions = append(s.executions, ledger.Execution{Serial: serial, Nonce: n, Tenant: "red"})
				s.record(n, "red", "ok")
				s.Event(n, n, 1)
				s.Answered(n, ledger.Answer{Nonce: n, Serial: serial, Tenant: "red"})
			}
			executions[client], records[client] = s.executions, s.records
		})
	}
	all.Wait()
	var ran []ledger.Execution
	var recorded []ledger.Record
	for client := range clients {
		ran, recorded = append(ran, executions[client]...), append(recorded, records[client]...)
	}
	if v := l.Judge(ran, recorded); v.Answered != clients*calls || v.Lost() != 0 {
		t.Errorf("got %+v, want %d answered and nothing lost", v, clients*calls)
	}
	if v := l.Judge(nil, recorded); v.Unexecuted != clients*calls || len(v.Samples) > 20 {
		t.Errorf("without executions %d were found and %d samples kept, want %d and few", v.Unexecuted,
			len(v.Samples), clients*calls)
	}
}

func TestNonceIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	n := ledger.New().Ask(ledger.Question{})
	if got := ledger.ParseNonce(n.String()); got != n {
		t.Errorf("got %v, want %v", got, n)
	}
	for _, text := range []string{"", "1", "000000000000000g", n.String() + "0"} {
		if got := ledger.ParseNonce(text); got != 0 {
			t.Errorf("%q: got %v, want 0", text, got)
		}
	}
}

// TestCallsSinceTheLastOneAreCounted also where there was none before.
func TestCallsSinceTheLastOneAreCounted(t *testing.T) {
	t.Parallel()
	l := ledger.New()
	for range 2 {
		before := l.Last()
		first := l.Ask(ledger.Question{})
		if l.Ask(ledger.Question{}); l.Last()-before != 2 || first != before+1 {
			t.Errorf("two calls after %v, the first %v: the last is %v", before, first, l.Last())
		}
	}
}

func TestRecordsOfCallsAreReadAndTornLinesAreNot(t *testing.T) {
	t.Parallel()
	const call = `{"time":"t","tenant":"red","method":"tools/call","outcome":"ok","arguments":"hmac-sha256:x"`
	nonce := ledger.New().Ask(ledger.Question{})
	named := `,"named_arguments":{"nonce":"` + nonce.String() + `"}`
	file := call + named + "}\n" +
		`{"time":"t","tenant":"red","method":"tools/list","outcome":"ok"}` + "\n" +
		call + "}\n" + // without a nonce, as of a call that is not of the clients
		call + `,"named_arg` + "\n" + // killed, and started again
		strings.Replace(call, "red", "blue", 1) + named + `,"duration_seconds":0.1}` + "\n" +
		call + named[:20]
	got := ledger.ReadRecords(strings.NewReader(file))
	if len(got) != 2 || got[0] != (ledger.Record{Tenant: "red", Outcome: "ok", Nonce: nonce}) ||
		got[1].Tenant != "blue" {
		t.Errorf("got %+v, want two records", got)
	}
	if must.Try(func() { ledger.ReadRecords(strings.NewReader("nonsense}\n")) }) == nil {
		t.Error("nonsense: no error")
	}
}

func BenchmarkJudge(b *testing.B) {
	s := &story{Ledger: ledger.New()}
	for range 100_000 {
		s.Answered(s.good(ledger.Question{}))
	}
	b.ReportAllocs()
	for b.Loop() {
		if v := s.Judge(s.executions, s.records); v.Lost() != 0 {
			b.Fatal(v)
		}
	}
}

// TestFailuresAreNotTheClientsDoing enters calls that ended in all ways: only those are
// failures that their clients did not end themselves, and only those are open that may
// still get an answer.
func TestFailuresAreNotTheClientsDoing(t *testing.T) {
	t.Parallel()
	l := ledger.New()
	ask := func(keyed bool) ledger.Nonce {
		return l.Ask(ledger.Question{Tenant: "red", Kind: "touch", Keyed: keyed})
	}
	answered, inFlight, left, repeated, again := ask(false), ask(false), ask(false), ask(true), ask(true)
	refused, broken, cancelled := ask(false), ask(false), ask(false)
	l.Answered(answered, ledger.Answer{Nonce: answered, Serial: 1, Tenant: "red"})
	l.Left(left, "left by its client")
	l.Left(repeated, "left by its client")
	l.Left(again, "left by its client")
	l.Refused(again, "DB-ONE", true)
	l.Refused(refused, "DB-TWO", false)
	l.Broken(broken, "connection reset")
	l.Cancelled(cancelled)
	if got, want := l.Open(), map[ledger.Nonce]bool{inFlight: true, repeated: true}; !maps.Equal(got, want) {
		t.Errorf("open are %v, want %v", got, want)
	}
	want := []ledger.Failure{
		{again, "touch", "DB-ONE"},
		{refused, "touch", "DB-TWO"},
		{broken, "touch", "connection reset"},
	}
	if got := l.Failures(); !slices.Equal(got, want) {
		t.Errorf("failures are %v, want %v", got, want)
	}
}

// TestWhatAClientLeftIsNotAmongTheUnrecorded has calls executed and not put on record,
// which ended in several ways.
func TestWhatAClientLeftIsNotAmongTheUnrecorded(t *testing.T) {
	t.Parallel()
	s := &story{Ledger: ledger.New()}
	ask := func() ledger.Nonce {
		n := s.ask(ledger.Question{})
		s.run(n, "red")
		return n
	}
	broken, refused := ask(), ask()
	s.Broken(broken, "reset")
	s.Refused(refused, "DB-UPSTREAM-LOST", true)
	s.Left(ask(), "left")
	s.Cancelled(ask())
	n, _ := s.good(ledger.Question{})
	s.Broken(n, "reset, and on record")
	v := s.Judge(s.executions, s.records)
	if want := []ledger.Nonce{broken, refused}; v.BrokenUnaudited != 4 || !slices.Equal(v.Unrecorded, want) {
		t.Errorf("got %d not on record, of these %v, want 4, and %v", v.BrokenUnaudited, v.Unrecorded, want)
	}
}
