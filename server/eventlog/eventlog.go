// Package eventlog answers: what has been said in this session? It keeps what sessions of
// the legacy era must remember. That is mainly the events of their streams, so that
// whichever replica holds a client's connection can send them, and a client whose
// connection broke can have them again. It knows whose a session is only to share out
// room fairly: whoever asks has checked that the session is the caller's. It deliberately
// does not know what the events say, or that HTTP carries them.
//
// A session consists of streams, and a stream of events. Two sides meet in a Log and need
// not know each other:
//
//	a call, a question, news ── Append ──▶ stream ── Read ──▶ whoever holds the connection
//	                                         ▲                (is told as a Follower, and reads again)
//	a client that comes back ──── Find ──────┘
//
// A stream begins with Begin or its first event. It ends by its last event or by End, and
// what is too old or too much is dropped. This file has the Log and the form of ids;
// memory.go implements it for one process, redis.go for several.
package eventlog

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// Key names a session, and says whose it is: what the session keeps counts as that
// user's. Both are the same in all calls for one session.
type Key struct {
	Name  string // never used again
	Owner share.User
	// Here tells that no other replica serves the session, so that nothing of it is kept
	// where others could read it.
	Here bool
}

// Event is one message of a stream.
type Event struct {
	ID string // the name of the stream, "-" and a sequence number; unique in the session
	// Data is JSON in one line. It is empty only if Last is true, for a stream that ends
	// without a message. It is shared: do not modify it.
	Data []byte
	Last bool // nothing follows on this stream
	// LocalOnly tells that only this replica has the event. The client must not be given
	// its ID, because it could not go on after it elsewhere.
	LocalOnly bool
}

// Follower is told when a session may have more to read, whichever stream it is on.
type Follower interface {
	// Appended must return at once and call no method of the Log, which may be locked
	// meanwhile.
	Appended()
}

// ErrUnknown is the one error for a session, stream or event that is not there, or no
// longer there. It does not say which, since a client must not learn what others have.
var ErrUnknown = errors.New("unknown stream or event")

// ErrFenced says that another replica leads the session by now, and that nothing was
// written.
var ErrFenced = errors.New("another replica leads the session")

// Log keeps the events of streams, bounded in count, bytes and age. Callers choose the
// names: that of a stream consists of letters and digits and is used for one stream in
// the life of a session. A session that is not known is one without streams, not an
// error.
//
// The room is shared by tenants and users. To make some, a Log drops events of whoever
// has used up its share, and never those of a user who holds less than the one who needs
// room would hold then. So nobody's events disappear by another's doing. If there is no
// room all the same, the error is one of package share. Other errors mean that the store
// failed; Memory has none, and those of Redis wrap redis.ErrDown. Implementations are
// safe for concurrent use.
type Log interface {
	// Begin says that only this replica appends to a stream from now on, so that it need
	// not ask others what comes on it: the stream begins, or comes here from a replica
	// that appends no more. It is in time before any other call for a stream that begins.
	// lasting tells whether the stream can be read elsewhere; if not, the client must be
	// given no id of it. The error is ErrUnknown if the session has ended.
	Begin(ctx context.Context, session Key, stream string) (lasting bool, err error)
	// Append adds an event to a stream and wakes its followers. The error is ErrUnknown
	// if the session or the stream has ended. So if two append what each takes for the
	// last event, exactly one of them succeeds: that decides, for example, whether a
	// client gets the answer to its call or hears that the replica of the call is gone.
	// data is kept, and must not be modified.
	Append(ctx context.Context, session Key, stream string, data []byte, last bool) (id string, err error)
	// Notify is Append for a notice, which only the replica that leads the session
	// writes: the error is ErrFenced if another one leads it by now, with an epoch that
	// is higher than this. Zero: nobody else does.
	Notify(ctx context.Context, session Key, stream string, epoch uint64, data []byte) (id string, err error)
	// Read returns the events that are there now and follow the one with the id after; ""
	// means from the beginning. more tells whether others may follow: who has followed
	// the session before reads again when it is told. The error is ErrUnknown if the
	// session has ended, if the stream has not begun, or if an event that follows after
	// is gone, even when nothing of the stream is left: to go on then would leave a gap
	// that the client does not see. A stream that is read at least once within the age of
	// events is kept.
	Read(ctx context.Context, session Key, stream, after string) (events []Event, more bool, err error)
	// Drop lets go of the events of a stream up to the one with that id, because nobody
	// asks for them again. To read from before that is then ErrUnknown. What is not there
	// needs no dropping.
	Drop(ctx context.Context, session Key, stream, through string)
	// Follow has the follower woken at each event of the session and at its end, until
	// Unfollow. So a stream that waits costs no goroutine. The error is ErrUnknown if the
	// session has ended. What came before Follow returns wakes nobody: who follows reads
	// afterwards.
	Follow(ctx context.Context, session Key, f Follower) error
	// Unfollow ends what Follow began. The follower may be woken once more by what
	// happens at the same time.
	Unfollow(session Key, f Follower)
	// Find returns the stream of the event with that id, for a client that wants to go on
	// after it. The id may come from anyone. The error is ErrUnknown, also if an event
	// that follows it is gone. Find keeps no stream.
	Find(ctx context.Context, session Key, event string) (stream string, err error)
	// End forgets a session here and wakes its followers, who then get ErrUnknown. What
	// is appended later does not open it again, as long as it is remembered: if very many
	// end, the oldest are forgotten.
	End(session Key)
}

// FirstID returns the id that stands before the first event of a stream. A client that
// has it can ask for everything that follows, and Find with it tells whether a stream has
// begun and is still whole.
func FirstID(stream string) string { return eventID(stream, 0) }

// eventID returns the id of the event with that sequence number. The first event of a
// session has number 1.
func eventID(stream string, sequence uint64) string {
	return stream + "-" + strconv.FormatUint(sequence, 10)
}

// parseID takes the id of an event apart. It accepts only the one spelling that eventID
// gives, so that no event has two ids.
func parseID(id string) (stream string, sequence uint64, ok bool) {
	stream, digits, found := strings.Cut(id, "-")
	if !found || len(id) > 64 || !isName(stream) {
		return "", 0, false
	}
	sequence, err := strconv.ParseUint(digits, 10, 64)
	return stream, sequence, err == nil && eventID(stream, sequence) == id
}

// isName tells whether a stream may have that name.
func isName(stream string) bool {
	return stream != "" && !strings.ContainsFunc(stream, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	})
}

// afterIn returns the sequence of an event after which a stream is read, zero for "". It
// is false for an event of another stream.
func afterIn(stream, after string) (sequence uint64, ok bool) {
	if after == "" {
		return 0, true
	}
	name, sequence, ok := parseID(after)
	return sequence, ok && name == stream
}
