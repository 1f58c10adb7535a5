package wire

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// FuzzMessages feeds the reader what a server may send: it must not panic, and what it
// returns is well formed.
func FuzzMessages(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{}}`, `[{"jsonrpc":"2.0","method":"x"}]`,
		"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"result\":{}}",
		`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"\ud800"}}`, "", "[", "[]", "null", " \n[\n]",
		`[[]]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		messages, err := reader{count: func(Anomaly, int) {}}.messages(data, nil)
		if err != nil {
			return
		}
		for _, m := range messages {
			if m.IsRequest() || m.IsNotification() {
				if strictjson.Check(m.Params.JSON()) != nil {
					t.Errorf("params of %q: got %s, want JSON", data, m.Params.JSON())
				}
				continue
			}
			if m.Err == nil && strictjson.Check(m.Result.JSON()) != nil {
				t.Errorf("result of %q: got %s, want JSON", data, m.Result.JSON())
			}
		}
	})
}

// TestLinesOverTheLimitAreSkipped shows that reading goes on behind a line that is too
// long, whatever its length.
func TestLinesOverTheLimitAreSkipped(t *testing.T) {
	t.Parallel()
	for _, length := range []int{39, 40, 41, 63, 64, 65, 100, 1000} {
		in := bufio.NewReaderSize(strings.NewReader(strings.Repeat("x", length)+"\nnext\nlast"), 16)
		line, err := readLine(in, 41, nil)
		if fits := length+1 <= 41; fits != (err == nil) || !fits && !errors.Is(err, ErrTooLarge) || fits &&
			len(line) != length+1 {
			t.Errorf("line of %d bytes: got %q, %v", length, line, err)
		}
		if line, err = readLine(in, 41, nil); string(line) != "next\n" || err != nil {
			t.Errorf("after a line of %d bytes: got %q, %v", length, line, err)
		}
		if line, err = readLine(in, 41, nil); string(line) != "last" || !errors.Is(err, io.EOF) {
			t.Errorf("at the end: got %q, %v", line, err)
		}
	}
}

// endless is a line that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestEndlessLineEndsTheConnection shows that skipping has a limit too.
func TestEndlessLineEndsTheConnection(t *testing.T) {
	t.Parallel()
	if _, err := readLine(bufio.NewReaderSize(endless{}, 1<<20), 100, nil); !errors.Is(err, errEndless) {
		t.Errorf("got %v, want errEndless", err)
	}
}

// TestEnvironmentIsAnAllowList shows what a child gets to see.
func TestEnvironmentIsAnAllowList(t *testing.T) {
	t.Parallel()
	own := []string{"PATH=/bin", "HOME=/root", "AWS_SECRET=x", "TZ=UTC", "LD_PRELOAD=x", "PATHS=x", "LANG"}
	got := strings.Join(environment(own, map[string]string{"TZ": "CET", "A": "b"}), " ")
	if want := "A=b HOME=/root LANG PATH=/bin TZ=CET"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
