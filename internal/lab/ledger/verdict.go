package ledger

import "time"

// Execution is one run of a tool at a server, from when it took effect.
type Execution struct {
	Serial    uint64 // no other execution of any server has it
	Nonce     Nonce
	Tenant    string // as the arguments said
	Tool      string
	Era       string // "modern" or "legacy", of the server's endpoint
	At        time.Time
	Ended     time.Time // zero: it never did
	Cancelled bool      // the server was told that nobody waits any more, or crashed
}

// Verdict is what was found. In a good round all numbers from Twice to Unfounded are 0.
type Verdict struct {
	Requests, Answered, Refused, Broken int // calls, and how they ended; cancelled ones are among Broken
	Executed                            int // executions of these calls
	Events, Changes                     int // numbered events that came, and changes that were told

	Twice            int // executed more than once
	TwiceKeyed       int // of these, calls under an Idempotency-Key
	Unanswered       int // neither answer nor error nor broken connection
	Unexecuted       int // answered, and no server did it; or answered with what another execution did
	Denied           int // executed, though the error said that it was not
	EventsLost       int // numbered events of answered calls that did not come
	EventsTwice      int // answers that came twice are among them
	EventsOfCopies   int // of these, those of calls without a key that were executed more than once
	EventsOutOfOrder int
	ChangesLost      int // changes that a client with an open stream was not told of
	WrongTenant      int // answer, event, execution or record of another tenant's call
	Unaudited        int // answered, and not on record as done
	Unfounded        int // on record as done, and no server did it

	// BrokenUnaudited is executed, ended with an error or a broken connection, and not on
	// record. That may be where a replica was killed, and only there.
	BrokenUnaudited int
	// Unrecorded are those of BrokenUnaudited that did not end by their clients' doing.
	// Of these the ledger knows until when they were in flight; a call that its client
	// left goes on.
	Unrecorded []Nonce
	// Uncancelled is cancelled by its client, executed, and the server was never told.
	// That may be where a replica was killed, or the server could not be reached.
	Uncancelled int

	// Unstreamed is answered as plain JSON, and so without its events. That may be where
	// Redis is not well, and so fewer places for streams are given out, and only there.
	Unstreamed int

	// Ends counts how calls ended that were not answered, by the code of the error or how
	// the connection broke.
	Ends map[string]int

	Samples []string // of what was lost, a few of each kind
	Notes   []string // samples of BrokenUnaudited, Unstreamed and Uncancelled
}

// Lost returns how much was lost, doubled or mixed up: 0 in a good round.
func (v *Verdict) Lost() int {
	return v.Twice + v.Unanswered + v.Unexecuted + v.Denied + v.EventsLost + v.EventsTwice +
		v.EventsOutOfOrder +
		v.ChangesLost + v.WrongTenant + v.Unaudited + v.Unfounded
}
