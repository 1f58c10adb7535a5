package main

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
	"github.com/drawbridge-mcp/drawbridge/server"
)

// entry is a line of an audit file, as far as commands read it.
type entry struct {
	Time      time.Time `json:"time"`
	RequestID string    `json:"request_id"`
	CallID    string    `json:"call_id"`
	Tenant    string    `json:"tenant"`
	Issuer    string    `json:"issuer"`
	Subject   string    `json:"subject"`
	Name      string    `json:"name"`
	TokenID   string    `json:"token_id"`
	Claims    members   `json:"claims"`
	ClientID  string    `json:"client_id"`
	Scopes    []string  `json:"scopes"`
	Client    string    `json:"client"`
	Version   string    `json:"client_version"`
	Remote    string    `json:"remote"`
	Session   string    `json:"session"`
	Method    string    `json:"method"`
	Server    string    `json:"server"`
	Item      string    `json:"item"`
	Outcome   string    `json:"outcome"`
	Reason    string    `json:"reason"`
	Rule      string    `json:"rule"`
	Missing   []string  `json:"missing"`
	Config    string    `json:"config"`
	Count     int       `json:"count"`
	Upstream  float64   `json:"upstream_seconds"`
	Wait      float64   `json:"wait_seconds"`
	WaitedFor string    `json:"waited_for"`
	Digest    string    `json:"arguments"`
	Arguments members   `json:"named_arguments"`
	Duration  float64   `json:"duration_seconds"`
	Audience  []string  `json:"audience"`
	Expected  []string  `json:"expected"`
	Claim     string    `json:"claim"`
	Found     string    `json:"found"`
}

// isSignIn tells whether the line is about signing in, and no call.
func (e *entry) isSignIn() bool {
	return strings.HasPrefix(e.Method, server.SignInMethods) || e.Outcome == signin.OutcomeEnded
}

// members are named values.
type members map[string]string

// String returns them in the order of their names.
func (m members) String() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		all = append(all, name+"="+m[name])
	}
	return strings.Join(all, ", ")
}

// maxAuditLine is more than the longest line of an audit file.
const maxAuditLine = 64 << 10

// readAudit calls each with every line of the named file that is a record; - is standard
// input. A file that gzip compressed is read as it was before. It returns how many lines
// are none.
func readAudit(name string, each func(e *entry)) (unread int, err error) {
	var from io.Reader = os.Stdin
	if name != "-" {
		f, err := os.Open(name) //nolint:gosec // the operator's command line names the file
		if err != nil {
			return 0, err
		}
		defer closeQuietly(f)
		from = f
	}
	plain := bufio.NewReader(from)
	from = plain
	if begin, _ := plain.Peek(2); string(begin) == "\x1f\x8b" { // what cannot be read is found below
		if from, err = gzip.NewReader(plain); err != nil {
			return 0, fmt.Errorf("read %s: %w", name, err)
		}
	}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxAuditLine)
	for lines.Scan() {
		line := lines.Bytes()
		if len(line) == 0 {
			continue
		}
		var e entry
		if err := strictjson.Unmarshal(line, &e); err != nil || e.Time.IsZero() {
			unread++
			continue
		}
		each(&e)
	}
	if err := lines.Err(); err != nil {
		return unread, fmt.Errorf("read %s: %w", name, err)
	}
	return unread, nil
}
