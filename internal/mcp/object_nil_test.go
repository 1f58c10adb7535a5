package mcp_test

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

func TestMemberWithoutValueIsNone(t *testing.T) {
	o := mcp.NewObject(mcp.Member{Name: "a"}, mcp.Member{Name: "b", Value: mcp.Int(1)})
	if got, want := string(o.JSON()), `{"b":1}`; got != want {
		t.Errorf("NewObject = %s, want %s", got, want)
	}
	if got, want := string(o.With("b", nil).JSON()), `{}`; got != want {
		t.Errorf("With(b, nil) = %s, want %s", got, want)
	}
}
