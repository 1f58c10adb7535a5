package link

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// TestHeadsComeBack writes heads and reads them, and then all parts of them, of which
// none is a head.
func TestHeadsComeBack(t *testing.T) {
	t.Parallel()
	many := make(http.Header)
	for i := range 50 {
		many[strings.Repeat("x", i+1)] = []string{"1", "", "3"}
	}
	for _, header := range []http.Header{{}, {"Accept": {"a", "b"}, "X": {"\x00\r\n: ü"}}, many} {
		written := appendHead(nil, header, "POST", "/mcp")
		var method, target string
		read, err := readHead(bufio.NewReader(bytes.NewReader(written)), &method, &target)
		if err != nil || method != "POST" || target != "/mcp" || !reflect.DeepEqual(read, header) {
			t.Errorf("got %q, %q, %v and %v, want %v", method, target, read, err, header)
		}
		for size := range written {
			in := bufio.NewReader(bytes.NewReader(written[:size]))
			if _, err := readHead(in, &method, &target); err == nil || size == 0 && !errors.Is(err, io.EOF) {
				t.Fatalf("the first %d bytes of %d: got %v, want an error", size, len(written), err)
			}
		}
	}
}

// FuzzHead reads any bytes as a head. What it takes for one means the same when it is
// written and read again.
func FuzzHead(f *testing.F) {
	f.Add(appendHead(nil, http.Header{"Accept": {"a", "b"}, "X": {""}}, "POST"))
	f.Add([]byte{0, 0, 0, 4, 0, 0, 0, 9})
	f.Add([]byte{0xFF, 0xFF, 0xFF, 0xFF})
	f.Fuzz(func(t *testing.T, data []byte) {
		var first, again string
		header, err := readHead(bufio.NewReader(bytes.NewReader(data)), &first)
		if err != nil {
			return
		}
		read, err := readHead(bufio.NewReader(bytes.NewReader(appendHead(nil, header, first))), &again)
		if err != nil || first != again || !reflect.DeepEqual(header, read) {
			t.Errorf("got %q, %v and %v, want %q, %v", again, read, err, first, header)
		}
	})
}
