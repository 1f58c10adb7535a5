package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
)

// TestAZombieIsAChild has a child that has ended and that nobody has waited for: it has
// no arguments, by which it could be found.
func TestAZombieIsAChild(t *testing.T) {
	t.Parallel()
	child := exec.CommandContext(t.Context(), "true")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	zombie := func(context.Context) {
		children := childrenOf(os.Getpid())
		seen := slices.ContainsFunc(children, func(stat string) bool {
			return strings.HasPrefix(stat, fmt.Sprintf("%d (true) Z ", child.Process.Pid))
		})
		is("the child is a zombie", seen, children)
	}
	if err := must.Try(func() { until(t.Context(), zombie) }); err != nil {
		t.Error(err)
	}
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
	if must.Try(func() { zombie(t.Context()) }) == nil {
		t.Error("it is still there after it was waited for")
	}
}

// TestStartsWithoutPausesAreSeen writes when a program was started, as the program itself
// does.
func TestStartsWithoutPausesAreSeen(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		pauses []time.Duration // between two attempts, each of which starts it twice
		good   bool
	}{
		"too few":         {[]time.Duration{50 * ms, 100 * ms}, false},
		"without a pause": {[]time.Duration{0, 0, 0}, false},
		"always the same": {[]time.Duration{100 * ms, 100 * ms, 100 * ms}, false},
		"longer":          {[]time.Duration{50 * ms, 100 * ms, 200 * ms}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := time.Unix(0, 0)
			text := fmt.Sprintf("%d\n%[1]d\n", at.UnixNano())
			for _, pause := range test.pauses {
				at = at.Add(pause)
				text += fmt.Sprintf("%d\n%[1]d\n", at.UnixNano())
			}
			register := filepath.Join(t.TempDir(), "register")
			if err := os.WriteFile(register, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := must.Try(func() { paced(register, 8) }); (err == nil) != test.good {
				t.Errorf("got %v, want it good: %v", err, test.good)
			}
		})
	}
}
