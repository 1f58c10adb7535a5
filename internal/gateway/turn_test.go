package gateway

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// TestWhatTakesLongWaitsForItsTurn holds the only slot while a call is made. The call
// must stop before the part that takes long, and end well when the slot is free.
func TestWhatTakesLongWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	const dear = `{"type":"object","properties":{"text":{"pattern":"^[a-z]{900}"}}}`
	long := strings.Repeat("a", 4_000)
	for name, test := range map[string]struct {
		schemas           string
		arguments, answer string // answer is structured content
		waits, before     bool   // before the tool runs
	}{
		"a small call": {`"inputSchema":{"type":"object"}`, `{"n":1}`, `{"n":1}`, false, false},
		"a long text": {
			`"inputSchema":{"type":"object"}`, `{"text":"` + long + `"}`, `{"n":1}`,
			false, false,
		},
		"dear patterns": {
			`"inputSchema":` + dear, `{"text":"` + long + `"}`, `{"n":1}`, true,
			true,
		},
		"many values": {`"inputSchema":{"type":"object","properties":{"rows":{"items":{"not":{"type":"null"}}}}}`, `{"rows":[` + strings.Repeat("1,", 4000) + `1]}`, `{"n":1}`, true, true},
		"a large answer": {
			`"inputSchema":{"type":"object"}`, `{}`,
			`{"text":"` + strings.Repeat("a", 100_000) + `"}`, true, false,
		},
		"an answer hard to check": {
			`"inputSchema":{"type":"object"},"outputSchema":` + dear, `{}`,
			`{"text":"` + long + `"}`, true, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, TenantConfig{
					ID: "acme", Servers: []string{"heavy"},
					Rules: []Rule{{Allow: []string{"*"}}},
				})
				b.config.Turns = fairqueue.New(1)
				ran := false
				definition, err := mcp.ParseObject([]byte(`{"name":"do",` + test.schemas + `}`))
				if err != nil {
					t.Fatal(err)
				}
				refused := b.registry.Replace(registry.Source{
					Name: "heavy", Prefix: "heavy",
					Tools: []registry.Offer{{
						Definition: definition, Timeout: time.Hour,
						Call: func(context.Context, *registry.Call) (mcp.Object, error) {
							ran = true
							return texts("done").With("structuredContent", mcp.RawJSON(test.answer)), nil
						},
					}},
				})
				if len(refused) > 0 {
					t.Fatal(refused)
				}
				free, err := b.config.Turns.Enter(t.Context(), share.User{TenantID: "other"}, time.Hour)
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() {
					_, err := b.Handle(t.Context(), b.caller(t, alice), request("heavy__do", test.arguments))
					ended <- err
				}()
				synctest.Wait()
				if waits := b.config.Turns.Waiting()["acme"] == 1; waits != test.waits ||
					ran == (test.waits && test.before) {
					t.Errorf("waits: %v, the tool ran: %v, want that it waits: %v, before the tool runs: %v",
						waits, ran, test.waits, test.before)
				}
				free()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if b.config.Turns.Busy() != 0 || len(b.config.Turns.Waiting()) != 0 {
					t.Error("a slot is held, or waited for, after the call")
				}
			})
		})
	}
}

// TestACallThatWaitsToBeCheckedEndsWhenItIsRevoked holds the only slot for good. A call
// whose arguments wait for it has no context of its item yet, and ends all the same.
func TestACallThatWaitsToBeCheckedEndsWhenItIsRevoked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, TenantConfig{
			ID: "acme", Servers: []string{"heavy"},
			Rules: []Rule{{Allow: []string{"*"}}},
		})
		b.config.Turns = fairqueue.New(1)
		ran := false
		b.replace(t, registry.Source{Name: "heavy", Prefix: "heavy", Tools: []registry.Offer{{
			Definition: object(
				`{"name":"do","inputSchema":{"type":"object","properties":{"text":{"pattern":"^[a-z]{900}"}}}}`), Timeout: time.Hour,
			Call: func(context.Context, *registry.Call) (mcp.Object, error) {
				ran = true
				return texts("done"), nil
			},
		}}})
		free, err := b.config.Turns.Enter(t.Context(), share.User{TenantID: "other"}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		defer free()
		ended := make(chan error, 1)
		go func() {
			_, err := b.Handle(t.Context(), b.caller(t, alice),
				request("heavy__do", `{"text":"`+strings.Repeat("a", 4_000)+`"}`))
			ended <- err
		}()
		synctest.Wait()
		if got := b.config.Turns.Waiting()["acme"]; got != 1 {
			t.Fatalf("%d wait, want the call", got)
		}
		began := time.Now()
		b.Reauthorize(func(auth.Principal) (Caller, bool) { return Caller{}, false })
		if failure := asError(t, <-ended); failure.StableCode() != "DB-CANCELLED" ||
			time.Since(began) > time.Second {
			t.Errorf("got %+v after %v, want that the call was cancelled at once", failure, time.Since(began))
		}
		if ran || len(b.config.Turns.Waiting()) != 0 ||
			!strings.Contains(b.records(t), `"outcome":"cancelled","reason":"revoked"`) {
			t.Errorf("the tool ran: %v, waiting: %v, on record: %s", ran, b.config.Turns.Waiting(),
				b.records(t))
		}
	})
}

// TestDigestsOfLongArgumentsTakeTurns: arguments are digested for the record when the
// call has ended, by one of many such calls after the other. All of them did it at once,
// and everybody else waited at each step.
func TestDigestsOfLongArgumentsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, TenantConfig{
			ID: "acme", Servers: []string{"heavy"},
			Rules: []Rule{{Allow: []string{"*"}}},
		})
		b.config.Turns = fairqueue.New(1)
		var free func()
		definition, err := mcp.ParseObject([]byte(`{"name":"do","inputSchema":{"type":"object"}}`))
		if err != nil {
			t.Fatal(err)
		}
		refused := b.registry.Replace(registry.Source{
			Name: "heavy", Prefix: "heavy",
			Tools: []registry.Offer{{
				Definition: definition, Timeout: time.Hour,
				Call: func(ctx context.Context, _ *registry.Call) (mcp.Object, error) {
					var err error
					// after the arguments were checked
					free, err = b.config.Turns.Enter(ctx, share.User{TenantID: "other"}, time.Hour)
					return texts("done"), err
				},
			}},
		})
		if len(refused) > 0 {
			t.Fatal(refused)
		}
		leaving, leave := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := b.Handle(leaving, b.caller(t, alice),
				request("heavy__do", `{"text":"`+strings.Repeat("a", 200_000)+`"}`))
			ended <- err
		}()
		synctest.Wait()
		leave() // the record is made although the caller has left
		synctest.Wait()
		if b.config.Turns.Waiting()["acme"] != 1 || strings.Contains(b.records(t), "sha256:") {
			t.Errorf("%v wait, want the digest; the record is %q, want none yet", b.config.Turns.Waiting(),
				b.records(t))
		}
		free()
		if err := <-ended; err != nil || !strings.Contains(b.records(t), "sha256:") {
			t.Errorf("got %v, and on record %q", err, b.records(t))
		}
	})
}

// TestAnAnswerThatCannotBeCleanedInTimeIsATimeout: a call that was made is not refused
// because others work, and its client is not told to make it again.
func TestAnAnswerThatCannotBeCleanedInTimeIsATimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.config.Turns = fairqueue.New(1)
		free, err := b.config.Turns.Enter(t.Context(), share.User{TenantID: "other"}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		defer free()
		_, _, failure := b.run(t, "box__echo", `{"message":"`+strings.Repeat("a", 60_000)+`"}`)
		if failure == nil || failure.StableCode() != "DB-TIMEOUT" || failure.RetryAfter != 0 {
			t.Errorf("got %+v, want DB-TIMEOUT", failure)
		}
	})
}

// TestWhatServersSayDuringACallIsCleanedInTurn holds the only slot while a server sends a
// large log message or answers with a large error. Both are cleaned when it is free.
func TestWhatServersSayDuringACallIsCleanedInTurn(t *testing.T) {
	t.Parallel()
	said := func(size int) mcp.RawJSON { return mcp.String(strings.Repeat("a", size)) }
	for name, say := range map[string]func(context.Context, *registry.Call, mcp.RawJSON) error{
		"log message": func(ctx context.Context, c *registry.Call, data mcp.RawJSON) error {
			return c.Notify(ctx, mcp.Notification{Method: mcp.NotifyMessage, Params: mcp.NewObject(
				mcp.Member{Name: "level", Value: mcp.String("error")}, mcp.Member{Name: "data", Value: data},
			)})
		},
		"error": func(_ context.Context, _ *registry.Call, data mcp.RawJSON) error {
			return &mcp.Error{Code: -32000, Message: "no", Data: data}
		},
	} {
		for size, waits := range map[int]bool{100: false, 100_000: true} {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, TenantConfig{
					ID: "acme", Servers: []string{"heavy"},
					Rules: []Rule{{Allow: []string{"*"}}},
				})
				b.config.Turns = fairqueue.New(1)
				b.registry.Replace(registry.Source{Name: "heavy", Prefix: "heavy", Tools: []registry.Offer{{
					Definition: mcp.NewObject(mcp.Member{Name: "name", Value: mcp.String("do")},
						mcp.Member{Name: "inputSchema", Value: mcp.RawJSON(`{"type":"object"}`)}),
					Timeout: time.Hour,
					Call: func(ctx context.Context, c *registry.Call) (mcp.Object, error) {
						return texts("done"), say(ctx, c, said(size))
					},
				}}})
				free, err := b.config.Turns.Enter(t.Context(), share.User{TenantID: "other"}, time.Hour)
				if err != nil {
					t.Fatal(err)
				}
				told, ended := 0, make(chan struct{})
				go func() {
					defer close(ended)
					r := request("heavy__do", `{}`)
					r.LogLevel, _ = mcp.LevelOf("debug")
					r.Notify = func(_ context.Context, n mcp.Notification) error {
						told += n.Params.Size()
						return nil
					}
					if _, err := b.Handle(t.Context(), b.caller(t, alice), r); err != nil {
						told += len(err.(*mcp.Error).Data) //nolint:errorlint // Handle returns no other
					}
				}()
				synctest.Wait()
				if got := b.config.Turns.Waiting()["acme"] == 1; got != waits {
					t.Errorf("%s of %d bytes waits: %t, want %t", name, size, got, waits)
				}
				free()
				<-ended
				if told < size || b.config.Turns.Busy() != 0 {
					t.Errorf("%s of %d bytes: %d bytes were told, and %d slots are held", name, size, told,
						b.config.Turns.Busy())
				}
			})
		}
	}
}
