package main

import (
	"errors"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
)

func TestAPatchWantsItsAnchorOnce(t *testing.T) {
	p := patch{file: "a.go", anchor: "b", text: "c"}
	for page, want := range map[string]string{"abd": "abcd", "ad": "", "abbd": ""} {
		got, err := must.Got(func() string { return p.apply(page) })
		if got != want || (want == "") != errors.Is(err, errAnchor) {
			t.Errorf("%s: got %q, %v, want %q, and errAnchor without that", page, got, err, want)
		}
	}
}
