package share_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// TestIncomingIsCountedBeforeItIsAllocated reads what is announced rightly, wrongly and
// not at all, and looks at what was asked for meanwhile.
func TestIncomingIsCountedBeforeItIsAllocated(t *testing.T) {
	t.Parallel()
	const most, large = 1 << 20, 100 << 10
	full, torn := errors.New("no room"), errors.New("torn")
	for name, test := range map[string]struct {
		length, comes int
		torn          bool // the reader fails at the end of what comes
		room          int  // that Hold grants
		err           error
		held          int // the most that Hold was asked for
	}{
		"nothing, as announced":    {length: 0, room: most},
		"nothing, not announced":   {length: -1, room: most, held: share.Covered},
		"small, as announced":      {length: 5, comes: 5, room: most, held: 5},
		"small, not announced":     {length: -1, comes: 5, room: most, held: share.Covered},
		"large, as announced":      {length: large, comes: large, room: most, held: large},
		"large, not announced":     {length: -1, comes: large, room: most, held: 144 << 10},
		"much announced, few come": {length: most, comes: 5, room: most, held: share.Step, err: io.ErrUnexpectedEOF},
		"torn":                     {length: large, comes: 5, torn: true, room: most, held: share.Step, err: torn},
		"as much as may come":      {length: -1, comes: most, room: 2 * most, held: most + 1},
		"more than may come":       {length: -1, comes: most + 1, room: 2 * most, held: most + 1, err: share.ErrTooLarge},
		"more than may be said":    {length: most + 1, comes: most + 1, room: 2 * most, err: share.ErrTooLarge},
		"no room":                  {length: -1, comes: large, room: share.Step, held: 96 << 10, err: full},
	} {
		var from io.Reader = strings.NewReader(strings.Repeat("x", test.comes))
		if test.torn {
			from = io.MultiReader(from, iotest.ErrReader(torn))
		}
		held := 0
		data, err := share.Incoming{
			Length: test.length, Most: most, Trusted: share.Step, Ahead: 2,
			Hold: func(bytes int) error {
				if held = bytes; bytes > test.room {
					return full
				}
				return nil
			},
		}.ReadAll(from)
		if !errors.Is(err, test.err) || held != test.held || err == nil && len(data) != test.comes ||
			cap(data) > held {
			t.Errorf("%s: got %d bytes in %d, error %v, and %d were asked for, want %d, %v and %d", name,
				len(data), cap(data), err, held, test.comes, test.err, test.held)
		}
	}
}
