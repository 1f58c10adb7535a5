// Package database answers: what may one query ask of a database, and in which form and
// size does a caller get what came of it? The packages below it run queries, each by its
// own engine; this one knows neither engines nor tools.
//
// A query is one statement, which only reads. What keeps it from writing is the engine,
// and never a look at its text.
package database

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// Bounds of one query.
const (
	MaxQuery      = 64 << 10  // bytes of its text
	MaxParameters = 100       // values that it binds
	MaxRows       = 1000      // of its result
	MaxCell       = 8 << 10   // bytes of one value in the result; what is longer is cut, with a mark
	MaxResult     = 512 << 10 // bytes of all values of the result
	MaxValue      = 1 << 20   // bytes of one value in the engine; what is longer is an error
	maxExact      = 1 << 53   // integers beyond it are no numbers of JSON that everybody reads the same way
	cellCost      = 16        // bytes that a value counts beside its text
)

// Query is one statement to run.
type Query struct {
	Text       string
	Parameters []Parameter
	Limit      int        // rows of the result, 1 at least
	User       share.User // whose turn it is while the query keeps a processor busy
}

// Parameter is a value that a query binds.
type Parameter struct {
	Kind Kind
	Text string // of a number, a text, or a boolean: true or false
}

// Kind is what a Parameter is.
type Kind int

// The kinds.
const (
	Null Kind = iota
	Boolean
	Number
	Text
)

// Error is an error whose text is for the model that wrote the query. It holds what the
// engine says of the query, and neither an address nor a secret.
type Error struct{ Text string }

func (e *Error) Error() string { return e.Text }

// Errorf returns an *Error.
func Errorf(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

// ErrWrites is the *Error of a statement that does more than read.
func ErrWrites() error {
	return Errorf(
		"Only reading is allowed here: write one SELECT (or WITH … SELECT, VALUES, EXPLAIN) that changes " +
			"nothing.")
}

// ErrSeveral is the *Error of a text with more than one statement.
func ErrSeveral() error {
	return Errorf("Only one statement can be run at a time: send the others as queries of their own.")
}

// Column is a column of a result.
type Column struct {
	Name string `json:"name"`
	Type string `json:"type"` // the word of the engine; "" if it has none
}

// Cell is a value of a result as JSON.
type Cell []byte

// Table is the result of a query. It is filled by Add.
type Table struct {
	Columns []Column
	Rows    [][]Cell
	More    bool // there are more rows than the query wanted
	Full    bool // there are more rows than a result may hold bytes

	limit int
	size  int
}

// NewTable returns a table for a query, without rows.
func NewTable(q *Query, columns []Column) *Table { return &Table{Columns: columns, limit: q.Limit} }

// Add adds a row. It returns false, and adds nothing, if the table is full; then there is
// no use in further rows.
func (t *Table) Add(row []Cell) bool {
	if len(t.Rows) == t.limit {
		t.More = true
		return false
	}
	size := 0
	for _, c := range row {
		size += len(c) + cellCost
	}
	if t.size+size > MaxResult {
		t.Full = true
		return false
	}
	t.size += size
	t.Rows = append(t.Rows, row)
	return true
}

// Size returns how many bytes the values of the table count.
func (t *Table) Size() int { return t.size }

// NullCell is the value NULL.
func NullCell() Cell { return Cell("null") }

// BooleanCell returns a boolean.
func BooleanCell(v bool) Cell { return strconv.AppendBool(nil, v) }

// IntegerCell returns an integer: as a number, or as a text if not every reader of JSON
// would get the same number.
func IntegerCell(v int64) Cell {
	if v > -maxExact && v < maxExact {
		return strconv.AppendInt(nil, v, 10)
	}
	return strconv.AppendQuote(nil, strconv.FormatInt(v, 10))
}

// FloatCell returns a floating-point number, or a text for what JSON has no number for.
func FloatCell(v float64) Cell {
	switch {
	case math.IsNaN(v):
		return Cell(`"NaN"`)
	case math.IsInf(v, 1):
		return Cell(`"Infinity"`)
	case math.IsInf(v, -1):
		return Cell(`"-Infinity"`)
	}
	return strconv.AppendFloat(nil, v, 'g', -1, 64)
}

// DecimalCell returns a decimal number of any size from its digits: as a number if a
// float64 has just this value, in these digits, else as a text.
func DecimalCell(digits string) Cell {
	plain := strings.TrimPrefix(digits, "-")
	if len(plain) <= 15 && plain != "" && strings.Trim(plain, "0123456789.") == "" {
		return Cell(digits)
	}
	return TextCell(digits)
}

// TextCell returns a text, cut with a mark if it is too long. What is no UTF-8 in it
// becomes U+FFFD.
func TextCell(s string) Cell {
	if len(s) <= MaxCell {
		return quoted(s)
	}
	end := MaxCell
	for end > MaxCell-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return quoted(fmt.Sprintf("%s… [cut: %d bytes in all]", s[:end], len(s)))
}

// BinaryCell returns bytes in Base64 with how many there are, cut with a mark if there
// are too many.
func BinaryCell(b []byte) Cell {
	kept := b[:min(len(b), MaxCell/4*3)]
	text, err := strictjson.Marshal(struct {
		Base64 []byte `json:"base64"`
		Bytes  int    `json:"bytes"`
		Cut    bool   `json:"cut,omitzero"`
	}{kept, len(b), len(kept) < len(b)})
	if err != nil {
		panic(err) // bytes and numbers can always be encoded
	}
	return text
}

func quoted(s string) Cell { return strictjson.AppendQuote(nil, strings.ToValidUTF8(s, "\uFFFD")) }
