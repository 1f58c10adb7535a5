package sse_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/internal/sse"
)

// FuzzRead shows that no stream breaks the reader, that the size of its reads does not
// matter, and that nothing it yields is over the limit.
func FuzzRead(f *testing.F) {
	f.Add([]byte("\uFEFFid: 1\r\nevent: x\rdata: a\ndata: b\n\nretry: 5\n\n: c\n"))
	f.Add([]byte("data: a\r\r\ndata\n\n"))
	f.Add([]byte("\uFEFF:" + strings.Repeat("x", 62) + "\ndata: a\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		const limit = 64
		whole, errWhole := collect(bytes.NewReader(stream), limit)
		split, errSplit := collect(iotest.OneByteReader(bytes.NewReader(stream)), limit)
		if diff := cmp.Diff(whole, split); diff != "" || (errWhole == nil) != (errSplit == nil) {
			t.Errorf("%q: errors %v and %v, -whole +byte by byte:\n%s", stream, errWhole, errSplit, diff)
		}
		for _, e := range whole {
			if n := len(e.ID) + len(e.Type) + len(e.Data); n > limit {
				t.Errorf("%q: an event of %d bytes", stream, n)
			}
		}
	})
}

// FuzzRoundTrip shows that what is appended is read back.
func FuzzRoundTrip(f *testing.F) {
	f.Add("7", "message", []byte(`{"jsonrpc":"2.0"}`), uint16(0))
	f.Add("", "", []byte("a\r\nb\n\rc"), uint16(1))
	f.Fuzz(func(t *testing.T, id, kind string, data []byte, retry uint16) {
		wrote := sse.Event{
			ID: id, HasID: true, Type: kind, Data: data,
			Retry: time.Duration(retry) * time.Millisecond,
		}
		stream := sse.Append(nil, wrote)
		events, err := collect(bytes.NewReader(stream), len(stream))
		if err != nil || len(events) != 1 {
			t.Fatalf("%q: got %d events and error %v", stream, len(events), err)
		}
		clean := strings.NewReplacer("\r", "", "\n", "", "\x00", "")
		want := wrote
		want.ID, want.Type = clean.Replace(id), clean.Replace(kind)
		if data != nil {
			want.Data = []byte(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data)))
		}
		if diff := cmp.Diff(want, events[0]); diff != "" {
			t.Errorf("%q: -want +got:\n%s", stream, diff)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	var buffer []byte
	event := sse.Event{ID: "s1-7", HasID: true, Data: bytes.Repeat([]byte(`{"a":1},`), 64)}
	b.ReportAllocs()
	for b.Loop() {
		buffer = sse.Append(buffer[:0], event)
	}
}

func BenchmarkRead(b *testing.B) {
	stream := sse.Append(nil, sse.Event{ID: "s1-7", HasID: true, Data: bytes.Repeat([]byte(`{"a":1},`), 64)})
	b.ReportAllocs()
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		for _, err := range sse.Read(bytes.NewReader(stream), 4<<20) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
