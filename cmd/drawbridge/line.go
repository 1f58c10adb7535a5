package main

import (
	"context"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
	"github.com/drawbridge-mcp/drawbridge/server"
)

// jsonHandler is the handler of logs in JSON. It writes most lines with slog, and that of
// each request by hand: the same bytes, for a tenth of the time and without memory of its
// own.
type jsonHandler struct{ promptHandler }

var _ server.LineHandler = jsonHandler{}

// scratch keeps the memory in which lines are made, before they are copied to the buffer.
var scratch = sync.Pool{New: func() any {
	line := make([]byte, 0, 1<<10)
	return &line
}}

// maxScratch is how many bytes of that memory are kept at most.
const maxScratch = 16 << 10

// HandleLine implements server.LineHandler. What it cannot write by hand goes to slog.
func (h jsonHandler) HandleLine(ctx context.Context, at time.Time, level slog.Level, message string,
	attrs []slog.Attr,
) error {
	buffer := scratch.Get().(*[]byte)
	line, ok := appendLine((*buffer)[:0], at, level, message, attrs)
	if ok {
		_, _ = h.buffer.Write(line) // never fails
		if level >= slog.LevelWarn {
			h.buffer.prompt()
		}
	}
	if cap(line) <= maxScratch {
		*buffer = line
		scratch.Put(buffer)
	}
	if ok {
		return nil
	}
	record := slog.NewRecord(at, level, message, 0)
	record.AddAttrs(attrs...)
	return h.Handle(ctx, record)
}

// appendLine appends a line of JSON as slog and visibleLines make it. ok is false if it
// has a value of a kind that is not known here.
func appendLine(dst []byte, at time.Time, level slog.Level, message string, attrs []slog.Attr) (line []byte,
	ok bool,
) {
	dst = append(dst, `{"time":"`...)
	dst = at.AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, `","level":"`...)
	dst = append(dst, level.String()...)
	dst = append(dst, `","msg":`...)
	dst = strictjson.AppendVisibleQuote(dst, message)
	for _, a := range attrs {
		dst = append(strictjson.AppendVisibleQuote(append(dst, ','), a.Key), ':')
		switch a.Value.Kind() {
		case slog.KindString:
			dst = strictjson.AppendVisibleQuote(dst, a.Value.String())
		case slog.KindInt64:
			dst = strconv.AppendInt(dst, a.Value.Int64(), 10)
		case slog.KindFloat64:
			f := a.Value.Float64()
			if size := math.Abs(f); f != 0 && !(size >= 1e-6 && size < 1e21) {
				return dst, false // no number, or one that JSON writes with an exponent
			}
			dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
		default:
			return dst, false
		}
	}
	return append(dst, '}', '\n'), true
}
