// Package sqlitefile opens files of SQLite, and knows what a panic of the driver means.
// It does not know what the files are for.
//
// What is dangerous about the driver, github.com/ncruces/go-sqlite3, which is SQLite
// translated to Go: it panics where a connection has no more memory. So whatever calls it
// defers Recovered.
package sqlitefile

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"
)

// Memory is the most that one connection takes, in bytes. What needs more, such as to
// sort very many rows, is ErrMemory.
const Memory = 16 << 20

// ErrMemory is that the bound on the memory of a connection is reached.
var ErrMemory = errors.New("out of memory")

// Open opens the file at an absolute path, with parameters such as the mode ro or rw.
// Then prepare makes the connection what its user needs.
// https://www.sqlite.org/uri.html#recognized_query_parameters
func Open(ctx context.Context, path string, parameters url.Values, prepare func(*sqlite3.Conn) error) (
	c *sqlite3.Conn, err error,
) {
	defer Recovered(&err)
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // of Windows, where it begins with a letter
	}
	query := strings.ReplaceAll(parameters.Encode(), "+", "%20") // which SQLite takes for a plus
	at := url.URL{Scheme: "file", Path: path, RawQuery: query}
	c, err = sqlite3.OpenContext(sqlite3.WithMaxMemory(ctx, Memory), at.String())
	if err != nil {
		return nil, err
	}
	if err := prepare(c); err != nil {
		return nil, errors.Join(err, Close(c))
	}
	return c, nil
}

// Configure sets options of a connection.
func Configure(c *sqlite3.Conn, options map[sqlite3.DBConfig]bool) error {
	for option, on := range options {
		if _, err := c.Config(option, on); err != nil {
			return err
		}
	}
	return nil
}

// Recovered turns a panic of the driver into an error. A fault of the program is none of
// memory. It is to be deferred.
func Recovered(err *error) {
	fault := recover()
	if _, isBug := fault.(runtime.Error); isBug {
		*err = fmt.Errorf("the driver panicked: %v", fault)
	} else if fault != nil {
		*err = fmt.Errorf("%w: %v", ErrMemory, fault)
	}
}

// Close closes a connection with all its statements. After a panic it may be beyond
// closing, which is an error.
func Close(c *sqlite3.Conn) (err error) {
	defer Recovered(&err)
	for _, s := range slices.Collect(c.Stmts()) { // which changes while they are closed
		_ = s.Close() // it says once more why its last step failed
	}
	return c.Close()
}
