package gateway

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
)

const (
	purposeState = "requestState 3"
	maxInner     = 64 << 10 // bytes of a requestState of an upstream
	maxCallID    = 128      // bytes
	freeRounds   = 8        // repeats of one call that cost nothing
)

// state is what the gateway itself puts into the requestState of an input_required
// result, around what the upstream put there. The client brings it back when it repeats
// the call. It is valid only for the same client, user, tenant and request, and only
// until it expires.
//
//	round 1: call ─▶ … ─▶ the item asks ─▶ suspend seals a state ─▶ client
//	round 2: the client repeats the call ─▶ resume opens the state ─▶ … ─▶ a result,
//	         or another question and round 3
//
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
type state struct {
	Owner   [sha256.Size]byte
	Request [sha256.Size]byte
	Nonce   nonce
	Expires time.Time
	Spent   int64 // how many nanoseconds of the item's time all rounds have used
	Rounds  byte  // how many there were; stays at 255
	// SlotRetained says that the call still has its slot among the calls at once.
	SlotRetained bool `json:",omitzero"`
	Server       string
	CallID       string      // the id of the first request
	Inner        mcp.RawJSON `json:",omitzero"` // the requestState of the upstream, a text; nil: it gave none
	// Home is the replica where the call waits. It is "" if any replica can go on with
	// the call, or if there is only one.
	Home replica.ID `json:",omitzero"`
}

// digestOf returns a digest of several texts that no other texts have: each is preceded
// by its length.
func digestOf(texts ...string) [sha256.Size]byte {
	var joined []byte
	for _, text := range texts {
		joined = append(binary.AppendUvarint(joined, uint64(len(text))), text...)
	}
	return sha256.Sum256(joined)
}

// task is what the id of a task, as clients have it, says. The server keeps the task
// itself, and the id is valid on every replica and for as long as the server has the
// task. One of 2025-11-25 lives in a session of the server, so that requests about it go
// to the replica that has the session. The id is valid only for whoever made the call,
// and only while that caller may use the tool.
// https://modelcontextprotocol.io/extensions/tasks
type task struct {
	Owner  [sha256.Size]byte
	Form   mcp.Tasks
	Server string
	Tool   string     // as exposed
	CallID string     // the id of the request that made the task
	Own    string     `json:",omitzero"` // the id that the server knows it by; "": it is held here
	Home   replica.ID `json:",omitzero"` // the replica that reaches it; "": every one does
}

const (
	purposeTask = "task 3"
	maxTaskID   = 512              // bytes of the id that a server gives a task
	resultTime  = 30 * time.Minute // that one tasks/result waits for its task
)
