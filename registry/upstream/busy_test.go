package upstream

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// serialServer is the link of a child that does one thing at a time: while a call runs,
// it answers nothing else.
type serialServer struct {
	turn  chan struct{} // has a token while the child is idle
	ends  chan struct{} // closed when the call may end
	lists int           // how many were answered; guarded by turn
	apps  bool          // its tool has a view for hosts of apps, and none for others
}

// Exchange answers every request with all that any of them asks for.
func (o *serialServer) Exchange(ctx context.Context, out *wire.Request) (mcp.Object, error) {
	select {
	case <-o.turn:
	case <-ctx.Done():
		return mcp.Object{}, ctx.Err()
	}
	defer func() { o.turn <- struct{}{} }()
	switch {
	case out.Method == mcp.MethodListen:
		return mcp.Object{}, mcp.Errorf(mcp.CodeMethodNotFound, "there are no subscriptions")
	case out.Method == mcp.MethodToolsCall:
		select {
		case <-o.ends:
		case <-ctx.Done():
			return mcp.Object{}, ctx.Err()
		}
	case mcp.MethodOf(out.Method).Lists:
		o.lists++
	}
	view := ""
	if o.apps && bytes.Contains(out.Body, []byte(mcp.ExtensionApps)) {
		view = `,"_meta":{"ui":{"resourceUri":"ui://v"}}`
	}
	return mcp.ParseObject([]byte(`{"resultType":"complete","supportedVersions":["2026-07-28"],
		"protocolVersion":"2025-11-25","content":[],"prompts":[],"resources":[],"resourceTemplates":[],
		"tools":[{"name":"slow","inputSchema":{"type":"object"}` + view + `}],"capabilities":{"tools":{}}}`))
}

func (o *serialServer) Send(context.Context, []byte) error                  { return nil }
func (o *serialServer) Tell(context.Context, []byte)                        {}
func (o *serialServer) Begin(context.Context, string, string, []byte) error { return nil }
func (o *serialServer) Streams() bool                                       { return false }
func (o *serialServer) Close(context.Context, bool)                         {}

func (o *serialServer) Follow(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// supervised returns a child of a revision whose lists were read and are read again from
// now on, and what the loss of its connection brings.
func (o *serialServer) supervised(t *testing.T, version string) (*control, *lists, <-chan error) {
	t.Helper()
	u := New(Config{Name: "up", Shared: true, Logger: slog.New(slog.DiscardHandler)}, registry.New())
	c := &control{connection: newConnection(&u.cfg)}
	c.version = version
	if version == mcp.LatestModern {
		c.peer = newModern(c.connection, o, http.Header{})
	} else {
		l, err := openLegacy(t.Context(), c.connection, o, mcp.Object{}, &calls{strays: &strays{}})
		if err != nil {
			t.Fatal(err)
		}
		c.peer = l
	}
	l := newLists(c, u.pager(c))
	if err := u.list(t.Context(), l, everyTopic, 0); err != nil {
		t.Fatal(err)
	}
	lost := make(chan error, 1)
	go func() { lost <- u.follow(t.Context(), l) }()
	return c, l, lost
}

// TestChildIsNotLostWhileACallKeepsItBusy has a tool take longer than lists may wait for
// an answer, over and over: lists that are due, and lists that the child announces as it
// begins.
func TestChildIsNotLostWhileACallKeepsItBusy(t *testing.T) {
	t.Parallel()
	for _, version := range []string{mcp.LatestModern, mcp.LatestLegacy} {
		for name, kinds := range map[string][]registry.Kind{
			"due": nil, "announced": {registry.KindTool, registry.KindPrompt, registry.KindResource},
		} {
			t.Run(version+" "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					o := &serialServer{turn: make(chan struct{}, 1), ends: make(chan struct{})}
					o.turn <- struct{}{}
					c, l, lost := o.supervised(t, version)
					answered := make(chan error, 1)
					go func() {
						_, err := l.offers[0].Call(t.Context(), &registry.Call{Method: mcp.MethodToolsCall})
						answered <- err
					}()
					synctest.Wait()
					before := o.lists
					for _, kind := range kinds {
						c.announced(kind)
					}
					time.Sleep(time.Hour)
					synctest.Wait()
					select {
					case err := <-lost:
						t.Fatalf("lost in the middle of the call: %v", err)
					default:
					}
					close(o.ends)
					if err := <-answered; err != nil {
						t.Errorf("the call ended in %v", err)
					}
					time.Sleep(2 * freshMax)
					synctest.Wait()
					if o.lists <= before {
						t.Error("no list was read after the call")
					}
				})
			})
		}
	}
}

// TestChildThatAnswersNoCallIsLost has a child answer nothing any more: what excuses its
// lists, that it may be busy with a call, does not excuse as many calls as patience says.
func TestChildThatAnswersNoCallIsLost(t *testing.T) {
	t.Parallel()
	for _, version := range []string{mcp.LatestModern, mcp.LatestLegacy} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := &serialServer{turn: make(chan struct{}, 1)}
				o.turn <- struct{}{}
				c, l, lost := o.supervised(t, version)
				<-o.turn
				for range patience {
					c.changed()
					limited, cancel := context.WithTimeout(t.Context(), time.Minute)
					_, _ = l.offers[0].Call(limited, &registry.Call{Method: mcp.MethodToolsCall})
					cancel()
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				select {
				case <-lost:
				default:
					t.Errorf("it is not lost after %d calls without an answer", patience)
				}
			})
		})
	}
}

// TestListsOfABusyChildStayApart has a child leave its tools without an answer beside a
// call: what it lists to clients with fewer extensions goes on to be known.
func TestListsOfABusyChildStayApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &serialServer{turn: make(chan struct{}, 1), ends: make(chan struct{}), apps: true}
		o.turn <- struct{}{}
		c, l, lost := o.supervised(t, mcp.LatestModern)
		apart := func() bool { return len(l.variants) == 1 && len(l.variants[0].tools.items) == 1 }
		if !apart() {
			t.Fatal("the lists of clients without apps are not read")
		}
		answered := make(chan error, 1)
		go func() {
			_, err := l.offers[0].Call(t.Context(), &registry.Call{Method: mcp.MethodToolsCall})
			answered <- err
		}()
		synctest.Wait()
		c.changed()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if !apart() {
			t.Error("during the call the lists of clients without apps are forgotten")
		}
		close(o.ends)
		if err := <-answered; err != nil {
			t.Errorf("the call ended in %v", err)
		}
		select {
		case err := <-lost:
			t.Errorf("lost in the middle of the call: %v", err)
		default:
		}
	})
}
