//nolint:staticcheck // what 2026-07-28 deprecates is tried too
package interop_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// matrixJob is what a client of the matrix is to do, and where.
type matrixJob struct {
	address   string // host and port
	path      string // of Streamable HTTP
	ssePath   string
	token     string
	prefix    string // of names
	uriPrefix string
	notes     string
	marker    string
	features  []string
	hopeless  []string // of the features, those that a second is enough for
}

// patience is how long a feature may take.
func (e matrixJob) patience(feature string) time.Duration {
	if slices.Contains(e.hopeless, feature) {
		return time.Second
	}
	return patient
}

// goDriver does an errand with the Go SDK. It does what clients/matrix.mjs does.
type goDriver struct {
	matrixJob
	session *sdk.ClientSession
	seen    *seen
}

// seen is what a client was told besides answers.
type seen struct {
	mu        sync.Mutex // guards the fields below
	logs      []string
	changes   int
	updates   []string
	questions []string
	progress  []string
}

func (s *seen) add(note func(*seen)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	note(s)
}

func (s *seen) until(ctx context.Context, what string, check func(*seen) bool) error {
	return until(ctx, what, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return check(s)
	})
}

// until waits for a condition.
func until(ctx context.Context, what string, check func() bool) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !check() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("no %s in time", what)
		}
	}
	return nil
}

// run does the errand as a client of one revision and returns what was wrong by feature,
// "ok" for nothing.
func (e matrixJob) run(t *testing.T, revision string) map[string]string {
	t.Helper()
	s := &seen{}
	client := sdk.NewClient(&sdk.Implementation{Name: "matrix-go", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			s.add(func(s *seen) { s.questions = append(s.questions, r.Params.Message) })
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"name": "name-" + e.marker}},
				nil
		},
		CreateMessageHandler: func(_ context.Context, r *sdk.CreateMessageRequest) (*sdk.CreateMessageResult,
			error,
		) {
			text, _ := r.Params.Messages[0].Content.(*sdk.TextContent)
			return &sdk.CreateMessageResult{
				Role: "assistant", Model: "m",
				Content: &sdk.TextContent{Text: "model of " + text.Text},
			}, nil
		},
		LoggingMessageHandler: func(_ context.Context, r *sdk.LoggingMessageRequest) {
			s.add(func(s *seen) { s.logs = append(s.logs, fmt.Sprint(r.Params.Level, " ", r.Params.Data)) })
		},
		ToolListChangedHandler: func(context.Context,
			*sdk.ToolListChangedRequest,
		) {
			s.add(func(s *seen) { s.changes++ })
		},
		ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) {
			s.add(func(s *seen) { s.updates = append(s.updates, r.Params.URI) })
		},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			s.add(func(s *seen) {
				s.progress = append(s.progress, fmt.Sprint(r.Params.ProgressToken, r.Params.Progress,
					r.Params.Total, r.Params.Message))
			})
		},
	})
	client.AddRoots(&sdk.Root{URI: "file:///" + e.marker, Name: "r"})
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: "http://" +
		e.address + e.path, HTTPClient: withToken(e.token)},
		&sdk.ClientSessionOptions{ProtocolVersion: revision})
	verdicts := make(map[string]string)
	if err != nil {
		for _, feature := range e.features {
			verdicts[feature] = err.Error()
		}
		return verdicts
	}
	defer session.Close()
	d := &goDriver{e, session, s}
	for _, feature := range e.features {
		verdicts[feature] = "ok"
		ctx, cancel := context.WithTimeout(t.Context(), e.patience(feature))
		if err := d.features()[feature](ctx); err != nil {
			verdicts[feature] = err.Error()
		}
		cancel()
	}
	return verdicts
}

func (d *goDriver) features() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"list":         d.list,
		"call":         d.says("echo", "echo "+d.marker),
		"image":        d.image,
		"structured":   d.structured,
		"progress":     d.progress,
		"log":          d.log,
		"cancel":       d.cancel,
		"list_changed": d.listChanged,
		"read":         d.read,
		"subscribe":    d.subscribe,
		"prompt":       d.prompt,
		"completion":   d.completion,
		"elicitation":  d.elicitation,
		"sampling":     d.says("ask_model", "model of "+d.marker),
		"roots":        d.says("ask_roots", "file:///"+d.marker),
	}
}

func differs(what string, got, want any) error {
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("%s is %v, want %v", what, got, want)
	}
	return nil
}

func (d *goDriver) call(ctx context.Context, tool string,
	with ...func(*sdk.CallToolParams),
) (*sdk.CallToolResult, error) {
	params := &sdk.CallToolParams{Name: d.prefix + tool, Arguments: map[string]any{"marker": d.marker}}
	for _, change := range with {
		change(params)
	}
	return d.session.CallTool(ctx, params)
}

// says calls a tool that answers with one text.
func (d *goDriver) says(tool, want string) func(context.Context) error {
	return func(ctx context.Context) error {
		result, err := d.call(ctx, tool)
		if err != nil {
			return err
		}
		text, ok := result.Content[0].(*sdk.TextContent)
		if !ok {
			return fmt.Errorf("content is %T", result.Content[0])
		}
		return differs("text", text.Text, want)
	}
}

func (d *goDriver) tools(ctx context.Context) ([]string, error) {
	var names []string
	for tool, err := range d.session.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		names = append(names, tool.Name)
	}
	return names, nil
}

func (d *goDriver) list(ctx context.Context) error {
	names, err := d.tools(ctx)
	if err != nil {
		return err
	}
	for _, want := range []string{"echo", "picture", "measure", "climb", "ask_name"} {
		if !slices.Contains(names, d.prefix+want) {
			return fmt.Errorf("%s is not among %v", want, names)
		}
	}
	prompts, err := d.session.ListPrompts(ctx, nil)
	if err != nil {
		return err
	}
	resources, err := d.session.ListResources(ctx, nil)
	if err != nil {
		return err
	}
	templates, err := d.session.ListResourceTemplates(ctx, nil)
	if err != nil {
		return err
	}
	var all []string // others may be behind the same gateway
	for _, one := range prompts.Prompts {
		all = append(all, one.Name)
	}
	for _, one := range resources.Resources {
		all = append(all, one.URI)
	}
	for _, one := range templates.ResourceTemplates {
		all = append(all, one.URITemplate)
	}
	for _, want := range []string{d.prefix + "greet", d.uriPrefix + noteURI, d.uriPrefix + noteTemplate} {
		if !slices.Contains(all, want) {
			return fmt.Errorf("%s is not among %v", want, all)
		}
	}
	return nil
}

func (d *goDriver) image(ctx context.Context) error {
	result, err := d.call(ctx, "picture")
	if err != nil {
		return err
	}
	image, ok := result.Content[0].(*sdk.ImageContent)
	if !ok {
		return fmt.Errorf("content is %T", result.Content[0])
	}
	return differs("image", fmt.Sprint(image.MIMEType, len(image.Data)), "image/png70")
}

func (d *goDriver) structured(ctx context.Context) error {
	result, err := d.call(ctx, "measure")
	if err != nil {
		return err
	}
	return differs("structured content", result.StructuredContent,
		map[string]any{"celsius": 21.5, "marker": d.marker})
}

func (d *goDriver) progress(ctx context.Context) error {
	_, err := d.call(ctx, "climb", func(p *sdk.CallToolParams) { p.SetProgressToken("token-" + d.marker) })
	if err != nil {
		return err
	}
	if err := d.seen.until(ctx, "progress", func(s *seen) bool { return len(s.progress) >= 3 }); err != nil {
		return err
	}
	var want []string
	for i := range 3 {
		want = append(want, fmt.Sprint("token-"+d.marker, float64(i+1), float64(3), d.marker))
	}
	return differs("progress", d.seen.progress, want)
}

func (d *goDriver) log(ctx context.Context) error {
	if d.session.InitializeResult().ProtocolVersion != modernRevision {
		if err := d.session.SetLoggingLevel(ctx, &sdk.SetLoggingLevelParams{Level: "info"}); err != nil {
			return err
		}
	}
	if _, err := d.call(ctx, "speak", func(p *sdk.CallToolParams) {
		p.Meta = sdk.Meta{"io.modelcontextprotocol/logLevel": "info"}
	}); err != nil {
		return err
	}
	if err := d.seen.until(ctx, "log line", func(s *seen) bool { return len(s.logs) > 0 }); err != nil {
		return err
	}
	return differs("log", d.seen.logs, []string{"warning " + d.marker})
}

func (d *goDriver) cancel(ctx context.Context) error {
	there := func(name string) func() bool {
		return func() bool {
			_, err := os.Stat(filepath.Join(d.notes, name))
			return err == nil
		}
	}
	call, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		_, err := d.call(call, "hang")
		ended <- err
	}()
	if err := until(ctx, "hanging call", there("hanging-"+d.marker)); err != nil {
		return err
	}
	stop()
	if err := <-ended; err == nil {
		return errors.New("the call was answered")
	}
	return until(ctx, "cancellation", there("cancelled-"+d.marker))
}

func (d *goDriver) listChanged(ctx context.Context) error {
	if err := leave(d.notes, "grow-"+d.marker); err != nil {
		return err
	}
	if err := d.seen.until(ctx, "list_changed", func(s *seen) bool { return s.changes > 0 }); err != nil {
		return err
	}
	return until(ctx, "new tool", func() bool {
		names, err := d.tools(ctx)
		return err == nil && slices.Contains(names, d.prefix+"grown-"+d.marker)
	})
}

func (d *goDriver) read(ctx context.Context) error {
	for _, own := range []string{noteURI, "note://two/page"} {
		result, err := d.session.ReadResource(ctx, &sdk.ReadResourceParams{URI: d.uriPrefix + own})
		if err != nil {
			return err
		}
		if err := differs("contents", result.Contents[0].URI+" "+result.Contents[0].Text, d.uriPrefix+own+" "+
			noteText); err != nil {
			return err
		}
	}
	return nil
}

func (d *goDriver) subscribe(ctx context.Context) error {
	if err := d.session.Subscribe(ctx, &sdk.SubscribeParams{URI: d.uriPrefix + noteURI}); err != nil {
		return err
	}
	if err := leave(d.notes, "touch-"+d.marker); err != nil {
		return err
	}
	if err := d.seen.until(ctx, "resources/updated",
		func(s *seen) bool { return len(s.updates) > 0 }); err != nil {
		return err
	}
	return differs("uri", d.seen.updates[0], d.uriPrefix+noteURI)
}

func (d *goDriver) prompt(ctx context.Context) error {
	result, err := d.session.GetPrompt(ctx, &sdk.GetPromptParams{
		Name:      d.prefix + "greet",
		Arguments: map[string]string{"who": d.marker},
	})
	if err != nil {
		return err
	}
	text, _ := result.Messages[0].Content.(*sdk.TextContent)
	embedded, _ := result.Messages[1].Content.(*sdk.EmbeddedResource)
	return errors.Join(differs("text", text.Text, "Greet "+d.marker+"."),
		differs("uri", embedded.Resource.URI, d.uriPrefix+noteURI))
}

func (d *goDriver) completion(ctx context.Context) error {
	result, err := d.session.Complete(ctx, &sdk.CompleteParams{
		Ref:      &sdk.CompleteReference{Type: "ref/prompt", Name: d.prefix + "greet"},
		Argument: sdk.CompleteParamsArgument{Name: "who", Value: "an"},
	})
	if err != nil {
		return err
	}
	return differs("values", result.Completion.Values, []string{"ann", "anna"})
}

func (d *goDriver) elicitation(ctx context.Context) error {
	if err := d.says("ask_name", d.marker+" is accept name-"+d.marker)(ctx); err != nil {
		return err
	}
	return differs("questions", d.seen.questions, []string{"name of " + d.marker})
}
