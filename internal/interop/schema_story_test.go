package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// recorded is an upstream that offers everything, with all that the gateway sent it.
type recorded struct {
	name, revision string
	entry          string // of the config
	notes          string
	sent           func() [][]byte
}

// recordedUpstreams starts one of each revision over HTTP, and one of each era over
// stdio.
func recordedUpstreams(t *testing.T) []recorded {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The Go SDK's servers of 2026-07-28 have an older side, too, to which calls of older
	// clients would go.
	named := map[string]string{modernRevision: ", revision: " + modernRevision}
	var all []recorded
	for _, revision := range revisions() {
		up := recorded{
			name: "r" + strings.ReplaceAll(revision, "-", ""), revision: revision,
			notes: t.TempDir(),
		}
		server := matrixServer(t.Context(), up.notes, revision)
		get := func(*http.Request) *sdk.Server { return server }
		var (
			handler http.Handler = sdk.NewSSEHandler(get, nil)
			kind                 = ", type: sse"
			record  recorder
		)
		if revision != "2024-11-05" {
			kind = ""
			handler = sdk.NewStreamableHTTPHandler(get,
				&sdk.StreamableHTTPOptions{
					Stateless:                    revision == modernRevision,
					PropagateRequestCancellation: true,
				})
		}
		up.entry = fmt.Sprintf("{url: %q%s%s, private_addresses: true}", record.before(t, abrupt(t, handler)),
			kind, named[revision])
		up.sent = record.messages
		all = append(all, up)
	}
	for name, revision := range map[string]string{
		"matrix-legacy": "2025-11-25",
		"matrix-modern": modernRevision,
	} {
		up := recorded{name: strings.TrimPrefix(name, "matrix-"), revision: revision, notes: t.TempDir()}
		file := filepath.Join(t.TempDir(), "sent.jsonl")
		up.entry = fmt.Sprintf("{command: /bin/sh, args: [-c, %q], env: {%s: %s, %s: %q}%s}",
			"tee -a "+file+" | "+binary, childRole, name, notesFolder, up.notes, named[revision])
		up.sent = func() [][]byte {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			return bytes.Split(bytes.TrimSpace(data), []byte("\n"))
		}
		all = append(all, up)
	}
	return all
}

func entries(upstreams []recorded) string {
	var lines strings.Builder
	for _, up := range upstreams {
		fmt.Fprintf(&lines, "  %s: %s\n", up.name, up.entry)
	}
	return lines.String()
}

// TestEveryMessageIsValid lets a client of each revision do everything with a server of
// each, and holds every message to either side against the official schema of its
// revision.
func TestEveryMessageIsValid(t *testing.T) {
	t.Parallel()
	upstreams := recordedUpstreams(t)
	g := besiege(t, twoTenants(`{allow: ["*", "prompt:*", "resource:*"]}`, entries(upstreams)))
	t.Run("to clients", func(t *testing.T) {
		for _, revision := range revisions() {
			t.Run(revision, func(t *testing.T) {
				t.Parallel()
				for _, up := range upstreams {
					g.everything(t, up, revision)
				}
			})
		}
	})
	for _, up := range upstreams {
		t.Run("to "+up.name, func(t *testing.T) {
			seen := official(t, up.revision).sent(t, up.sent())
			want := []string{
				"tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list",
				"resources/templates/list", "resources/read", "completion/complete",
			}
			if up.revision == modernRevision {
				want = append(want, "server/discover", "subscriptions/listen")
			} else { // "" are the answers to its questions
				want = append(want, "initialize", "notifications/initialized", "logging/setLevel",
					"resources/subscribe", "")
			}
			for _, method := range want {
				if !seen[method] {
					t.Errorf("no %q was sent; seen %q", method, slices.Sorted(maps.Keys(seen)))
				}
			}
		})
	}
	g.unhurt(t)
}

// everything does all that a client of the revision can do with one server.
func (g *gateway) everything(t *testing.T, up recorded, revision string) {
	t.Helper()
	s := official(t, revision)
	heard := make(map[string]bool)
	c := &talker{
		base: "http://" + g.addr, path: "/mcp", token: g.mint(who{tenant: "acme", subject: revision}),
		revision:     revision,
		capabilities: `{"elicitation":{"form":{}},"sampling":{},"roots":{}}`, level: "info",
		answer: func(question message) string {
			heard[question.Method] = true
			switch question.Method {
			case "elicitation/create":
				return `{"action":"accept","content":{"name":"x"}}`
			case "roots/list":
				return `{"roots":[{"uri":"file:///x"}]}`
			}
			return `{"role":"assistant","model":"m","content":{"type":"text","text":"x"}}`
		},
		heard: func(method string, raw []byte) {
			var m message
			_ = json.Unmarshal(raw, &m) // told says what is wrong with it
			heard[m.Method] = true
			s.told(t, method, raw)
		},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*patient)
	defer cancel()
	if err := c.open(ctx); err != nil {
		t.Fatalf("%s: %v", up.name, err)
	}
	for _, one := range everyStep(up.name, revision) {
		got, err := c.ask(ctx, one.method, one.name, one.params)
		if err != nil {
			t.Fatalf("%s: %s %s: %v", up.name, one.method, one.name, err)
		}
		// how it fails is the server's
		unknown := revision < "2025-06-18" && strings.HasSuffix(one.name, "ask_name")
		if last := got[len(got)-1]; !unknown && (last.Error != nil) != one.refused {
			t.Errorf("%s: %s %s %s gave %s %+v", up.name, one.method, one.name, one.params, last.Result,
				last.Error)
		}
	}
	want := []string{
		"notifications/progress", "notifications/message", "sampling/createMessage",
		"roots/list", "elicitation/create",
	}
	for _, method := range want {
		switch {
		case method == "elicitation/create" && revision < "2025-06-18": // it does not know it
		case method == "notifications/message" &&
			up.name == "modern": // a log line on stdio could be anyone's
		case !heard[method]:
			t.Errorf("before %s: no %s came", up.name, method)
		}
	}
}

// clientRequest is one request of a client.
type clientRequest struct {
	method, name, params string
	refused              bool
}

func everyStep(server, revision string) []clientRequest {
	var (
		prefix, uri = server + "__", "mcp." + server + "+"
		token       = `,"_meta":{"progressToken":"p"}`
	)
	steps := []clientRequest{
		{"tools/list", "", "", false},
		{"prompts/list", "", "", false},
		{"resources/list", "", "", false},
		{"resources/templates/list", "", "", false},
		{
			"prompts/get", prefix + "greet", fmt.Sprintf(`"name":%q,"arguments":{"who":"x"}`, prefix+"greet"),
			false,
		},
		{"resources/read", uri + noteURI, fmt.Sprintf(`"uri":%q`, uri+noteURI), false},
		{"resources/read", uri + "note://two/page", fmt.Sprintf(`"uri":%q`, uri+"note://two/page"), false},
		{
			"completion/complete", "",
			fmt.Sprintf(`"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"who","value":"an"}`,
				prefix+"greet"), false,
		},
		{"tools/list", "", `"cursor":"junk"`, true},
		{"tools/call", prefix + "none", fmt.Sprintf(`"name":%q,"arguments":{}`, prefix+"none"), true},
		{
			"tools/call", prefix + "echo", fmt.Sprintf(`"name":%q,"arguments":{"marker":1}`, prefix+"echo"),
			false,
		},
		{"prompts/get", prefix + "none", fmt.Sprintf(`"name":%q`, prefix+"none"), true},
		{"resources/read", uri + "note://none", fmt.Sprintf(`"uri":%q`, uri+"note://none"), true},
		{"no/such", "", "", true},
	}
	if revision == modernRevision {
		token = "" // the talker adds its own
		steps = append(steps, clientRequest{"server/discover", "", "", false})
	} else {
		watched := fmt.Sprintf(`"uri":%q`, uri+noteURI)
		steps = append(steps, clientRequest{"ping", "", "", false}, clientRequest{
			"resources/subscribe", "", watched,
			false,
		}, clientRequest{"resources/unsubscribe", "", watched, false})
	}
	for _, tool := range []string{
		"echo", "picture", "measure", "climb", "speak", "ask_name", "ask_model",
		"ask_roots",
	} {
		steps = append(steps, clientRequest{
			"tools/call", prefix + tool,
			fmt.Sprintf(`"name":%q,"arguments":{"marker":"x"}%s`, prefix+tool, token), false,
		})
	}
	return steps
}

// TestChangesToldAreValid changes a resource, then all lists, and holds what clients of
// each revision are told of it against the official schema.
func TestChangesToldAreValid(t *testing.T) {
	t.Parallel()
	notes := t.TempDir()
	server := matrixServer(t.Context(), notes, legacyVersions...)
	url := abrupt(t, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	everyKind := func(sections string) string {
		return strings.Replace(sections, `["*"]`, `["*", "prompt:*", "resource:*"]`, 1)
	}
	g := serve(t, everyKind(tenant("  up: "+private(url)+"\n")))
	const watched = `"mcp.up+` + noteURI + `"`
	streams := make(map[string]*events)
	for _, revision := range revisions() {
		s := g.speak(t, g.mint(who{tenant: "acme", subject: "alice"}), revision)
		switch {
		case revision == modernRevision:
			body := `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{` + modernMeta +
				`,"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":[` + watched + `]}}}`
			streams[revision], _ = openWith(t, http.MethodPost, g.url, body, "Authorization", "Bearer "+
				s.token, "MCP-Protocol-Version", modernRevision, "Mcp-Method", "subscriptions/listen")
		case s.stream != nil:
			streams[revision] = s.stream
		default:
			streams[revision] = g.listen(t, g.url, "Authorization", "Bearer "+s.token, "Mcp-Session-Id",
				s.session, "MCP-Protocol-Version", revision)
		}
		if revision != modernRevision {
			if m := s.ask(t, "1", "resources/subscribe", "", `"uri":`+watched); m.Error != nil {
				t.Fatalf("%s: %+v", revision, m.Error)
			}
		} else if first := streams[revision].next(t); !strings.Contains(first, "acknowledged") {
			t.Fatalf("the first message is %s", first)
		} else {
			official(t, revision).told(t, "", []byte(first))
		}
	}
	heard := make(chan string, 1024)
	var all sync.WaitGroup
	defer all.Wait()
	for revision, stream := range streams {
		s := official(t, revision)
		defer stream.close()
		all.Go(func() {
			for raw := range stream.data {
				if raw == "" {
					continue // it only gives the stream an id
				}
				var m message
				_ = json.Unmarshal([]byte(raw), &m) // told says what is wrong with it
				if m.Method != "" {
					s.told(t, "", []byte(raw))
					heard <- revision + " " + m.Method
				}
			}
		})
	}
	await := func(methods ...string) {
		t.Helper()
		missing := make(map[string]bool)
		for revision := range streams {
			for _, method := range methods {
				missing[revision+" "+method] = true
			}
		}
		for deadline := time.After(patient); len(missing) > 0; {
			select {
			case one := <-heard:
				delete(missing, one)
			case <-deadline:
				t.Fatalf("not told: %q", slices.Sorted(maps.Keys(missing)))
			}
		}
	}
	if err := leave(notes, "touch-it"); err != nil {
		t.Fatal(err)
	}
	await("notifications/resources/updated")
	g.configure(t, everyKind(tenant("  own: {builtin: [calculate]}\n")))
	await("notifications/tools/list_changed", "notifications/prompts/list_changed",
		"notifications/resources/list_changed")
}
