package builtin

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// Bounds of a file. The definition tells the model the first three.
const (
	maxCSVBytes   = 32 << 20
	maxCSVRows    = 1_000_000 // without the first row
	maxCSVColumns = 256
	maxCSVRow     = 1 << 20 // bytes of one row
	maxCSVName    = 1000    // bytes of the name of a column
)

// byteOrderMark is what some programs begin a file of UTF-8 with. It belongs to no cell,
// and stands before the quotation mark of the first one.
const byteOrderMark = "\uFEFF"

//go:embed analyzecsv.json
var analyzeCSVDefinition string

// analyzeCSVResult is the structured content; analyzeCSVDefinition says what its members
// mean.
type analyzeCSVResult struct {
	Rows    int             `json:"rows"`
	Columns []columnSummary `json:"columns"`
}

// newAnalyzeCSV makes the tool analyze_csv. Each call opens the data directory, so that
// it reads what is there now, also when another directory has taken its place.
func newAnalyzeCSV(cfg Config) (registry.Func, error) {
	if cfg.CSVRoot == "" {
		return nil, errors.New("needs a directory below which it reads")
	}
	root, err := os.OpenRoot(cfg.CSVRoot)
	if err != nil {
		return nil, fmt.Errorf("open the data directory: %w", err)
	}
	_ = root.Close() // it was only tried
	return func(ctx context.Context, c *registry.Call) (mcp.Object, error) {
		result, err := analyzeFile(ctx, cfg.CSVRoot, c, cfg.Turns)
		if err != nil {
			return mcp.Object{}, err
		}
		return structuredResult(result), nil
	}, nil
}

// analyzeFile reads the arguments, opens the file below directory and analyses it. Errors
// are *registry.UsageError, or that of ctx.
func analyzeFile(ctx context.Context, directory string, c *registry.Call, turns *fairqueue.Queue) (
	*analyzeCSVResult, error,
) {
	args := arguments(c)
	delimiter := byte(',')
	if text := args.Text("delimiter"); text != "" {
		if !slices.Contains([]string{",", ";", "|", "\t"}, text) {
			return nil, registry.Usagef(
				"The delimiter must be a comma, a semicolon, a vertical bar or a tab.")
		}
		delimiter = text[0]
	}
	file, err := openBelow(directory, args.Text("path"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // nothing was written that could be lost
	inTurn := &turnReader{Reader: file, left: swiftCSV, give: func() {}, next: func() (func(), error) {
		return turns.Finish(ctx, share.User(c.Principal.User()), csvPiece*csvTime)
	}}
	defer func() { inTurn.give() }()
	limited := &io.LimitedReader{R: inTurn, N: maxCSVBytes + 1} // the file may grow while it is read
	result, err := analyze(ctx, limited, delimiter, args.Text("column"))
	switch {
	case err != nil && ctx.Err() != nil: // perhaps while it waited for a turn
		return nil, ctx.Err()
	case limited.N == 0:
		return nil, errTooManyBytes
	}
	return result, err
}

var errTooManyBytes = registry.Usagef("The file is larger than %d MiB.", maxCSVBytes>>20)

// openBelow opens a regular file below directory: os.Root lets no path and no symbolic
// link lead out of that. Errors are *registry.UsageError. A file that does not exist and
// one that a symbolic link leads to outside give the same error, so that a caller cannot
// find out which files the machine has. Only a path that by itself leads out, as ../x
// does, is told so.
func openBelow(directory, path string) (*os.File, error) {
	if !filepath.IsLocal(filepath.FromSlash(path)) {
		return nil, registry.Usagef(
			"The path must be relative to the data directory and must not lead out of it.")
	}
	unreadable := registry.Usagef("There is no readable file with that path in the data directory.")
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, unreadable
	}
	defer func() { _ = root.Close() }() // nothing was written
	// a named pipe would block
	file, err := root.OpenFile(filepath.FromSlash(path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, unreadable
	}
	info, err := file.Stat()
	switch {
	case err != nil || !info.Mode().IsRegular():
		err = unreadable
	case info.Size() > maxCSVBytes:
		err = errTooManyBytes
	default:
		return file, nil
	}
	_ = file.Close() // nothing was written
	return nil, err
}

// analyze reads a CSV text row by row and keeps no row. only is the name of the one
// column to look at, "" for all. Errors are *registry.UsageError, or that of ctx.
func analyze(ctx context.Context, r io.Reader, delimiter byte, only string) (*analyzeCSVResult, error) {
	begun := bufio.NewReader(r)
	if start, _ := begun.Peek(len(byteOrderMark)); string(start) == byteOrderMark {
		_, _ = begun.Discard(len(byteOrderMark)) // it was read already
	}
	reader := csv.NewReader(&rowLimiter{reader: begun, delimiter: delimiter})
	reader.Comma, reader.ReuseRecord = rune(delimiter), true
	header, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return nil, registry.Usagef("The file is empty. Its first row must name the columns.")
	}
	if err != nil {
		return nil, csvError(err)
	}
	columns, err := columnsOf(header, only)
	if err != nil {
		return nil, err
	}
	for rows := 0; ; rows++ {
		record, err := reader.Read()
		switch {
		case errors.Is(err, io.EOF):
			return summarize(rows, columns), nil
		case err != nil:
			return nil, csvError(err)
		case rows == maxCSVRows:
			return nil, registry.Usagef("The file has more than %d rows.", maxCSVRows)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		for _, c := range columns {
			c.add(strings.TrimSpace(record[c.index]))
		}
	}
}

// summarize returns what is told of columns to which that many rows were added.
func summarize(rows int, columns []*column) *analyzeCSVResult {
	result := &analyzeCSVResult{Rows: rows, Columns: make([]columnSummary, len(columns))}
	for i, c := range columns {
		result.Columns[i] = c.summary()
	}
	return result
}

// columnsOf returns the columns to look at: those that are called only, of which there
// may be several, or all when only is "". Errors are *registry.UsageError.
func columnsOf(header []string, only string) ([]*column, error) {
	var columns []*column
	for i, name := range header {
		name = strings.TrimSpace(name)
		if len(name) > maxCSVName || !utf8.ValidString(name) {
			return nil, registry.Usagef(
				"The name of column %d is longer than %d bytes or is not UTF-8 text.", i+1, maxCSVName)
		}
		if only == "" || name == only {
			columns = append(columns, &column{index: i, name: name})
		}
	}
	if len(columns) == 0 {
		return nil, registry.Usagef("No column has that name. Leave the column out to see the names of all.")
	}
	return columns, nil
}

// csvError returns a *registry.UsageError for an error of csv.Reader. It says where the
// file is wrong, and repeats nothing from it.
func csvError(err error) error {
	syntax, isSyntax := errors.AsType[*csv.ParseError](err)
	_, isUsage := errors.AsType[*registry.UsageError](err)
	switch {
	case isUsage:
		return err
	case !isSyntax:
		return registry.Usagef("The file cannot be read to its end.")
	case errors.Is(err, csv.ErrFieldCount):
		return registry.Usagef("Line %d has not as many cells as the first row. Is the delimiter right?",
			syntax.Line)
	}
	return registry.Usagef("Line %d has a misplaced quotation mark at byte %d.", syntax.Line, syntax.Column)
}
