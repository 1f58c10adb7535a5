package builtin

import (
	"context"
	_ "embed"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

//go:embed calculate.json
var calculateDefinition string

// calculateResult is the structured content; calculateDefinition says what its members
// mean. Numbers are strings, because a JSON number would be read as a float and lose
// digits.
type calculateResult struct {
	Result  string `json:"result"`
	Decimal string `json:"decimal,omitempty"`
	Exact   bool   `json:"exact"`
}

// newCalculate makes the tool calculate, which needs nothing of the config.
func newCalculate(Config) (registry.Func, error) { return calculate, nil }

// calculate serves one call.
func calculate(_ context.Context, c *registry.Call) (mcp.Object, error) {
	expression := arguments(c).Text("expression")
	if strings.TrimSpace(expression) == "" {
		return mcp.Object{}, registry.Usagef(`The expression is empty. Give one such as "2 * (3 + 4)".`)
	}
	v, err := evaluate(expression)
	if err != nil {
		return mcp.Object{}, registry.Usagef("The expression cannot be evaluated: %v.", err)
	}
	result := calculateResult{Result: v.text(), Exact: !v.approximate}
	if strings.Contains(result.Result, "/") {
		result.Decimal = decimal(v.rat)
	}
	return structuredResult(result), nil
}
