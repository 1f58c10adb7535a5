package builtin

import (
	"context"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

const calculateDefinition = `{
  "name": "calculate",
  "title": "Calculator",
  "description": "Evaluates an arithmetic expression exactly, without rounding errors: 0.1 + 0.2 is 0.3, and 1/3 stays a fraction. Square roots that are not rational are given to 50 digits and marked as not exact.",
  "inputSchema": {
    "type": "object",
    "properties": {
      "expression": {
        "type": "string",
        "description": "For example \"2 * (3 + 4)^2 / 7\". Operators: + - * / ^ (power, integer exponent) % (remainder, with the sign of the divisor). Functions: abs(x), ceil(x), floor(x), round(x) or round(x, decimals), sqrt(x), min(x, y, ...), max(x, y, ...). Numbers such as 12, 0.5 or 6.02e23, without thousands separators, units or names.",
        "minLength": 1,
        "maxLength": 1000
      }
    },
    "required": ["expression"],
    "additionalProperties": false
  },
  "outputSchema": {
    "type": "object",
    "properties": {
      "result": {"type": "string", "description": "A decimal number, or a fraction such as 1/3 when the decimals never end"},
      "decimal": {"type": "string", "description": "Of a fraction: its value to 50 digits"},
      "exact": {"type": "boolean", "description": "Whether result is exact"}
    },
    "required": ["result", "exact"]
  },
  "annotations": {"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false}
}`

// calculateResult is the structured content; calculateDefinition says what its members
// mean. Numbers are strings, because a JSON number would be read as a float and lose
// digits.
type calculateResult struct {
	Result  string `json:"result"`
	Decimal string `json:"decimal,omitempty"`
	Exact   bool   `json:"exact"`
}

// newCalculate makes the tool calculate, which needs nothing of the config.
func newCalculate(Config) (registry.Func, func() error, error) { return calculate, nil, nil }

// calculate serves one call.
func calculate(_ context.Context, c *registry.Call) (mcp.Object, error) {
	expression := arguments(c).Text("expression")
	if strings.TrimSpace(expression) == "" {
		return errorResult(`The expression is empty. Give one such as "2 * (3 + 4)".`), nil
	}
	v, err := evaluate(expression)
	if err != nil {
		return errorResult("The expression cannot be evaluated: %v.", err), nil
	}
	result := calculateResult{Result: v.text(), Exact: !v.approximate}
	if strings.Contains(result.Result, "/") {
		result.Decimal = decimal(v.rat)
	}
	return structuredResult(result), nil
}
