package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// A server decodes a URI before it looks, so a pattern that denies it must hold for its
// encoded spellings too.
func TestDeniedURIIsDeniedInEverySpelling(t *testing.T) {
	tenant := everything()
	tenant.Limits.UserCalls = &ratelimit.Limit{Rate: 1000, Burst: 1000}
	tenant.Rules = append(tenant.Rules, Rule{Deny: []string{
		"resource:lib:file:///C:/secret/*", "resource:lib:file:///caf\u00e9/*",
		"resource:lib:file:///br%C3%BCcke/*", "resource:lib:file:///a(1).txt",
		"resource:lib:*.pem",
	}})
	b, l := newLibrary(t, tenant)
	l.says(subjects[2].answer("text"))
	read := func(uri string) *mcp.Error {
		_, failure := b.handle(t, ask(mcp.MethodResourcesRead, `{"uri":`+quote(uri)+`}`))
		return failure
	}
	for _, uri := range []string{
		"file:///C:/secret/x", "file:///C%3A/secret/x", "file:///C%3a/secret/x", "file:///C%253A/secret/x",
		"FILE:///C:/secret/x",
		"file:/C:/secret/x", "file://localhost/C:/secret/x", "file:///caf\u00e9/x", "file:///caf%C3%A9/x",
		"file:///caf%c3%a9/x",
		"file:///br%C3%BCcke/x", "file:///br\u00fccke/x", "file:///br%c3%bccke/x", "file:///a(1).txt",
		"file:///a%281%29.txt",
		"file:///x.pem", "file:///x.pem#", "file:///x.pem#a", "file:///x.pem?", "file:///x.pem?a#b",
		"file:///x.pem/", "file:///x.pem;a=b", "file:///x.pem.",
		"file:///x.pem%20", "file:///x.pem%3Fa", "file:///x%2epem",
	} {
		if failure := read("mcp.lib+" + uri); stable(failure) != "DB-RESOURCE" {
			t.Errorf("%s: got %v, want it unknown", uri, failure)
		}
		if c, _ := b.Resolve(alice); b.Reads(c, "mcp.lib+"+uri) {
			t.Errorf("%s: changes of it are told", uri)
		}
	}
	for _, uri := range []string{
		"file:///C:/open/x", "file:///C%3A/open/x", "file:///caf%C3%A9.txt",
		"file:///a%282%29.txt", "file:///x.pem.txt", "file:///y?x.pem=1",
	} {
		if failure := read("mcp.lib+" + uri); failure != nil {
			t.Errorf("%s: %v, want it read", uri, failure)
		}
	}
}

// A source keeps a call open, with its slot, until its questions are answered. When they
// do not reach the client, nobody will answer: the source is told so at once, or every
// such call would take a slot for minutes.
func TestQuestionsThatAreWithheldKeepNoSlot(t *testing.T) {
	var many []string
	for n := range maxQuestions + 1 {
		many = append(many, fmt.Sprintf(`"q%d":{"method":"roots/list"}`, n))
	}
	for name, asks := range map[string]string{
		"too many": `{"resultType":"input_required","inputRequests":{` + strings.Join(many, ",") +
			`},"requestState":"parked"}`,
		"unknown question": `{"resultType":"input_required","inputRequests":{"q":{"method":"tools/list"}},"requestState":"parked"}`,
		"secret": `{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"AKIA` + "Q7XKZ2M5RT3WNHV4" + `",` +
			`"requestedSchema":{"type":"object"}}}},"requestState":"parked"}`,
	} {
		tenant := everything()
		one := 1
		tenant.Limits.Concurrency = &one
		tenant.Output = sanitize.Policy{Secrets: sanitize.Block}
		b, l := newLibrary(t, tenant)
		var release func()
		l.reply = func(ctx context.Context, c *registry.Call) (mcp.Object, error) {
			switch {
			case c.Params.Text("requestState") != "parked":
				release = c.Hold(func() {})
			case ctx.Err() != nil:
				release()
				return mcp.Object{}, ctx.Err()
			}
			return object(asks), nil
		}
		for range 3 {
			if _, failure := b.handle(t, ask(mcp.MethodToolsCall, subjects[0].params)); failure == nil ||
				stable(failure) == "DB-LIMIT-CONCURRENCY" {
				t.Errorf("%s: got %v, want the questions withheld and the slot free", name, failure)
			}
		}
	}
}

// The repeat of a call whose time is over does not reach its source, which is told to end
// it.
func TestCallWhoseTimeIsOverKeepsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newLibrary(t)
		ended := false
		l.reply = func(ctx context.Context, c *registry.Call) (mcp.Object, error) {
			if c.Params.Has("requestState") {
				ended = c.Params.Text("requestState") == "parked" && ctx.Err() != nil &&
					!c.Params.Has("inputResponses")
				return mcp.Object{}, ctx.Err()
			}
			c.Hold(func() {})
			time.Sleep(libraryTime)
			return object(`{"resultType":"input_required","inputRequests":{` + question +
				`},"requestState":"parked"}`), nil
		}
		r := ask(mcp.MethodToolsCall, subjects[0].params)
		if _, failure := b.handle(t, repeat(r, b.asked(t, r))); stable(failure) != "DB-TIMEOUT" || !ended {
			t.Errorf("got %v, the source told: %v; want it told that the time is over", failure, ended)
		}
	})
}
