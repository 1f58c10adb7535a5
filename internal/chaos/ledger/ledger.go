// Package ledger answers whether anything was lost while things broke: it keeps what clients asked and what they got,
// and joins that with what servers did and with what the gateway put on record. It speaks no protocol, opens nothing
// and waits for nothing: all that it judges was told to it.
package ledger

// Nonce names one call in all three books: the client writes it into the arguments, the server finds it there and
// repeats it in its answer, and the record of the gateway has the digest of the arguments. The zero Nonce names none.
type Nonce uint64

// Question is what a client is about to ask.
type Question struct {
	Tenant string
	Kind   string // of client, such as "2025 progress"; for samples
	Keyed  bool   // it may be sent more than once, under one Idempotency-Key
	Events int    // how many numbered events come before its answer, at most 64
}

// Answer is what a good answer says of itself.
type Answer struct {
	Nonce  Nonce
	Serial uint64 // of the execution
	Tenant string // whom the server worked for, as the arguments said
}

// Ledger is what the clients of one round asked and got. It is safe for concurrent use. It takes about 100 bytes for
// each call.
type Ledger struct{}

// New returns an empty ledger whose nonces no other has.
func New() *Ledger { return &Ledger{} }

// Ask enters a call before it is sent, and names it.
func (l *Ledger) Ask(q Question) Nonce { return 0 }

// Sent enters the arguments of a call, byte for byte as they are about to be sent.
func (l *Ledger) Sent(n Nonce, arguments []byte) {}

// Answered enters the answer of a call.
func (l *Ledger) Answered(n Nonce, a Answer) {}

// Refused enters that a call ended with an error. code is the data.code of the gateway, or what else names it. made
// tells whether the error leaves open that the call took effect; where it says that it did not, it must not have.
func (l *Ledger) Refused(n Nonce, code string, made bool) {}

// Broken enters that the client saw the connection of a call break, so that it knows that it does not know.
func (l *Ledger) Broken(n Nonce, how string) {}

// Silent enters that a call got neither an answer nor an error nor a broken connection in all the time that its client
// had patience.
func (l *Ledger) Silent(n Nonce, how string) {}

// Event enters that the numbered event of a call came. Numbers begin at 1.
func (l *Ledger) Event(n Nonce, number int) {}

// Judge joins the ledger with all executions of the servers and all records of the gateway. Those that are of none of
// its calls, as of an earlier round, are left out. Nothing may be in flight any more.
func (l *Ledger) Judge(executions []Execution, records []Record) Verdict { return Verdict{} }
