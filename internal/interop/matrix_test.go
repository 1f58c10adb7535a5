package interop_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	matrixFlag = flag.String("matrix", "pairs",
		"which cells of the matrix to try: pairs, in which each two values meet, or all")
	updateCompat = flag.Bool("update-compat", false,
		"write what was found to docs/evidence/compatibility.md; of the matrix only with -matrix=all")
)

// matrixFeatures are what each client tries with each upstream.
var matrixFeatures = []string{
	"list", "call", "image", "structured", "progress", "log", "cancel", "list_changed",
	"read", "subscribe", "prompt", "completion", "elicitation", "sampling", "roots",
}

// matrixClient is one client of the matrix.
type matrixClient struct {
	name, title string
	script      []string // of Node.js; none for the Go SDK
	revision    string   // of the Go SDK
	sse         bool
	modern      bool
}

var matrixClients = []matrixClient{
	{
		name: "v1-sse", title: "npm sdk 1.x, HTTP+SSE", script: []string{"clients/matrix-v1.mjs", "sse"},
		sse: true,
	},
	{name: "v1-http", title: "npm sdk 1.x, 2025-11-25", script: []string{"clients/matrix-v1.mjs", "http"}},
	{name: "v2", title: "npm client 2.x, 2026-07-28", script: []string{
		"clients/matrix-v2.mjs",
		modernRevision,
	}, modern: true},
	{name: "go-legacy", title: "Go SDK, 2025-11-25", revision: "2025-11-25"},
	{name: "go-modern", title: "Go SDK, 2026-07-28", revision: modernRevision, modern: true},
}

// cell is one client with one upstream and one feature.
type cell struct{ client, upstream, feature string }

const unattributed = "2026-07-28 over stdio does not say which call a log line belongs to"

// impossible are the cells that cannot work, and why. One that works all the same fails
// the test. An empty field means any.
var impossible = []struct {
	cell
	reason string
}{
	// Older clients have sessions of its older side.
	{cell{client: "v2", upstream: "newchild", feature: "log"}, unattributed},
	{cell{client: "go-modern", upstream: "newchild", feature: "log"}, unattributed},
}

func (c cell) impossible() (reason string) {
	for _, one := range impossible {
		if (one.client == "" || one.client == c.client) &&
			(one.upstream == "" || one.upstream == c.upstream) &&
			(one.feature == "" || one.feature == c.feature) {
			return one.reason
		}
	}
	return ""
}

// inPairs says whether the cell is one of the few in which each client meets each feature
// of each upstream at least once: a Latin square.
func inPairs(client, upstream, feature int) bool {
	return client == (upstream+feature)%len(matrixClients)
}

func TestMatrixPairsMeet(t *testing.T) {
	t.Parallel()
	met := make(map[string]bool)
	for c := range matrixClients {
		for u := range 5 {
			for f := range matrixFeatures {
				if inPairs(c, u, f) {
					met[fmt.Sprint("client ", c, " upstream ", u)] = true
					met[fmt.Sprint("client ", c, " feature ", f)] = true
					met[fmt.Sprint("upstream ", u, " feature ", f)] = true
				}
			}
		}
	}
	if want := 5*5 + 2*5*len(matrixFeatures); len(met) != want {
		t.Errorf("%d pairs meet, want all %d", len(met), want)
	}
}

// TestMatrixDriversAreRight lets the clients talk to the servers without the gateway, so
// that what fails with it is its own.
func TestMatrixDriversAreRight(t *testing.T) {
	t.Parallel()
	upstreams := matrixUpstreams(t)
	for _, pair := range []struct{ client, upstream string }{
		{"v1-sse", "sse"}, {"v1-http", "web"}, {"v2", "newweb"}, {"go-legacy", "web"}, {
			"go-modern",
			"newweb",
		},
	} {
		c := matrixClients[slices.IndexFunc(matrixClients,
			func(c matrixClient) bool { return c.name == pair.client })]
		up := upstreams[slices.IndexFunc(upstreams,
			func(u matrixUpstream) bool { return u.name == pair.upstream })]
		t.Run(c.title, func(t *testing.T) {
			e := matrixJob{
				address: strings.TrimPrefix(up.url, "http://"), path: "/", ssePath: "/", token: "none",
				notes: up.notes, marker: "direct-" + c.name, features: matrixFeatures,
			}
			for feature, verdict := range c.do(t, e) {
				if verdict != "ok" {
					t.Errorf("%s: %s", feature, verdict)
				}
			}
		})
	}
}

func TestMatrix(t *testing.T) {
	t.Parallel()
	upstreams := matrixUpstreams(t)
	results := tryMatrix(t, settle(t), upstreams)
	// else some were skipped
	if len(results.verdicts) == len(upstreams)*len(matrixClients)*len(matrixFeatures) {
		keepCompat(t, "matrix", results.tables(upstreams))
	}
}

// TestMatrixOfAFleet tries the same with several replicas, which must not make a
// difference.
func TestMatrixOfAFleet(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the same matrix again: make nightly")
	}
	tryMatrix(t, settleFleet(t), matrixUpstreams(t))
}

// tryMatrix tries the cells that the command line asks for.
func tryMatrix(t *testing.T, g *gateway, upstreams []matrixUpstream) *matrixResults {
	t.Helper()
	var servers strings.Builder
	for _, up := range upstreams {
		fmt.Fprintf(&servers, "  %s: %s\n", up.name, up.entry)
	}
	besiegeAt(t, g, twoTenants(`{allow: ["*", "prompt:*", "resource:*"]}`, servers.String()))
	node(t) // without it the table would be half empty
	results := &matrixResults{verdicts: make(map[cell]string)}
	t.Run("cells", func(t *testing.T) {
		for u, up := range upstreams {
			t.Run(up.title, func(t *testing.T) {
				t.Parallel()
				for c, client := range matrixClients {
					var features []string
					for f, feature := range matrixFeatures {
						if *matrixFlag == "all" || inPairs(c, u, f) {
							features = append(features, feature)
						}
					}
					t.Run(client.title, func(t *testing.T) { results.try(t, g, client, up, features) })
				}
			})
		}
	})
	g.unhurt(t)
	return results
}

// matrixResults are what came of the cells.
type matrixResults struct {
	mu       sync.Mutex // guards verdicts
	verdicts map[cell]string
}

// try runs one client with one upstream and judges each feature.
func (r *matrixResults) try(t *testing.T, g *gateway, c matrixClient, up matrixUpstream, features []string) {
	marker := c.name + "-" + up.name
	var hopeless []string
	for _, feature := range features {
		if (cell{c.name, up.name, feature}).impossible() != "" {
			hopeless = append(hopeless, feature)
		}
	}
	verdicts := c.do(t, matrixJob{
		address: g.addr, path: "/mcp", ssePath: "/sse", token: g.mint(who{tenant: "acme", subject: c.name}),
		prefix: up.name + "__", uriPrefix: "mcp." + up.name + "+", notes: up.notes, marker: marker,
		features: features,
		hopeless: hopeless,
	})
	for _, feature := range features {
		one := cell{c.name, up.name, feature}
		verdict, reason := verdicts[feature], one.impossible()
		switch {
		case verdict == "ok" && reason != "":
			t.Errorf("%s works, but is listed as impossible: %s", feature, reason)
		case verdict != "ok" && reason == "":
			t.Errorf("%s: %s", feature, verdict)
		}
		r.mu.Lock()
		r.verdicts[one] = verdict
		r.mu.Unlock()
	}
}

// do runs the client's errand and returns its verdicts.
func (c matrixClient) do(t *testing.T, e matrixJob) map[string]string {
	t.Helper()
	if c.script == nil {
		return e.run(t, c.revision)
	}
	binary, _ := node(t)
	path := e.path
	if c.sse {
		path = e.ssePath
	}
	// A prefix may be empty, which the command line carries as an empty argument.
	cmd := exec.CommandContext(t.Context(), binary, append(slices.Clone(c.script),
		"http://"+e.address+path, e.token, e.prefix, e.uriPrefix, e.notes, e.marker, strings.Join(e.features,
			","), strings.Join(e.hopeless, ","))...)
	complaints := &output{}
	cmd.Stderr = complaints
	cmd.WaitDelay = time.Second
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(3*patient, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	verdicts := make(map[string]string)
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		var line struct{ Feature, Verdict string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Errorf("the client printed %q", lines.Text())
			continue
		}
		verdicts[line.Feature] = line.Verdict
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the client ended with %v\n%s", err, tail(complaints.String(), 2000))
	}
	for _, feature := range e.features {
		if verdicts[feature] == "" {
			verdicts[feature] = "the client said nothing"
		}
	}
	return verdicts
}

// tables are the part of the matrix in docs/evidence/compatibility.md.
func (r *matrixResults) tables(upstreams []matrixUpstream) string {
	var text strings.Builder
	var reasons []string
	for _, up := range upstreams {
		fmt.Fprintf(&text, "\n### Server: %s\n\n| |", up.title)
		for _, c := range matrixClients {
			fmt.Fprintf(&text, " %s |", c.title)
		}
		text.WriteString("\n|---|" + strings.Repeat("---|", len(matrixClients)) + "\n")
		for _, feature := range matrixFeatures {
			fmt.Fprintf(&text, "| %s |", feature)
			for _, c := range matrixClients {
				one := cell{c.name, up.name, feature}
				switch reason := one.impossible(); {
				case reason != "":
					at := slices.Index(reasons, reason)
					if at < 0 {
						at = len(reasons)
						reasons = append(reasons, reason)
					}
					fmt.Fprintf(&text, " %d |", at+1)
				case r.verdicts[one] == "ok":
					text.WriteString(" yes |")
				default:
					text.WriteString(" **no** |")
				}
			}
			text.WriteString("\n")
		}
	}
	if len(reasons) > 0 {
		text.WriteString("\n")
	}
	for i, reason := range reasons {
		fmt.Fprintf(&text, "%d. %s.\n", i+1, strings.ToUpper(reason[:1])+reason[1:])
	}
	return text.String()
}
