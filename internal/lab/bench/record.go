package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// The fields of a record that say who decided, from where and with what: as the gateway
// names them, and as they are written.
var (
	setFields = []string{
		"Name", "TokenID", "Claims", "Upstream", "Wait", "WaitedFor", "Scopes", "Ruled", "Remote", "Session", "Client",
		"Version", "Config",
	}
	writtenFields = []string{
		"rule", "name", "token_id", "claims", "client", "client_version", "remote", "session", "named_arguments",
		"wait_seconds", "waited_for", "upstream_seconds", "config",
	}
)

// recordConfig is that of all gateways, which differ in their addresses and files alone.
const recordConfig = configHead + `    servers: [echo]
    rules: [{allow: ["*"], scopes: [tools.call]}, {deny: ["*__delete_*"]}]
    limits: {requests: {rate: 1e9, burst: 1000000000}, calls: {rate: 1e9, burst: 1000000000}, user_calls: {rate: 1e9, burst: 1000000000}, tools: {"echo__*": {rate: 1e9, burst: 1000000000}}, concurrency: 1000}
servers:
  echo: {url: "http://%[3]s/mcp", private_addresses: true}
audit: {file: %[4]s, sync: interval}
log: {level: info, format: json}
`

// mostMore is how much more a call may cost with the fields than without.
const mostMore = 1.01

// recordWays are the gateways of the command record. The last is the first once more: two
// processes of one program differ, too, by where their memory and connections lie.
var recordWays = []string{"with the fields", "without", "with the fields once more"}

// runRecord is the command record. It measures this gateway beside one that is built from
// the same code without the fields, so that nothing else differs, and beside itself.
func runRecord(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench record", flag.ContinueOnError)
	report := flags.String("out", "", "page to write the section to; the standard output when empty")
	took := flags.Duration("time", 500*time.Millisecond, "how long each gateway runs in each round")
	number := flags.Int("rounds", 80, "rounds for each revision, each of all gateways")
	if err := flags.Parse(args); err != nil {
		return err
	}
	from := page.Origin(ctx, time.Now(), append([]string{"bench", "record"}, args...)...)
	l, err := emptyLab("record")
	if err != nil {
		return err
	}
	defer l.Close()
	gateways, err := l.beginRecord(ctx)
	if err != nil {
		return err
	}
	text, dear := "", false
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		targets := make([]*target, len(gateways))
		for i, way := range recordWays {
			targets[i] = l.target(wayDrawbridge, gateways[i].part, "echo__echo", era)
			targets[i].name, targets[i].token = way, gateways[i].token
		}
		r, err := plan{*took, *number}.measure(ctx, targets, 1, io.Discard)
		if err != nil {
			return err
		}
		with := r.ways[recordWays[0]].cpu
		lowest, apart := 0.0, 1.0 // of the ratio, and by how much two equal ones may differ
		for i, way := range recordWays[1:] {
			other := r.ways[way].cpu
			least, most := middle(ratiosOf(with, other))
			if i == 0 {
				lowest = least
			} else {
				apart = max(most, 1/least)
			}
			text += fmt.Sprintf("| %s | %s | %v | %v | %.4f | %.4f to %.4f |\n", r.revision, way, spreadOf(with),
				spreadOf(other), ratioOf(with, other).median, least, most)
		}
		dear = dear || lowest > mostMore*apart
	}
	if err := page.WriteSection(out, *report, "bench-record", fmt.Sprintf(recordSection, from, *number, *took, text)); err != nil {
		return err
	}
	if dear {
		return fmt.Errorf("a call costs more than %.2f times as much with the fields", mostMore)
	}
	return nil
}

const recordSection = `## What the record's fields cost

%s

Two gateways are built from the same code. One puts into each record who decided, from where and with what, the other
leaves these fields out. The first runs once more beside itself: what these two differ by is no difference. One
connection calls a tool through each in turn, %d times for %v. The ratio is that of the processor time of the first and
the other; the last column has its median with a confidence of 95 %%.

| revision | the other | with, µs of CPU a call | the other, µs | ratio | between |
|---|---|---|---|---|---|
%s`

// recordPart is one of the gateways.
type recordPart struct {
	part

	token string
}

// beginRecord builds and starts the gateways, in the order of recordWays.
func (l *lab) beginRecord(ctx context.Context) ([]recordPart, error) {
	without := filepath.Join(l.Dir, "without")
	if err := errors.Join(l.build(ctx), l.buildWithoutFields(ctx, without)); err != nil {
		return nil, err
	}
	addrs, err := world.Addresses(7)
	if err != nil {
		return nil, err
	}
	l.upstream = addrs[6]
	if _, err := l.start(ctx, l.upstream, l.Self, "upstream", l.upstream); err != nil {
		return nil, err
	}
	gateways := make([]recordPart, len(recordWays))
	for i, program := range []string{l.Program, without, l.Program} {
		at, config := addrs[2*i], fmt.Sprintf("record%d.yaml", i)
		text := fmt.Sprintf(recordConfig, at, addrs[2*i+1], l.upstream, fmt.Sprintf("audit%d.jsonl", i))
		if err := l.Write(map[string]string{config: text}); err != nil {
			return nil, err
		}
		p, err := l.serveConfig(ctx, at, program, config)
		if err != nil {
			return nil, err
		}
		gateways[i] = recordPart{p, world.Token(hmacSecret, "https://bench.test/", "http://"+at+"/mcp", "load",
			map[string]any{"scope": "tools.call", "jti": "1"})}
		t := l.target(wayDrawbridge, p, "echo__echo", mcp.Modern)
		t.token = gateways[i].token
		if err := t.serves(ctx); err != nil {
			return nil, err
		}
	}
	return gateways, nil
}

// buildWithoutFields builds a gateway whose records lack the fields. It fails if it does
// not find one of them.
func (l *lab) buildWithoutFields(ctx context.Context, program string) error {
	root, err := world.Root()
	if err != nil {
		return err
	}
	without := func(file string, fields []string, edit func(text, field string) string) world.Edit {
		return world.Edit{File: filepath.Join(root, file), Change: func(text string) (string, error) {
			for _, field := range fields {
				shorter := edit(text, field)
				if shorter == text {
					return "", fmt.Errorf("%s is not set as it was: bench record has to learn how it is now", field)
				}
				text = shorter
			}
			return text, nil
		}}
	}
	return world.BuildWith(ctx, program, l.Dir,
		without("internal/gateway/record.go", setFields, func(text, field string) string {
			return cut(text, `([\t ])`+field+`: [^,\n]+,`, "$1")
		}),
		without("internal/audit/record.go", writtenFields, func(text, field string) string {
			member := "\\(dst, `,\"" + field + "\":[^\n]*\n"
			return cut(cut(text, `\tdst = append\w+`+member, ""), `return append\w+`+member, "return dst\n")
		}))
}

// cut replaces what fits an expression.
func cut(text, expression, by string) string {
	return regexp.MustCompile(expression).ReplaceAllString(text, by)
}

// middle returns between which of the values their median lies, with a confidence of 95 %.
func middle(values []float64) (least, most float64) {
	sorted := slices.Sorted(slices.Values(values))
	n := float64(len(sorted))
	rank := int(n/2 - 0.98*math.Sqrt(n)) // of the binomial distribution, as the normal one has it
	rank = max(0, rank)
	return sorted[rank], sorted[len(sorted)-1-rank]
}
