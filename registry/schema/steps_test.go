package schema_test

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

// dear is a subschema with a pattern of about 3,000 instructions, which may see about
// 3,000 bytes.
var dear = `{"pattern":"` + strings.Repeat("(?:a?b?c?){3}", 75) + `!"}`

// TestPatternsSeeLittleWhereverTheyStand puts a pattern with many instructions at every
// place where a keyword can have one, and lets it meet a long text. RE2 would take a
// second for each.
func TestPatternsSeeLittleWhereverTheyStand(t *testing.T) {
	t.Parallel()
	long := `"` + strings.Repeat("a", 20_000) + `"`
	for name, test := range map[string]struct{ schema, value, short string }{
		"root":  {dear, long, `"a!"`},
		"$ref":  {`{"$ref":"#/$defs/x","$defs":{"x":` + dear + `}}`, long, `"a!"`},
		"allOf": {`{"allOf":[{},` + dear + `]}`, long, `"a!"`},
		"anyOf": {`{"anyOf":[{"type":"null"},` + dear + `]}`, long, `"a!"`},
		"oneOf": {`{"oneOf":[{"type":"null"},` + dear + `]}`, long, `"a!"`},
		"not":   {`{"not":` + dear + `}`, long, `"b"`},
		"if":    {`{"if":` + dear + `,"then":true}`, long, `"b"`},
		"then":  {`{"if":true,"then":` + dear + `}`, long, `"a!"`},
		"else":  {`{"if":false,"else":` + dear + `}`, long, `"a!"`},
		"dependentSchemas": {
			`{"dependentSchemas":{"a":{"properties":{"b":` + dear + `}}}}`,
			`{"a":1,"b":` + long + `}`, `{"a":1,"b":"a!"}`,
		},
		"dependencies": {`{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":{"properties":{"b":` + dear + `}}}}`, `{"a":1,"b":` + long + `}`, `{"a":1,"b":"a!"}`},
		"properties": {
			`{"properties":{"a":` + dear + `}}`, `{"z":{},"a":` + long + `}`,
			`{"a":"a!"}`,
		},
		"an escaped name": {
			`{"properties":{"a":` + dear + `}}`, `{"\u0061":` + long + `}`,
			`{"\u0061":"a!"}`,
		},
		"deep properties": {
			`{"properties":{"a":{"properties":{"b":{"items":` + dear + `}}}}}`,
			`{"a":{"b":[1,` + long + `]}}`, `{"a":{"b":["a!"]}}`,
		},
		"patternProperties": {
			`{"patternProperties":{"^x":` + dear + `}}`, `{"x":` + long + `}`,
			`{"x":"a!"}`,
		},
		"names": {`{"patternProperties":{` +
			strings.TrimSuffix(strings.TrimPrefix(dear, `{"pattern":`), "}") + `:{}}}`, `{` + long +
			`:1}`, `{"a!":1}`},
		"additionalProperties": {
			`{"additionalProperties":` + dear + `}`, `{"x":` + long + `}`,
			`{"x":"a!"}`,
		},
		"unevaluatedProperties": {
			`{"unevaluatedProperties":` + dear + `}`, `{"x":` + long + `}`,
			`{"x":"a!"}`,
		},
		"propertyNames": {`{"propertyNames":` + dear + `}`, `{` + long + `:1}`, `{"a!":1}`},
		"items":         {`{"items":` + dear + `}`, `[[],` + long + `]`, `["a!"]`},
		"items as a list": {`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{},` + dear +
			`]}`, `[1,` + long + `]`, `[1,"a!"]`},
		"prefixItems":      {`{"prefixItems":[{},` + dear + `]}`, `[1,` + long + `]`, `[1,"a!"]`},
		"contains":         {`{"contains":` + dear + `}`, `[1,` + long + `]`, `["a!"]`},
		"unevaluatedItems": {`{"unevaluatedItems":` + dear + `}`, `[` + long + `]`, `["a!"]`},
		"recursion": {
			`{"properties":{"next":{"$ref":"#"},"a":` + dear + `}}`,
			`{"next":{"next":{"a":` + long + `}}}`, `{"next":{"a":"a!"}}`,
		},
		"many short texts": {
			`{"items":` + dear + `}`, `[` + repeated(`"aaaaaaa"`, 2500) + `]`,
			`["a!"]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer checkNoHang(t, time.Now())
			s := compile(t, test.schema)
			checkRefusal(t, s.CheckWithin(mcp.RawJSON(test.value), "value", nil), false, tooLong)
			checkRefusal(t, s.CheckWithin(mcp.RawJSON(test.short), "value", nil), true, "")
		})
	}
}

// TestRefusedPatternNamesItsPlace: the error says which text is too long, and how long it
// may be.
func TestRefusedPatternNamesItsPlace(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"properties":{"rows":{"items":{"properties":{"text":{"pattern":"^[a-z]{500}$"}}}}}}`)
	err := s.CheckWithin(mcp.RawJSON(`{"rows":[{"text":"x"},{"text":"`+strings.Repeat("a", 100_000)+`"}]}`),
		"arguments", nil)
	const want = "rows/1/text: too long to check against the patterns of this schema, which could see 19841 bytes of it at most"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestLongTextsWithoutDearPatternsPass: what no pattern looks at may be long, and so may
// what a small pattern looks at.
func TestLongTextsWithoutDearPatternsPass(t *testing.T) {
	t.Parallel()
	megabyte := strings.Repeat("a", 1_000_000)
	uuid := `"0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"`
	for name, test := range map[string]struct{ schema, value string }{
		"beside a pattern": {
			`{"properties":{"id":` + dear + `,"text":{"type":"string"}}}`,
			`{"id":"a!","text":"` + megabyte + `"}`,
		},
		"Base64": {`{"pattern":"^[A-Za-z0-9+/]*={0,2}$"}`, `"` + megabyte + `"`},
		"four megabytes beside one": {
			`{"properties":{"id":` + dear + `,"rows":{"items":{"type":"string"}}}}`,
			`{"id":"a!","rows":["` + megabyte + `","` + megabyte + `","` + megabyte + `","` + megabyte +
				`"]}`,
		},
		"a thousand UUIDs": {`{"items":{"pattern":"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"}}`, `[` + repeated(uuid, 1000) + `]`},
	} {
		if err := compile(t, test.schema).CheckWithin(mcp.RawJSON(test.value), "value", nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStepsOfOneCheckAreBounded generates patterns and texts. Whatever is checked takes
// at most the steps that are allowed, counted here by the size of the pattern as it was
// compiled, and whatever takes a quarter of them is checked.
func TestStepsOfOneCheckAreBounded(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	checked, refused := 0, 0
	for range 300 {
		pattern := "^[a-z]{" + strconv.Itoa(40+random.IntN(860)) + "}"
		_, size, err := schema.CompilePattern(pattern)
		if err != nil {
			t.Fatal(err)
		}
		texts, length := 1+random.IntN(8), 1<<random.IntN(17)
		value := "[" + repeated(`"`+strings.Repeat("A", length)+`"`, texts) + "]"
		err = compile(t, `{"items":{"pattern":"`+pattern+`"}}`).CheckWithin(mcp.RawJSON(value), "value", nil)
		steps := size * texts * length
		switch tooMany := err != nil && strings.Contains(err.Error(), tooLong); {
		case tooMany:
			refused++
			if steps < schema.MaxSteps/4 {
				t.Errorf("%d instructions, %d texts of %d bytes: refused", size, texts, length)
			}
		default:
			checked++
			if steps > schema.MaxSteps {
				t.Errorf("%d instructions, %d texts of %d bytes: checked", size, texts, length)
			}
		}
	}
	if checked < 50 || refused < 50 {
		t.Errorf("%d were checked and %d refused, too few to say anything", checked, refused)
	}
}

// TestTurnsAreAskedForWhatTakesLong: a check asks for a turn with a long estimate before
// it runs dear patterns and before it gives many values to the library, and ends if it
// gets none.
func TestTurnsAreAskedForWhatTakesLong(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		schema, value string
		least, most   time.Duration // of the longest estimate
	}{
		"small":         {smallSchema, smallData, 0, 50 * time.Microsecond},
		"medium":        {mediumSchema, mediumData, 0, 50 * time.Microsecond},
		"small pattern": {patternSchema, `{"id":"ab-1234"}`, 0, 50 * time.Microsecond},
		"dear pattern":  {dear, `"` + strings.Repeat("a", 2000) + `!"`, 50 * time.Millisecond, time.Second},
		"many values": {
			`{"items":{"not":{"type":"null"}}}`, "[" + repeated("1", 20_000) + "]",
			10 * time.Millisecond, time.Second,
		},
		"many bytes": {`{"items":{"type":"string"}}`, "[" + repeated(`"`+strings.Repeat("x", 1000)+`"`,
			3000) + "]", 5 * time.Millisecond, time.Second},
	} {
		s := compile(t, test.schema)
		longest := time.Duration(0)
		budget := &grantedTurns{grant: func(estimate time.Duration) error {
			longest = max(longest, estimate)
			return nil
		}}
		if err := s.CheckWithin(mcp.RawJSON(test.value), "value", budget); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if longest < test.least || longest > test.most {
			t.Errorf("%s: got an estimate of %v, want %v to %v", name, longest, test.least, test.most)
		}
		budget.grant = func(time.Duration) error { return errNoTurn }
		if err := s.CheckUnambiguousWithin(mcp.RawJSON(test.value), "value", budget); !errors.Is(err,
			errNoTurn) {
			t.Errorf("%s: got %v, want %v", name, err, errNoTurn)
		}
	}
}

// grantedTurns are means of which memory is granted and grant decides about turns.
type grantedTurns struct {
	grant func(estimate time.Duration) error
}

func (*grantedTurns) Memory(int64) error { return nil }

func (t *grantedTurns) Turn(estimate time.Duration) error { return t.grant(estimate) }

var errNoTurn = errors.New("no turn")
