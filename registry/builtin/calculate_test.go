package builtin_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/builtin"
)

func calculate(t *testing.T, offer registry.Offer, expression string) mcp.Object {
	t.Helper()
	return call(t, offer, fmt.Sprintf(`{"expression": %s}`, mcp.String(expression)))
}

func TestCalculate(t *testing.T) {
	offer := open(t, builtin.Config{}, "calculate")
	for expression, want := range map[string]string{
		"1+2*3":                       `{"result":"7","exact":true}`,
		"0.1 + 0.2":                   `{"result":"0.3","exact":true}`,
		"(1+2)*3":                     `{"result":"9","exact":true}`,
		"7-2-1":                       `{"result":"4","exact":true}`,
		"8/4/2":                       `{"result":"1","exact":true}`,
		"2^3^2":                       `{"result":"512","exact":true}`,
		"-2^2":                        `{"result":"-4","exact":true}`,
		"(-2)^2":                      `{"result":"4","exact":true}`,
		"2^-2":                        `{"result":"0.25","exact":true}`,
		"2^--2":                       `{"result":"4","exact":true}`,
		"+-+3":                        `{"result":"-3","exact":true}`,
		"1/3":                         `{"result":"1/3","decimal":"0.33333333333333333333333333333333333333333333333333","exact":true}`,
		"-2/3":                        `{"result":"-2/3","decimal":"-0.66666666666666666666666666666666666666666666666667","exact":true}`,
		"1/3*3":                       `{"result":"1","exact":true}`,
		"1/8":                         `{"result":"0.125","exact":true}`,
		"7 % 3":                       `{"result":"1","exact":true}`,
		"-7 % 3":                      `{"result":"2","exact":true}`,
		"7 % -3":                      `{"result":"-2","exact":true}`,
		"5.5 % 2":                     `{"result":"1.5","exact":true}`,
		"010":                         `{"result":"10","exact":true}`,
		".5 + 5.":                     `{"result":"5.5","exact":true}`,
		"6.02e3":                      `{"result":"6020","exact":true}`,
		"1E-3":                        `{"result":"0.001","exact":true}`,
		"9007199254740993 * 3":        `{"result":"27021597764222979","exact":true}`,
		"0^0":                         `{"result":"1","exact":true}`,
		"0^5":                         `{"result":"0","exact":true}`,
		"(-1)^1000000000000000000001": `{"result":"-1","exact":true}`,
		"(-1)^1000000000000000000000": `{"result":"1","exact":true}`,
		"1^-99999999999999999999":     `{"result":"1","exact":true}`,
		"abs(-3.5)":                   `{"result":"3.5","exact":true}`,
		"MIN(3, 1/2, 2)":              `{"result":"0.5","exact":true}`,
		"max(3, 1, 2)":                `{"result":"3","exact":true}`,
		"round(2.5)":                  `{"result":"3","exact":true}`,
		"round(-2.5)":                 `{"result":"-3","exact":true}`,
		"round(2/3, 2)":               `{"result":"0.67","exact":true}`,
		"round(1234, -2)":             `{"result":"1200","exact":true}`,
		"floor(-1.5)":                 `{"result":"-2","exact":true}`,
		"ceil(-1.5)":                  `{"result":"-1","exact":true}`,
		"ceil(1.2)":                   `{"result":"2","exact":true}`,
		"sqrt(9/4)":                   `{"result":"1.5","exact":true}`,
		"sqrt(0)":                     `{"result":"0","exact":true}`,
		"sqrt(2)":                     `{"result":"1.4142135623730950488016887242096980785696718753769","exact":false}`,
		"sqrt(2)^2":                   `{"result":"2","exact":false}`,
		"sqrt(2)^100":                 `{"result":"1125899906842624","exact":false}`,
		"round(sqrt(2), 2)":           `{"result":"1.41","exact":false}`,
		"round(1.25, sqrt(2)*0)":      `{"result":"1","exact":false}`,
		"max(1, sqrt(2))":             `{"result":"1.4142135623730950488016887242096980785696718753769","exact":false}`,
		"  1\t+\n1 ":                  `{"result":"2","exact":true}`,
		"2^64":                        `{"result":"18446744073709551616","exact":true}`,
		strings.Repeat("(", 64) + "1" + strings.Repeat(")", 64): `{"result":"1","exact":true}`,
		strings.Repeat("1+", 499) + "01":                        `{"result":"500","exact":true}`,
	} {
		if got := textOf(t, calculate(t, offer, expression)); got != want {
			t.Errorf("%s\n got %s\nwant %s", expression, got, want)
		}
	}
}

func TestCalculateSaysWhatIsWrongAndWhere(t *testing.T) {
	offer := open(t, builtin.Config{}, "calculate")
	for expression, want := range map[string]string{
		"":                              "expression is empty",
		" \n ":                          "expression is empty",
		"1/0":                           "division by zero, at character 2",
		"ü + 1":                         `'ü' where a number, a function or ( is expected, at character 1`,
		"1 + ü":                         `'ü' where a number, a function or ( is expected, at character 5`,
		"5 % (2-2)":                     "division by zero, at character 3",
		"0^-1":                          "division by zero, at character 2",
		"2^0.5":                         "exponent must be an integer (sqrt(x) gives a square root), at character 2",
		"sqrt(-1)":                      "square root of a negative number, at character 1",
		"1 +":                           "ends where a number, a function or ( is expected, at character 4",
		"(1":                            "ends where ) is expected, at character 3",
		"1)":                            `')' where an operator or the end is expected, at character 2`,
		"2(3)":                          `'(' where an operator or the end is expected`,
		"1,000":                         "without thousands separators",
		"2**3":                          "(^ is the power), at character 3",
		"200 + 15%":                     "the expression ends where",
		"15% + 1 %":                     "the expression ends where",
		"%5":                            "for percent divide by 100",
		"pi * 2":                        "an unknown name (the functions are abs, ceil",
		"exec(1)":                       "an unknown name",
		"abs 1":                         `'1' where ( is expected`,
		"abs()":                         `')' where a number`,
		"abs(1,2)":                      "abs with 2 arguments, at character 1",
		"round(1,2,3)":                  "round with 3 arguments",
		"round(1,0.5)":                  "must be an integer from -1000 to 1000",
		"round(1,1001)":                 "must be an integer from -1000 to 1000",
		"round(1,-9223372036854775808)": "must be an integer from -1000 to 1000",
		"1.2.3":                         `'.' where an operator`,
		".":                             "a point without digits",
		"1e":                            "an exponent without digits",
		"1e+":                           "an exponent without digits",
		"1\x00":                         `'\x00' where an operator`,
		"\u202E1":                       `'\u202e' where a number`,
		"0x10":                          `'x' where an operator`,
		"1_000":                         `'_' where an operator`,
		"Inf":                           "an unknown name",
		"1 ? 2":                         `'?' where`,
		"a.b":                           "an unknown name",
	} {
		got := refusal(t, calculate(t, offer, expression))
		if !strings.Contains(got, want) {
			t.Errorf("%q\n got %s\nwant %s", expression, got, want)
		}
	}
}

// Every bound, from its far side. The last ones are the costliest that fit in an
// expression.
func TestCalculateIsBounded(t *testing.T) {
	offer := open(t, builtin.Config{}, "calculate")
	const tooLarge = "more than about 4,900 digits"
	for name, test := range map[string]struct{ expression, want string }{
		"length":      {strings.Repeat("1+", 500) + "1", "at most 1000 characters"},
		"parentheses": {strings.Repeat("(", 65) + "1" + strings.Repeat(")", 65), "more than 64 levels"},
		"signs":       {strings.Repeat("-", 65) + "1", "more than 64 levels"},
		"functions": {
			strings.Repeat("abs(", 65) + "1" + strings.Repeat(")", 65),
			"more than 64 levels",
		},
		"powers":            {strings.Repeat("1^", 65) + "1", "more than 64 levels"},
		"unclosed":          {strings.Repeat("(", 1000), "more than 64 levels"},
		"literal":           {"1e9999", tooLarge},
		"small literal":     {"1e-9999", tooLarge},
		"long exponent":     {"1e99999999999", tooLarge},
		"power":             {"2^16384", tooLarge},
		"power of a power":  {"9^9^9^9", tooLarge},
		"negative exponent": {"2^-99999999", tooLarge},
		"exponent":          {"2^99999999999999999999", tooLarge},
		"approximate power": {"sqrt(2)^1000000", tooLarge},
		"product":           {"2^9000 * 2^9000", tooLarge},
		"sum of fractions":  {"1/3^4000 + 1/7^4000", tooLarge},
		"quotient":          {"2^9000 / 3^9000", tooLarge},
		"remainder":         {"(1/2^8000) % (1/3^6000)", tooLarge},
		"rounding":          {"round(1/3, 1000) ^ 10", tooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			if got := refusal(t, calculate(t, offer, test.expression)); !strings.Contains(got, test.want) {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
	for name, expression := range map[string]string{
		"powers":     strings.Repeat("2^16000+", 124) + "0",
		"remainders": strings.Repeat("7^2800%", 140) + "7",
		"fractions":  strings.Repeat("1/3^5000*", 1) + strings.Repeat("3^1%", 200) + "1",
		"roots":      strings.Repeat("sqrt(2^8001)+", 76) + "0",
		"quotients":  "5^2900" + strings.Repeat("/7^2500*7^2500", 66),
	} {
		t.Run("cost of "+name, func(t *testing.T) {
			start := time.Now()
			calculate(t, offer, expression)
			if took := time.Since(start); took > time.Minute {
				t.Errorf("took %v", took)
			}
		})
	}
}

func FuzzCalculate(f *testing.F) {
	for _, seed := range []string{
		"1+2*3", "-(2^-3)%7", "round(1/3, 2)", "sqrt(2)", "min(1,2)", "1e-3", "((",
		"2**3", "ü",
	} {
		f.Add(seed)
	}
	offers, err := builtin.New(builtin.Config{Tools: []string{"calculate"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		if !utf8.ValidString(expression) {
			t.Skip("arguments are valid UTF-8")
		}
		result := calculate(t, offers[0], expression)
		if result.Has("isError") {
			return
		}
		// A result is an expression again, and its value is the same.
		first := result.Object("structuredContent")
		if len(first.Text("result")) > 1000 {
			return
		}
		again := calculate(t, offers[0], first.Text("result")).Object("structuredContent")
		if again.Text("result") != first.Text("result") && string(first.Value("exact")) == "true" {
			t.Errorf("%q is %q, and that is %q", expression, first.Text("result"), again.Text("result"))
		}
	})
}
