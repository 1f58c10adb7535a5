package sqlite

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/drawbridge-mcp/drawbridge/internal/database"
)

// slowFunctions are those whose time grows with the square of their arguments in a single
// step, in small letters: SQLite asks between steps alone whether it is to go on.
var slowFunctions = []string{
	"decimal_exp", "decimal_mul", "decimal_pow2", "json_patch", "jsonb_patch", "load_extension", "regexp",
	"regexpi",
	"sqlite_log",
}

// addFunctions replaces functions that are slow and cannot be missed by others that do
// the same in linear time. To trim 100,000 characters takes SQLite 7 minutes if there are
// as many to choose from. And it adds what Layout asks.
func addFunctions(c *sqlite3.Conn) error {
	const flags = sqlite3.DETERMINISTIC | sqlite3.INNOCUOUS
	trimming := func(left, right bool) sqlite3.ScalarFunction {
		return ofValues(func(ctx sqlite3.Context, args ...sqlite3.Value) {
			ctx.ResultText(trimmed(args[0].Text(), args[1].Text(), left, right))
		})
	}
	return errors.Join(
		c.CreateFunction("trim", 2, flags, trimming(true, true)),
		c.CreateFunction("ltrim", 2, flags, trimming(true, false)),
		c.CreateFunction("rtrim", 2, flags, trimming(false, true)),
		c.CreateFunction("instr", 2, flags, ofValues(instr)),
		c.CreateFunction("replace", 3, flags, ofValues(replace)),
		c.CreateFunction("has_columns", 1, 0, hasColumns(c)),
	)
}

// ofValues returns a function whose result is NULL where one of its arguments is NULL,
// and else that of do.
func ofValues(do sqlite3.ScalarFunction) sqlite3.ScalarFunction {
	isNull := func(v sqlite3.Value) bool { return v.Type() == sqlite3.NULL }
	return func(ctx sqlite3.Context, args ...sqlite3.Value) {
		if !slices.ContainsFunc(args, isNull) {
			do(ctx, args...)
		}
	}
}

// trimmed returns text without those characters at its ends.
func trimmed(text, characters string, left, right bool) string {
	set := make(map[rune]bool, min(len(characters), 256))
	for _, r := range characters {
		set[r] = true
	}
	within := func(r rune) bool { return set[r] }
	if left {
		text = strings.TrimLeftFunc(text, within)
	}
	if right {
		text = strings.TrimRightFunc(text, within)
	}
	return text
}

// instr returns where the second argument begins in the first one, from 1: in characters,
// or in bytes of two blobs.
func instr(ctx sqlite3.Context, args ...sqlite3.Value) {
	if args[0].Type() == sqlite3.BLOB && args[1].Type() == sqlite3.BLOB {
		ctx.ResultInt(bytes.Index(args[0].RawBlob(), args[1].RawBlob()) + 1)
		return
	}
	text := args[0].Text()
	at := strings.Index(text, args[1].Text())
	if at > 0 {
		at = len([]rune(text[:at]))
	}
	ctx.ResultInt(at + 1)
}

// replace returns the first argument with the third for each of the second.
func replace(ctx sqlite3.Context, args ...sqlite3.Value) {
	text, old, next := args[0].Text(), args[1].Text(), args[2].Text()
	if old == "" {
		ctx.ResultText(text)
		return
	}
	if n := strings.Count(text, old); len(text)+n*(len(next)-len(old)) > database.MaxValue {
		ctx.ResultError(sqlite3.TOOBIG)
		return
	}
	ctx.ResultText(strings.ReplaceAll(text, old, next))
}

// hasColumns returns a function that tells whether the columns of the table or view of
// that name can be found.
func hasColumns(c *sqlite3.Conn) sqlite3.ScalarFunction {
	return func(ctx sqlite3.Context, args ...sqlite3.Value) {
		s, _, err := c.Prepare("SELECT name FROM pragma_table_xinfo(?1)")
		if err != nil {
			ctx.ResultError(err)
			return
		}
		err = s.BindText(1, args[0].Text())
		ctx.ResultBool(err == nil && s.Step())
		_ = s.Close() // it says once more why its step failed
	}
}
