package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// tasksListed returns the tasks that a user sees listed, as ids and statuses.
func tasksListed(t *testing.T, b *bench, user string) (all []string) {
	t.Helper()
	who := alice
	who.Subject = user
	c, err := b.Resolve(who)
	if err != nil {
		t.Fatal(err)
	}
	result, failure := b.handleAs(t, c, knowing(mcp.TasksAsked, mcp.MethodTasksList, `{}`))
	if failure != nil {
		t.Fatal(failure)
	}
	tasks, _ := result.Value("tasks").Elements()
	for _, raw := range tasks {
		one, _ := mcp.ObjectOf(raw)
		all = append(all, one.Text("taskId")+" "+one.Text("status"))
	}
	return all
}

// TestTasksAreListedToTheirOwnerAlone lists tasks as they go on, to their owner and to
// another user of the tenant, and after the owner may not use the tool any more.
func TestTasksAreListedToTheirOwnerAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newTasks(t, mcp.TasksAsked)
		b.config.Memory = share.New(1 << 20)
		b.tasks.memory = b.config.Memory
		first := made(t, b, l, mcp.TasksAsked)
		time.Sleep(2 * time.Second)
		l.uses = nil
		second := made(t, b, l, mcp.TasksAsked)
		l.uses = nil
		l.says(`{"taskId":"own-1","status":"completed","statusMessage":"a\u202Eb","ttl":60000,"x":1}`)
		// the second was made just now: nothing else can be known of it
		want := []string{first + " completed", second + " working"}
		if got := tasksListed(t, b, "alice"); !slices.Equal(got, want) || len(l.uses) != 1 {
			t.Errorf("listed %q after %d looks, want %q after one", got, len(l.uses), want)
		}
		if of := l.uses[0].Memory.User(); of != share.User(alice.User()) {
			t.Errorf("what the server says of a task is held for %v, want for the user that lists it", of)
		}
		if got := tasksListed(t, b, "bob"); len(got) > 0 {
			t.Errorf("another user sees %q", got)
		}
		time.Sleep(2 * time.Second)
		l.fails(mcp.Errorf(mcp.CodeInvalidParams, "no task own-1"))
		if got := tasksListed(t, b, "alice"); !slices.Equal(got, want[:1]) {
			t.Errorf("listed %q, want nothing that its server does not know", got)
		}
		tenant := everything()
		tenant.Rules = []Rule{{Allow: []string{"lib__other"}}}
		b.SetPolicy("", []TenantConfig{tenant})
		if got := tasksListed(t, b, "alice"); len(got) > 0 {
			t.Errorf("listed %q, want nothing whose tool is not allowed", got)
		}
		time.Sleep(time.Hour)
		tasksListed(t, b, "alice")
		if held := b.config.Memory.InUse(); held != 0 {
			t.Errorf("%d bytes are held for tasks whose time is over", held)
		}
	})
}

// TestTaskOfAFailingServerIsAskedForSeldom lists a task again and again whose server does
// not say what became of it.
func TestTaskOfAFailingServerIsAskedForSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newTasks(t, mcp.TasksAsked)
		b.config.Memory = share.New(1 << 20)
		b.tasks.memory = b.config.Memory
		id := made(t, b, l, mcp.TasksAsked)
		time.Sleep(2 * time.Second)
		l.fails(mcp.Errorf(mcp.CodeInternal, "not today"))
		l.uses = nil
		for range 25 {
			if got := tasksListed(t, b, "alice"); !slices.Equal(got, []string{id + " working"}) {
				t.Fatalf("listed %q, want what was last heard of the task", got)
			}
			time.Sleep(time.Second)
		}
		if n := len(l.uses); n < 3 || n > 6 {
			t.Errorf("in 25 seconds a failing server was asked %d times, want few", n)
		}
		l.says(`{"taskId":"own-1","status":"completed","ttl":60000}`)
		time.Sleep(10 * time.Second)
		if got := tasksListed(t, b, "alice"); !slices.Equal(got, []string{id + " completed"}) {
			t.Errorf("when it answers again: listed %q", got)
		}
	})
}

// TestTaskOfLongLifeIsListed lists a task whose server keeps it for longer than a time
// can say.
func TestTaskOfLongLifeIsListed(t *testing.T) {
	b, l := newTasks(t, mcp.TasksAsked)
	b.config.Memory = share.New(1 << 20)
	b.tasks.memory = b.config.Memory
	l.says(`{"resultType":"task","task":{"taskId":"own-1","status":"working","ttl":10000000000000}}`)
	if _, failure := b.handle(t, knowing(mcp.TasksAsked, mcp.MethodToolsCall,
		`{"name":"lib__ask","arguments":{"n":1},"task":{}}`)); failure != nil {
		t.Fatal(failure)
	}
	if got := tasksListed(t, b, "alice"); len(got) != 1 {
		t.Errorf("listed %q, want one task", got)
	}
}

// TestListOfTasksIsHeld lists a task of which its server says much: what the answer takes
// is its user's, and there is no answer for which the user has no memory.
func TestListOfTasksIsHeld(t *testing.T) {
	b, l := newTasks(t, mcp.TasksAsked)
	b.config.Memory = share.New(8 << 20)
	b.tasks.memory = b.config.Memory
	l.says(`{"resultType":"task","task":{"taskId":"own-1","status":"completed","statusMessage":"` +
		strings.Repeat("x", 256<<10) + `"}}`)
	if _, failure := b.handle(t, knowing(mcp.TasksAsked, mcp.MethodToolsCall,
		`{"name":"lib__ask","arguments":{"n":1},"task":{}}`)); failure != nil {
		t.Fatal(failure)
	}
	user := share.User(alice.User())
	r := knowing(mcp.TasksAsked, mcp.MethodTasksList, `{}`)
	r.Memory = b.config.Memory.Reserve(user)
	before := b.config.Memory.InUse()
	if _, failure := b.handle(t, r); failure != nil {
		t.Fatal(failure)
	}
	if held := b.config.Memory.InUse() - before; held < 512<<10 {
		t.Errorf("%d bytes are held for an answer of 256 KiB, want it twice", held)
	}
	r.Memory.Release()
	r.Memory = share.New(256 << 10).Reserve(user)
	if result, failure := b.handle(t, r); failure == nil {
		t.Errorf("listed %d bytes, want a refusal", result.Size())
	}
}

// TestWhatServersSayOfTasksIsJudged tells of a task what its server says by itself.
func TestWhatServersSayOfTasksIsJudged(t *testing.T) {
	b, l := newTasks(t, mcp.TasksAsked)
	var told []string
	l.says(askedTask)
	r := knowing(mcp.TasksAsked, mcp.MethodToolsCall, `{"name":"lib__ask","arguments":{"n":1},"task":{}}`)
	r.OnTaskStatus = func(id string, n mcp.Notification) {
		told = append(told, strings.ReplaceAll(n.Method+string(n.Params.JSON()), id, "ID"))
	}
	if _, failure := b.handle(t, r); failure != nil {
		t.Fatal(failure)
	}
	say := l.uses[0].OnTaskStatus
	say(object(`{"taskId":"own-1","status":"working","statusMessage":"a\u202Eb","ttl":1,"pollInterval":5,"result":{},"x":"own-1"}`))
	say(object(`{"taskId":"own-1","status":"done"}`))
	want := []string{mcp.NotifyTasksStatus +
		`{"taskId":"ID","status":"working","statusMessage":"ab","ttl":1,"pollInterval":5}`}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	tenant := everything()
	tenant.Rules = []Rule{{Allow: []string{"lib__other"}}}
	b.SetPolicy("", []TenantConfig{tenant})
	if say(object(`{"taskId":"own-1","status":"completed"}`)); len(told) != 1 {
		t.Errorf("told %q to one who may not use the tool any more", told[1:])
	}
}

// TestToFollowATaskCostsARequest follows a task again and again: one message of a client
// may name hundreds of tasks, and their servers are asked for each at once.
func TestToFollowATaskCostsARequest(t *testing.T) {
	tenant := everything()
	tenant.Limits.Requests = &ratelimit.Limit{Rate: 0.001, Burst: 8}
	b, l := newTasks(t, mcp.TasksGiven, tenant)
	id := made(t, b, l, mcp.TasksGiven)
	l.says(`{"taskId":"own-1","status":"completed","result":{"content":[]}}`)
	c, before, times := b.caller(t, alice), len(l.uses), 0
	for ; times < 9; times++ {
		_, err := b.FollowTask(t.Context(), c, knowing(mcp.TasksGiven, "", `{}`), id,
			func(mcp.Object) bool { return true })
		if refused, is := errors.AsType[*mcp.Error](err); is && refused.Code == mcp.CodeLimited {
			break
		}
	}
	if asked := len(l.uses) - before; times == 0 || times == 9 || asked != times {
		t.Errorf("followed %d times, and the server was asked %d times; want what 8 requests allow", times, asked)
	}
}

// TestTasksAreFollowedToTheirEnd follows a task whose states a client takes, or cannot
// take yet, until its end, its loss, or the end of the caller's right.
func TestTasksAreFollowedToTheirEnd(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, b *bench, l *library){
		"completed": func(_ *testing.T, _ *bench, l *library) {
			l.says(`{"taskId":"own-1","status":"completed","result":{"content":[]}}`)
		},
		"gone": func(_ *testing.T, _ *bench, l *library) {
			l.fails(mcp.Errorf(mcp.CodeInvalidParams, "no task own-1"))
		},
		"not allowed": func(t *testing.T, b *bench, _ *library) {
			t.Helper()
			tenant := everything()
			tenant.Rules = []Rule{{Allow: []string{"lib__other"}}}
			b.SetPolicy("", []TenantConfig{tenant})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, l := newTasks(t, mcp.TasksGiven)
				id := made(t, b, l, mcp.TasksGiven)
				l.says(`{"taskId":"own-1","status":"working","pollIntervalMs":1}`)
				var mu sync.Mutex // the gateway asks while the test goes on
				s := l.source("lib")
				s.Tools[0].Tasks = mcp.TasksGiven
				use := s.Tools[0].Call
				s.Tools[0].Call = func(ctx context.Context, c *registry.Call) (mcp.Object, error) {
					mu.Lock()
					defer mu.Unlock()
					return use(ctx, c)
				}
				b.replace(t, s)
				meanwhile := func(do func()) {
					mu.Lock()
					defer mu.Unlock()
					do()
				}
				var told []string
				takes := true
				c, err := b.Resolve(alice)
				if err != nil {
					t.Fatal(err)
				}
				follow := func(id string) (Subscription, error) {
					return b.FollowTask(context.Background(), c, knowing(mcp.TasksGiven, "", `{}`), id,
						func(state mcp.Object) bool {
							mu.Lock()
							defer mu.Unlock()
							if takes {
								told = append(told, state.Text("statusMessage")+state.Text("status"))
							}
							return takes
						})
				}
				if _, err := follow("forged"); err == nil {
					t.Error("a forged id is followed")
				}
				followed, err := follow(id)
				if err != nil || !followed.Allows(c) {
					t.Fatalf("%v, want that the owner may follow it", err)
				}
				pass(3500 * time.Millisecond)
				if got := len(l.uses); got != 5 { // the call, the first look, and one each second
					t.Errorf("the server was asked %d times", got)
				}
				meanwhile(func() {
					takes = false
					l.says(`{"taskId":"own-1","status":"working","statusMessage":"b\u202E"}`)
				})
				pass(time.Second)
				meanwhile(func() { takes = true })
				pass(5 * time.Second)
				meanwhile(func() { end(t, b, l) })
				pass(10 * time.Second)
				asked := len(l.uses)
				pass(time.Minute)
				want := []string{"working", "bworking"}
				if name == "completed" {
					want = append(want, "completed")
				}
				if !slices.Equal(told, want) || len(l.uses) != asked {
					t.Errorf("told %q, and asked %d times more; want %q", told, len(l.uses)-asked, want)
				}
				if held := b.subscriptions.InUse(); held != 0 {
					t.Errorf("%d places are held at the end", held)
				}
				followed.Stop()
			})
		})
	}
}

// pass lets time pass, and waits for what is done then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
