package server_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server"
)

// asker is a desk whose tools ask what their arguments say, and whose resources change
// when a test says so. All else is that of the real one.
type asker struct {
	mu      sync.Mutex // guards the fields below
	ended   int        // calls that came again with their end
	prompts int        // changes of the list of prompts
}

// asking puts an asker before the world's gateway.
func (w *world) asking() (*asker, *files) {
	a, f := &asker{}, &files{told: make(map[string]map[int]func(string))}
	w.behind(&fakeDesk{handle: a.handle(w), lists: a.lists, files: f})
	return a, f
}

func (a *asker) lists(d gateway.Digests) gateway.Digests {
	a.mu.Lock()
	defer a.mu.Unlock()
	d[1], d[2].Listed = gateway.Digest{Listed: strconv.Itoa(a.prompts), Content: strconv.Itoa(a.prompts)}, "r"
	return d
}

func (a *asker) changePrompts() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.prompts++
}

func (a *asker) endings() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended
}

func (a *asker) handle(w *world) func(context.Context, gateway.Caller, *gateway.Request) (mcp.Object, error) {
	return func(ctx context.Context, c gateway.Caller, r *gateway.Request) (mcp.Object, error) {
		switch r.Params.Text("name") + r.Params.Text("uri") {
		case "ask":
			return a.ask(ctx, r)
		case "terms":
			return terms(ctx, r)
		case "needs_roots":
			if r.Capabilities.Has("roots") {
				return textResult("has roots"), nil
			}
			return mcp.Object{}, &mcp.Error{
				Code:    mcp.CodeMissingCapability,
				Message: "A capability is missing",
				Data:    mcp.RawJSON(`{"requiredCapabilities":{"roots":{}}}`),
			}
		case "file:///none":
			return mcp.Object{}, &mcp.Error{
				Code: mcp.CodeInvalidParams, Message: "Resource not found",
				Data: mcp.RawJSON(`{"code":"DB-RESOURCE","uri":"file:///none"}`),
			}
		}
		if made := listed[r.Method]; made.Len() > 0 {
			return inForm(r, made), nil
		}
		return w.gateway.Handle(ctx, c, r)
	}
}

// inForm shows the items of a list in the form that the door asks for, as the desk does.
func inForm(r *gateway.Request, result mcp.Object) mcp.Object {
	asked := mcp.MethodOf(r.Method)
	if !asked.Lists {
		return result
	}
	items, _ := result.Value(asked.Result).Elements()
	for i, item := range items {
		if r.Form.Differs(asked.Result, item) {
			items[i] = r.Form.Of(asked.Result, item)
		}
	}
	return result.With(asked.Result, mcp.Array(items))
}

// ask asks the rounds of questions in the arguments, one after the other, and says what
// it heard. A round without questions means later.
func (a *asker) ask(ctx context.Context, r *gateway.Request) (mcp.Object, error) {
	if ctx.Err() != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.ended++
		return mcp.Object{}, ctx.Err()
	}
	rounds, _ := r.Params.Object("arguments").Value("rounds").Elements()
	digits, heard, _ := strings.Cut(r.Params.Text("requestState"), " ")
	n, _ := strconv.Atoi(digits)
	heard += string(r.Params.Value("inputResponses"))
	for _, key := range slices.Sorted(maps.Keys(r.Refusals)) {
		heard += fmt.Sprintf(" %s refused: %v;", key, r.Refusals[key])
	}
	if endless := r.Params.Object("arguments").Has("endless"); endless {
		rounds, n = rounds[:1], 0
	}
	if n >= len(rounds) {
		return textResult(heard).With("resultType", mcp.String("complete")), nil
	}
	result := mcp.NewObject(
		mcp.Member{Name: "resultType", Value: mcp.String("input_required")},
		mcp.Member{Name: "requestState", Value: mcp.String(strconv.Itoa(n+1) + " " + heard)},
	)
	if questions, _ := mcp.ObjectOf(rounds[n]); questions.Len() > 0 {
		result = result.With("inputRequests", questions.JSON())
	}
	return result, nil
}

// terms says under which terms it is called, and logs at two levels.
func terms(ctx context.Context, r *gateway.Request) (mcp.Object, error) {
	for _, level := range []string{"info", "error"} {
		if !r.LogLevel.Wants(level) {
			continue
		}
		err := r.Notify(ctx, mcp.Notification{
			Method: mcp.NotifyMessage,
			Params: object(`{"level":"` + level + `","data":"x"}`),
		})
		if err != nil {
			return mcp.Object{}, err
		}
	}
	return textResult(fmt.Sprintf("asks %s, level %q, state %q, answers %q",
			r.Capabilities.JSON(), r.LogLevel, r.Params.Text("requestState"),
			r.Params.Value("inputResponses"))),
		nil
}

// listed are answers that have everything an older revision does not know.
var listed = map[string]mcp.Object{
	mcp.MethodToolsList: object(
		`{"tools":[{"name":"t","title":"T","icons":[],"inputSchema":{"type":"object"},"outputSchema":{"type":"array"},"annotations":{"readOnlyHint":true},` +
			`"execution":{"taskSupport":"optional"},"_meta":{"x":1}}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`),
	mcp.MethodPromptsList: object(
		`{"prompts":[{"name":"p","title":"P","icons":[],"arguments":[{"name":"a","title":"A","required":true}],"_meta":{"x":1}}],` +
			`"resultType":"complete","ttlMs":0,"cacheScope":"private"}`),
	mcp.MethodResourcesList: object(
		`{"resources":[{"uri":"file:///a","name":"a","title":"A","icons":[],"size":3,"_meta":{"x":1}}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`),
	mcp.MethodTemplatesList: object(
		`{"resourceTemplates":[{"uriTemplate":"file:///{a}","name":"a","title":"A","icons":[],"_meta":{"x":1}}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`),
	mcp.MethodResourcesRead: object(
		`{"contents":[{"uri":"file:///a","text":"x","_meta":{"x":1}}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`),
	mcp.MethodPromptsGet: object(
		`{"messages":[{"role":"user","content":{"type":"resource_link","name":"doc","uri":"file:///doc"}},` +
			`{"role":"user","content":{"type":"audio","data":"AAAA","mimeType":"audio/wav"}},{"role":"user","content":{"type":"text","text":"x"}}],"resultType":"complete"}`),
	mcp.MethodComplete: object(
		`{"completion":{"values":["a"],"total":1,"hasMore":false},"resultType":"complete"}`),
}

// files are resources that a test changes.
type files struct {
	mu     sync.Mutex // guards the fields below
	told   map[string]map[int]func(string)
	opened int
	hidden bool         // nobody may read them any more
	fault  func() error // whether one is opened; nil: it is
}

func (f *files) subscribe(uri string, updated func(string)) (gateway.Subscription, error) {
	f.mu.Lock()
	fault := f.fault
	f.mu.Unlock()
	if fault != nil {
		if err := fault(); err != nil {
			return gateway.Subscription{}, err
		}
	}
	if !strings.HasPrefix(uri, "file:///") || uri == "file:///none" {
		return gateway.Subscription{}, &mcp.Error{
			Code: mcp.CodeInvalidParams, Message: "Resource not found",
			Data: mcp.RawJSON(`{"code":"DB-RESOURCE"}`),
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened++
	n := f.opened
	if f.told[uri] == nil {
		f.told[uri] = make(map[int]func(string))
	}
	f.told[uri][n] = updated
	stop := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.told[uri], n)
	}
	return gateway.Subscription{Stop: stop, Allows: func(gateway.Caller) bool { return f.reads(uri) }}, nil
}

// fail says whether a subscription is opened from now on; nil: it is.
func (f *files) fail(fault func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// change tells every subscription to uri that part changed.
func (f *files) change(uri, part string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, updated := range f.told[uri] {
		updated(part)
	}
}

// open returns how many subscriptions there are.
func (f *files) open() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, told := range f.told {
		n += len(told)
	}
	return n
}

func (f *files) reads(string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.hidden
}

func (f *files) hide() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hidden = true
}

var _ server.Desk = (*fakeDesk)(nil)
