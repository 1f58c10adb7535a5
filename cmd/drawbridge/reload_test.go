package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

func TestWhatNeedsARestartIsNamed(t *testing.T) {
	started := parse(t, minimal)
	same := parse(t, minimal)
	if got := restartNeeded(started, same); len(got) != 0 {
		t.Errorf("the same config: got %v, want nothing", got)
	}
	next := parse(t, `listen: 127.0.0.1:8081
operator: 127.0.0.1:9091
revisions: {legacy_sse: false}
audit: {sync: always}
limits: {max_requests: 500}
lists: {page_size: 7}
sessions: {idle: 1m}
log: {format: text, level: debug}
trusted_proxies: [10.0.0.0/8]
`+minimal)
	want := []string{
		"audit.sync", "limits", "listen", "lists.page_size", "log.format", "operator",
		"revisions.legacy_sse", "sessions",
	}
	if diff := cmp.Diff(want, restartNeeded(started, next)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAnotherNumberOfReplicasNeedsARestart: limiters take their shares once. Without the
// setting there is one.
func TestAnotherNumberOfReplicasNeedsARestart(t *testing.T) {
	for _, test := range []struct {
		before, after int
		want          []string
	}{{0, 2, []string{"replicas"}}, {3, 4, []string{"replicas"}}, {0, 1, nil}, {3, 3, nil}} {
		started, next := parse(t, minimal), parse(t, minimal)
		started.Replicas, next.Replicas = test.before, test.after
		if diff := cmp.Diff(test.want, restartNeeded(started, next)); diff != "" {
			t.Errorf("from %d to %d (-want +got):\n%s", test.before, test.after, diff)
		}
	}
}

// TestAChangeThatIsTakenBackNeedsNoRestart changes a setting that only a restart changes,
// to another value and back.
func TestAChangeThatIsTakenBackNeedsNoRestart(t *testing.T) {
	started, moved, again := parse(t, minimal), parse(t, "operator: 127.0.0.1:9091\n"+minimal),
		parse(t, "operator: 127.0.0.1:9092\n"+minimal)
	for _, test := range []struct {
		before, after *config.Config
		want          string
	}{
		{started, moved, "operator changed (needs a restart)"},
		{moved, again, "operator changed (needs a restart)"},
		{again, started, "operator changed back to what runs"},
		{moved, moved, "nothing changed"},
	} {
		if got := changes(started, test.before, test.after); got != test.want {
			t.Errorf("from %s to %s, while %s runs: got %q, want %q", test.before.Operator,
				test.after.Operator, started.Operator, got, test.want)
		}
	}
}

func TestIssuersThatChangeGetANewVerifier(t *testing.T) {
	issuer := config.Issuer{Issuer: auth.Issuer{
		Issuer: "a", Algorithms: []string{"ES256"}, Audiences: []string{"b"}, Tenant: "c",
		JWKSURL: "http://127.0.0.1:1/keys",
	}, PrivateAddresses: true}
	public := issuer
	public.PrivateAddresses = false
	for _, test := range []struct {
		name     string
		next     config.Issuer
		replaced bool
	}{
		{"the same", issuer, false},
		{"private addresses are no longer allowed", public, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			log := slog.New(slog.DiscardHandler)
			var told atomic.Int64
			v, err := newVerifiers([]config.Issuer{issuer}, keySetStorage{}, log, func() { told.Add(1) })
			if err != nil {
				t.Fatal(err)
			}
			before := v.current.Load()
			v.start(t.Context())
			next, err := v.verifier([]config.Issuer{test.next})
			if err != nil {
				t.Fatal(err)
			}
			v.replace(t.Context(), []config.Issuer{test.next}, next)
			v.wait()
			if got := v.current.Load() != before; got != test.replaced {
				t.Errorf("another verifier: got %v, want %v", got, test.replaced)
			}
			if test.replaced && told.Load() == 0 {
				t.Error("nobody was told of the change")
			}
		})
	}
}

func TestAReloadSaysWhatChanged(t *testing.T) {
	many := ""
	for i := range 30 {
		many += fmt.Sprintf("  box%d: {builtin: [calculate]}\n", i)
	}
	for _, test := range []struct{ name, after, want string }{
		{"a comment", "# more\n" + minimal, "nothing changed"},
		{"a server that is new", minimal + "  box: {builtin: [calculate]}\n", "server box added"},
		{"too many to name", minimal + many, "server box19 added; and 10 more"},
		{"a restart", "limits: {max_requests: 500}\n" + minimal, "limits changed (needs a restart)"},
		{"a setting", "allowed_hosts: [a.example]\n" + minimal, "allowed_hosts changed"},
		{
			"several keys", strings.Replace(minimal, "mcp-files}", "mcp-files, grace: 1s, timeout: 2s}", 1),
			"server files changed (grace, timeout)",
		},
	} {
		if got := changes(parse(t, minimal), parse(t, minimal), parse(t, test.after)); !strings.HasSuffix(got,
			test.want) {
			t.Errorf("%s: got %q, want at its end %q", test.name, got, test.want)
		}
	}
	if got := changes(parse(t, minimal+many), parse(t, minimal+many),
		parse(t, minimal)); !strings.HasPrefix(got, "server box0 removed; server box1 removed") {
		t.Errorf("got %q, want the servers that are gone in order", got)
	}
}

// TestNoSettingChangesUnseen changes each field of a config by itself: each change is
// named, but for those of fields that follow from a key that is named elsewhere, that say
// where something stands, or that change nothing but warnings.
func TestNoSettingChangesUnseen(t *testing.T) {
	unseen(t, serverChanges, "Name", "OneUser" /* of dev alone */)
	unseen(t, loginChanges, "Name")
	unseen(t, tenantChanges, "ID", "Position.File", "Position.Line", "ToolLines",
		"MayMatchNothing")
	unseen(t, issuerChanges, "Issuer.Issuer", "Discover", /* no jwks_url */
		"Issuer.Place",                                                                /* which follows from others */
		"Issuer.Recorded" /* audit.claims */, "Issuer.KeepClaims", "Issuer.KeepToken", /* auth of servers */
		"Issuer.SpeaksFor", "Issuer.Own" /* of the gateway itself alone */)
	unseen(t, func(before, after *config.Config) []string { return changeList(before, before, after) },
		"File", "Included", "Digest", "Warnings",
		"Sessions.KeysFile", "Records.KeyFile" /* their contents count */, "Audit.Interval", "Audit.Calls" /* no keys */)
}

// unseen looks for fields of T, and of the structs in it, whose change is not told,
// beside those that are no settings.
func unseen[T any](t *testing.T, changes func(before, after *T) []string, ids ...string) {
	t.Helper()
	kind := reflect.TypeFor[T]()
	for _, index := range leaves(kind) {
		var before, after T
		change(reflect.ValueOf(&after).Elem().FieldByIndex(index))
		var name []string
		for i := range index {
			name = append(name, kind.FieldByIndex(index[:i+1]).Name)
		}
		told := changes(&before, &after)
		if is := slices.Contains(ids, strings.Join(name, ".")); (len(told) == 0) != is {
			t.Errorf("a change of %v.%s is told as %q", kind, strings.Join(name, "."), told)
		}
	}
}

// leaves returns where the exported fields of a struct are that are data, also those in
// the structs in it, which are none themselves.
func leaves(kind reflect.Type) (all [][]int) {
	for i := range kind.NumField() {
		switch field := kind.Field(i); {
		case !field.IsExported():
		case field.Type.Kind() == reflect.Func || field.Type == reflect.TypeFor[signin.Provider](): // a part in this process
		case field.Type.Kind() == reflect.Struct:
			for _, inner := range leaves(field.Type) {
				all = append(all, append([]int{i}, inner...))
			}
		default:
			all = append(all, []int{i})
		}
	}
	return all
}

// change gives a field another value than its zero value.
func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("other")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint32:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.Zero(v.Type().Key()), reflect.Zero(v.Type().Elem()))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	default:
		panic(v.Type())
	}
}

// TestThousandsOfFilesAreLookedAtMoreRarely: a look at 5,000 files takes 20 ms, and four
// a second would be too much for a gateway that has nothing to do.
func TestThousandsOfFilesAreLookedAtMoreRarely(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: checkEvery, time.Millisecond: checkEvery, 20 * time.Millisecond: time.Second,
		200 * time.Millisecond: 10 * time.Second,
	} {
		if got := pause(took); got != want {
			t.Errorf("after a look of %v: got a pause of %v, want %v", took, got, want)
		}
	}
}

// TestKeysThatChangeNeedNoRestart compares configs with keys_file, without, and with
// other keys in it.
func TestKeysThatChangeNeedNoRestart(t *testing.T) {
	keys := func(fill ...byte) *config.Config {
		cfg := parse(t, minimal)
		for _, b := range fill {
			cfg.Sessions.Keys = append(cfg.Sessions.Keys, bytes.Repeat([]byte{b}, seal.KeySize))
			cfg.Sessions.KeysFile = fmt.Sprint(b)
		}
		return cfg
	}
	for _, test := range []struct {
		name          string
		before, after *config.Config
		want          string
	}{
		{"another key", keys(1), keys(2, 1), "keys_file changed"},
		{"the same keys", keys(1), keys(1), "nothing changed"},
		{"keys for the first time", keys(), keys(1), "sessions.keys_file changed (needs a restart)"},
		{"none any more", keys(1), keys(), "sessions.keys_file changed (needs a restart)"},
	} {
		if got := changes(test.before, test.before, test.after); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// TestNewSignInNeedsARestart shows that a reload which lets people sign in for the first
// time says that it needs a restart, and that clients are not sent to an authorization
// server that is not there.
func TestNewSignInNeedsARestart(t *testing.T) {
	t.Parallel()
	issuer := config.Issuer{}
	issuer.Issuer.Issuer = "https://login.example"
	started := &config.Config{Issuers: []config.Issuer{issuer}}
	next := &config.Config{Issuers: started.Issuers, Logins: []config.Login{{Name: "login"}}}
	if got := restartNeeded(started, next); !slices.Contains(got, "sign_in") {
		t.Errorf("a restart is needed for %q, want sign_in among them", got)
	}
	settings := settingsOf(withoutNewParts(next, started), "127.0.0.1:1")
	if settings.SignIn || len(settings.IssuersOf("")) != 1 || settings.IssuersOf("")[0] != "https://login.example" {
		t.Errorf("clients are sent to %q", settings.IssuersOf(""))
	}
	if got := restartNeeded(next, next); slices.Contains(got, "sign_in") {
		t.Errorf("a restart is needed for %q without a change", got)
	}
}

// TestNoCallBetweenTwoConfigs stops a reload between its two halves, when the new rules
// are in force and the servers are still to be changed: what the old rules denied at a
// server of the old config, and the new ones no more, cannot be called there.
func TestNoCallBetweenTwoConfigs(t *testing.T) {
	const text = `issuers:
  - {issuer: "https://login.example/", hmac_secret_file: secret, algorithms: [HS256], tenant: acme}
tenants:
  acme: {servers: [box], rules: [{allow: ["*"]}, {deny: ["%[1]s__calculate"]}]}
servers:
  box: {builtin: [calculate], prefix: %[1]s}
`
	started, next := parse(t, fmt.Sprintf(text, "old")), parse(t, fmt.Sprintf(text, "new"))
	p, err := build(started, memoryPlan{budget: 16 << 20}, slog.New(slog.DiscardHandler), new(slog.LevelVar),
		listeners{clients: address{}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.audit.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p.access = newAccessLog(p.gateway, p.log)
	p.issuers.start(ctx)
	p.fleet.apply(ctx, started.ReachedServers())
	defer p.fleet.close()
	alice := func() gateway.Caller {
		c, err := p.gateway.Resolve(auth.Principal{
			Issuer: "https://login.example/", Subject: "alice", TenantID: "acme",
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	call := func(tool string) error {
		params, err := mcp.ParseObject([]byte(`{"name":"` + tool + `","arguments":{"expression":"1+1"}}`))
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.gateway.Handle(ctx, alice(), &gateway.Request{
			Method: mcp.MethodToolsCall, Params: params,
			Notify: func(context.Context, mcp.Notification) error { return nil },
		})
		return err
	}
	if call("old__calculate") == nil {
		t.Fatal("before the reload: called what a rule denies")
	}
	before := alice().Tenant
	p.issuers.changing.Lock() // which comes between rules and servers
	replaced := make(chan error, 1)
	go func() { replaced <- p.replace(ctx, next) }()
	eventually(t, "the new rules are in force", func() bool { return alice().Tenant != before })
	if call("old__calculate") == nil {
		t.Error("during the reload: called what neither config allows")
	}
	p.issuers.changing.Unlock()
	if err := <-replaced; err != nil {
		t.Fatal(err)
	}
	if call("new__calculate") == nil {
		t.Error("after the reload: called what a rule denies")
	}
}
