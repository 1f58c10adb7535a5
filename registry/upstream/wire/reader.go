package wire

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// Limits of messages.
const (
	maxMessage = 16 << 20 // bytes of one message, after any decoding
	maxBatch   = 1000     // messages in one text
)

// reader turns the texts that a server sends into messages.
type reader struct {
	count    func(Anomaly, int)
	throttle *Throttle
	turns    *fairqueue.Queue // at reading what is large; nil: it is read at once
}

// parseTime is about how long it takes to read one byte of a message strictly.
const parseTime = 4 * time.Nanosecond

// holdAnswer tells whether one of the messages is an answer.
func holdAnswer(messages []*mcp.Message) bool {
	return slices.ContainsFunc(messages, (*mcp.Message).IsResponse)
}

// turn waits until a text of that many bytes, which the user holds, may be read. release
// ends the turn. The error is why ctx has ended before.
func (r reader) turn(ctx context.Context, holder share.User, bytes int) (release func(), err error) {
	return r.turns.Finish(ctx, holder, time.Duration(bytes)*parseTime)
}

// inTurn is messages in its turn. When ctx ends before, the error is why.
func (r reader) inTurn(ctx context.Context, holder share.User, data []byte,
	into []*mcp.Message,
) ([]*mcp.Message, error) {
	release, err := r.turn(ctx, holder, len(data))
	if err != nil {
		return nil, err
	}
	defer release()
	return r.messages(data, into)
}

// messages reads a text of one message, or of an array of messages as servers of
// 2025-03-26 may send. They share memory with data. It appends them to into, which is
// empty: with room for one, the usual text needs no memory for a list.
func (r reader) messages(data []byte, into []*mcp.Message) ([]*mcp.Message, error) {
	raw, err := mcp.ParseRaw(data)
	if err != nil {
		// One truncated character must not cost a whole result, so that much is mended.
		mended, n := strictjson.Mend(data)
		if n == 0 {
			return nil, err
		}
		if raw, err = mcp.ParseRaw(mended); err != nil {
			return nil, err
		}
		r.count(Mended, n)
	}
	elements, several := raw.Elements()
	if !several {
		elements = []mcp.RawJSON{raw}
	}
	if len(elements) > maxBatch {
		return nil, errors.New("too many messages in one text")
	}
	messages := slices.Grow(into, len(elements))
	for _, element := range elements {
		m, err := mcp.DecodeRaw(element)
		if err != nil {
			// Package mcp makes it an *mcp.Error, which fits a client that has sent the
			// text. Of a server, an *mcp.Error means that it has answered a request with
			// an error.
			return nil, errors.New(err.Error())
		}
		messages = append(messages, m)
	}
	return messages, nil
}
