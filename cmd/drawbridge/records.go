package main

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
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
	Argument  string    `json:"wrong_argument"`
	Rule      string    `json:"rule"`
	Missing   []string  `json:"missing"`
	Config    string    `json:"config"`
	Repairs   int       `json:"repairs"`
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
	Message   string    `json:"msg"` // which no record has, and every line of the log
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

// auditAgain ends what help says of the flag -audit.
const auditAgain = ", again for each further one; it may be compressed by gzip; - is standard input"

// each returns the function of a flag that adds to names each time that it is given.
func each(names *[]string) func(name string) error {
	return func(name string) error { *names = append(*names, name); return nil }
}

// auditOf returns the audit file of a config, and an error if there is none to read by
// the command.
func auditOf(cfg *config.Config, command string) ([]string, error) {
	if cfg.Audit.File == "-" {
		return nil, errors.New("drawbridge " + command +
			": the audit records go to standard output: name their file with -audit, or - to pipe them")
	}
	return []string{cfg.Audit.File}, nil
}

// readAudits calls do with every record of the named files, and says for each file how
// many of its lines are none. It returns how many those are.
func readAudits(command string, names []string, s streams, do func(e *entry)) (unread int, err error) {
	for _, name := range names {
		f := auditFile{name: name}
		if err := f.read(do); err != nil {
			return unread, fmt.Errorf("%s: %w", name, err)
		}
		if f.unread > 0 {
			s.complain("drawbridge %s: %s: %s could not be read, beginning with line %d\n", command, name,
				count(f.unread, "line"), f.first)
		}
		unread += f.unread
	}
	return unread, nil
}

// auditFile is an audit file while it is read.
type auditFile struct {
	name    string // - is standard input
	lines   int    // so far
	unread  int    // of them that are no records
	first   int    // of these
	last    int    // of these
	isAudit bool   // a line is a record
}

// read calls do with every line that is a record. A file that gzip compressed is read as
// it was before. An error says in which line what is no audit file ends: a file of which
// no line is a record is none.
func (f *auditFile) read(do func(e *entry)) error {
	file, err := input(f.name)
	if err != nil {
		return errors.Unwrap(err) // which leaves out the name
	}
	defer closeQuietly(file)
	plain := bufio.NewReader(file)
	var from io.Reader = plain
	if begin, _ := plain.Peek(2); string(begin) == "\x1f\x8b" { // what cannot be read is found below
		unpacked, err := gzip.NewReader(plain)
		if err != nil {
			return err
		}
		from = unpacked
	}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxAuditLine)
	for lines.Scan() {
		f.lines++
		if len(lines.Bytes()) > 0 {
			f.line(lines.Bytes(), do)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("line %d is longer than any line of an audit file", f.lines+1)
	case err != nil && f.last == f.lines: // of that one there was only the beginning
		return fmt.Errorf("line %d: %w", max(f.lines, 1), err)
	case err != nil:
		return fmt.Errorf("line %d: %w", f.lines+1, err)
	case f.unread > 0 && !f.isAudit:
		return fmt.Errorf("line %d is no line of an audit file, nor is any other", f.first)
	}
	return nil
}

// line reads one line.
func (f *auditFile) line(line []byte, do func(e *entry)) {
	var e entry
	if err := strictjson.Unmarshal(line, &e); err != nil || e.Time.IsZero() || e.Outcome == "" ||
		e.Message != "" {
		if f.unread++; f.unread == 1 {
			f.first = f.lines
		}
		f.last = f.lines
		return
	}
	f.isAudit = true
	do(&e)
}
