package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/database/postgrestest"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/netfault"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// loginFleet is three replicas at which people sign in. Each request goes to the next of
// them, so that no two of a sign-in reach the same one:
//
//	browser, client ──▶ nginx ──▶ replica 0, 1, 2 ──▶ faults ──▶ PostgreSQL
//	                                    └──▶ Redis
type loginFleet struct {
	directory *directory
	replicas  []*recorder
	origin    string // the public URL
	database  *postgrestest.Server
	faults    *netfault.Proxy // between the replicas and the database
}

const fleetDatabase = "fleet"

func startLoginFleet(t *testing.T) *loginFleet {
	t.Helper()
	f := &loginFleet{directory: newDirectory(t)}
	var err error
	f.database, err = postgrestest.Start()
	if errors.Is(err, exec.ErrNotFound) {
		f.database.Need(t)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.database.Stop)
	f.database.Create(t, fleetDatabase, "")
	f.database.Exec(t, "postgres", fmt.Sprintf("ALTER DATABASE %[1]s OWNER TO %[1]s", fleetDatabase))
	f.faults = redistest.NewProxy(t, f.database.Address)
	before := *f.database
	before.Address = f.faults.Address
	dsn := before.File(t, fleetDatabase, fleetDatabase)
	redis := redistest.Start(t)
	listen := freeAddress(t)
	f.origin = "http://" + listen
	for range 3 {
		f.replicas = append(f.replicas, startReplica(t, func(listen, operator string) string {
			return fmt.Sprintf(`listen: %s
operator: %s
public_url: %s
replicas: 3
redis: {url: %q, patience: 5s}
sessions: {keys_file: keys}
data: {postgres_file: %q}
access_keys: on
issuers:
  - issuer: %s
    private_addresses: true
    algorithms: [EdDSA]
    tenants: {claim: groups, map: {staff: acme}}
    sign_in: {name: corp, client_id: gateway, client_secret_file: secret, scopes: [openid]}
  - {issuer: local, hmac_secret_file: secret, algorithms: [HS256], tenant: acme}
tenants:
  acme: {servers: [toolbox], rules: [{allow: ["*"]}], limits: {requests: {rate: 100000, burst: 100000}}}
servers:
  toolbox: {builtin: [calculate]}
`, listen, operator, f.origin, redis.URL(), dsn, f.directory.URL)
		}))
	}
	startNginx(t, listen, f.replicas...)
	return f
}

// to returns a way that leads to one replica, whatever the address. Written is called
// when the replica has all of a request; nil: nobody is.
func (f *loginFleet) to(r *recorder, written func()) http.RoundTripper {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if "http://"+address == f.origin {
				address = r.address()
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}
	if written == nil {
		return transport
	}
	return roundTripFunc(func(request *http.Request) (*http.Response, error) {
		trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { written() }}
		return transport.RoundTrip(request.WithContext(httptrace.WithClientTrace(request.Context(), trace)))
	})
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (t roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// holds has the database keep what is committed from now on for good, and say so to
// nobody until the returned function is called: it waits for a copy of itself that is not
// there.
func (f *loginFleet) holds(t *testing.T) (release func()) {
	t.Helper()
	f.database.Exec(t, "postgres", "CREATE TABLE IF NOT EXISTS probe(n int)")
	f.database.Exec(t, "postgres", "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	f.database.Exec(t, "postgres", "SELECT pg_reload_conf()")
	var probe sync.WaitGroup
	var released atomic.Bool
	probe.Go(func() { // it takes a moment until the setting is in force
		for !released.Load() {
			f.database.Exec(t, "postgres", "INSERT INTO probe VALUES (1)")
		}
	})
	f.holding(t, 1)
	return func() {
		released.Store(true)
		f.database.Exec(t, "postgres", "ALTER SYSTEM RESET synchronous_standby_names")
		f.database.Exec(t, "postgres", "SELECT pg_reload_conf()")
		probe.Wait()
	}
}

// holding waits until the database holds so many commits back. It is the database that
// looks again and again: replicas give a commit up after seconds, in which a busy machine
// begins few processes.
func (f *loginFleet) holding(t *testing.T, commits int) {
	t.Helper()
	query := fmt.Sprintf("SELECT count(*) >= %d FROM pg_stat_activity WHERE wait_event = 'SyncRep'", commits)
	wait := fmt.Sprintf(`DO $$ BEGIN
	FOR i IN 1..1000 LOOP
		EXIT WHEN (%s);
		PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
	END LOOP;
END $$; `, query)
	eventually(t, "commits are held back",
		func() bool { return f.database.Exec(t, "postgres", wait+query) == "t" })
}

// signInRun is one person's way from nothing to tokens and back, with a client that knows
// nothing but the address.
type signInRun struct {
	*browserClient

	origin          string
	visits          string     // where the browser goes next
	form            url.Values // of the page that asks for consent
	client, code    string
	access, refresh string
	served          string // the replica that answered last; see startNginx
}

const (
	fleetRedirect = "http://127.0.0.1:1/cb"
	fleetVerifier = "a-verifier-of-pkce-that-is-long-enough-for-the-rfc"
)

// step is one request of a journey.
type step struct {
	name   string
	writes bool // a record is written before the answer
	do     func(*signInRun) error
	// what the answer is when it comes a second time because the first answer was lost;
	// zero: as the first time. Else the person begins again, at the step authorize.
	again int
}

// steps are all of them, in their order.
var steps = []step{
	{"register", false, (*signInRun).register, 0},
	{"authorize", false, (*signInRun).authorize, 0},
	// The provider's code was redeemed, and it takes it but once.
	{"callback", true, (*signInRun).callback, http.StatusServiceUnavailable},
	{"consent page", false, (*signInRun).consentPage, 0},
	{"consent", true, (*signInRun).consent, http.StatusConflict},
	// A code that comes twice ends what it has brought.
	{"token", true, (*signInRun).token, http.StatusBadRequest},
	{"call", false, (*signInRun).call, 0},
	{"refresh", true, (*signInRun).renew, 0},
	{"revoke", true, (*signInRun).revoke, 0},
}

// refusal is an answer with another status than a good one.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return fmt.Sprintf("status %d: %.300s", r.status, r.text) }

// send sends a request whose answer has that status, or is a refusal. What nginx answers
// for a replica that has died is an answer that was lost.
func (j *signInRun) send(want int, method, path, kind, body string, header ...string) (*http.Response, string, error) {
	answer, text, err := j.try(method, j.origin+path, kind, body, header...)
	if err == nil && answer.StatusCode == http.StatusBadGateway {
		err = errors.New("the replica died")
	}
	if err != nil {
		return nil, "", err
	}
	j.served = answer.Header.Get("Answered-By")
	if answer.StatusCode != want {
		return nil, "", &refusal{answer.StatusCode, text}
	}
	return answer, text, nil
}

// sendForm is send for a form whose answer is a document, which goes into the variables.
func (j *signInRun) sendForm(path string, form url.Values, into map[string]*string) error {
	_, text, err := j.send(http.StatusOK, "POST", path, formKind, form.Encode())
	if err != nil || into == nil {
		return err
	}
	var document map[string]any
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		return err
	}
	for name, variable := range into {
		*variable, _ = document[name].(string)
	}
	return nil
}

func (j *signInRun) register() error {
	_, text, err := j.send(http.StatusCreated, "POST", "/register", jsonKind, `{"redirect_uris":["`+fleetRedirect+`"]}`)
	if err != nil {
		return err
	}
	var made struct {
		ID string `json:"client_id"`
	}
	err = json.Unmarshal([]byte(text), &made)
	j.client = made.ID
	return err
}

// authorize goes on to the provider, where the person is known already.
func (j *signInRun) authorize() error {
	sum := sha256.Sum256([]byte(fleetVerifier))
	answer, _, err := j.send(http.StatusSeeOther, "GET", "/authorize?"+url.Values{
		"response_type": {"code"}, "client_id": {j.client}, "redirect_uri": {fleetRedirect}, "state": {"s"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}.Encode(), "", "")
	if err != nil {
		return err
	}
	back, _ := j.ask("GET", answer.Header.Get("Location"), "", "")
	j.visits = strings.TrimPrefix(back.Header.Get("Location"), j.origin)
	return nil
}

func (j *signInRun) callback() error {
	answer, _, err := j.send(http.StatusSeeOther, "GET", j.visits, "", "")
	if err == nil {
		j.visits = answer.Header.Get("Location")
	}
	return err
}

func (j *signInRun) consentPage() error {
	_, text, err := j.send(http.StatusOK, "GET", j.visits, "", "")
	j.form = url.Values{"decision": {"allow"}}
	for _, match := range consentField.FindAllStringSubmatch(text, -1) {
		j.form.Set(match[1], match[2])
	}
	return err
}

func (j *signInRun) consent() error {
	_, text, err := j.send(http.StatusOK, "POST", "/consent", formKind, j.form.Encode(), "Origin", "null")
	if err != nil {
		return err
	}
	match := movesTo.FindStringSubmatch(text)
	if match == nil {
		return errors.New("no way back to the client: " + text)
	}
	to, err := url.Parse(html.UnescapeString(match[1]))
	if err == nil {
		j.code = to.Query().Get("code")
	}
	return err
}

func (j *signInRun) token() error {
	return j.sendForm("/token", url.Values{
		"grant_type": {"authorization_code"}, "code": {j.code}, "client_id": {j.client},
		"redirect_uri": {fleetRedirect}, "code_verifier": {fleetVerifier},
	}, map[string]*string{"access_token": &j.access, "refresh_token": &j.refresh})
}

func (j *signInRun) call() error { return j.callWith(j.access) }

// callWith calls a tool in a request that needs no session.
func (j *signInRun) callWith(token string) error {
	_, _, err := j.send(http.StatusOK, "POST", "/mcp", jsonKind,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"toolbox__calculate","arguments":{"expression":"6*7"},`+
			askedMeta+`}}`, "Accept", aMessage, "Authorization", "Bearer "+token,
		mcp.HeaderProtocolVersion, "2026-07-28", mcp.HeaderMethod, "tools/call", mcp.HeaderName, "toolbox__calculate")
	return err
}

func (j *signInRun) renew() error { return j.renewInto(&j.refresh) }

func (j *signInRun) renewInto(next *string) error {
	return j.sendForm("/token", url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {j.refresh}, "client_id": {j.client},
	}, map[string]*string{"access_token": &j.access, "refresh_token": next})
}

func (j *signInRun) revoke() error {
	return j.sendForm("/revoke", url.Values{"token": {j.refresh}, "client_id": {j.client}}, nil)
}

func (f *loginFleet) journey(t *testing.T) *signInRun {
	return &signInRun{browserClient: newBrowserClient(t), origin: f.origin}
}

// goes takes a journey through steps, all of which are good.
func (j *signInRun) goes(some []step) *signInRun {
	j.t.Helper()
	for _, s := range some {
		if err := s.do(j); err != nil {
			j.t.Fatalf("%s: %v", s.name, err)
		}
	}
	return j
}

// signedIn returns a journey that has tokens.
func (f *loginFleet) signedIn(t *testing.T) *signInRun {
	t.Helper()
	return f.journey(t).goes(steps[:len(steps)-1])
}

// TestPeopleSignInAtThreeReplicas runs three replicas on PostgreSQL and Redis behind
// nginx.
func TestPeopleSignInAtThreeReplicas(t *testing.T) {
	t.Parallel()
	f := startLoginFleet(t)
	t.Run("each request at the next", f.eachAtTheNext)
	t.Run("one token in parallel", f.oneTokenInParallel)
	t.Run("what is open ends everywhere", f.endsEverywhere)
	t.Run("the database is away", f.databaseAway)
	t.Run("one is killed at each step", f.killedAtEachStep) // last: it ends the replicas
}

// eachAtTheNext makes two journeys in which no replica has two requests in a row. Nothing
// that opens a door is on record afterwards, and a token in an address opens none.
func (f *loginFleet) eachAtTheNext(t *testing.T) {
	var secrets []string
	for range 2 {
		j := f.journey(t)
		seen := map[string]bool{}
		for _, s := range steps {
			before := j.served
			j.goes([]step{s})
			if seen[j.served] = true; j.served == before {
				t.Errorf("%s was at %s, as the step before", s.name, before)
			}
		}
		if len(seen) != len(f.replicas) {
			t.Errorf("replicas %v answered, want all", seen)
		}
		if _, _, err := j.send(http.StatusUnauthorized, "POST", "/mcp?access_token="+j.access, jsonKind, aPing); err != nil {
			t.Errorf("a token in the address: %v", err)
		}
		secrets = append(secrets, j.access, j.refresh, j.code, j.form.Get("proof"), j.visits)
		secrets = slices.AppendSeq(secrets, maps.Values(j.cookies))
	}
	for _, r := range f.replicas {
		record, err := os.ReadFile(r.path("audit.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		_, metrics := fetched("http://" + r.operator + "/metrics")
		for _, secret := range secrets {
			if secret != "" && strings.Contains(r.log()+string(record)+metrics, secret) {
				t.Errorf("a record has %q", secret)
			}
		}
	}
}

// killedAtEachStep kills a replica by SIGKILL at each step of a journey. Where the step
// writes, the database has its first record for good by then, and the replica has not
// heard of it; else the replica has the request. The client or the person does the step
// once more at the others: either it is done then, or they are told in an answer and
// begin again. Nobody else loses anything.
func (f *loginFleet) killedAtEachStep(t *testing.T) {
	other := f.signedIn(t)
	for i, s := range steps {
		victim := f.replicas[i%len(f.replicas)]
		j := f.journey(t).goes(steps[:i])
		lost := f.killed(t, victim, j, s)
		if lost != nil {
			j.onceMore(i)
		}
		j.goes(steps[i+1:])
		// What others were told holds at the replicas that are left.
		for range len(f.replicas) - 1 {
			other.goes(steps[6:8])
		}
		t.Logf("killed at %s: the answer was lost: %v", s.name, lost)
		victim.begin(t)
		if err := j.renew(); err == nil {
			t.Errorf("%s: a refresh token that was revoked is taken", s.name)
		}
	}
	for range f.replicas {
		other.goes(steps[6:8])
	}
}

// killed has a journey take a step at a replica that is killed meanwhile. The error tells
// that there was no answer.
func (f *loginFleet) killed(t *testing.T, victim *recorder, j *signInRun, s step) error {
	t.Helper()
	written, release := make(chan struct{}), func() {}
	if s.writes {
		release = f.holds(t)
	}
	j.through = f.to(victim, sync.OnceFunc(func() { close(written) }))
	done := make(chan error, 1)
	go func() { done <- s.do(j) }()
	<-written
	if s.writes {
		f.holding(t, 2)
	}
	victim.process.Process.Kill()
	<-victim.ended
	err := <-done
	release()
	j.through = nil
	if refused, is := errors.AsType[*refusal](err); is {
		t.Fatalf("%s: %v", s.name, refused)
	}
	if err == nil && s.writes {
		t.Errorf("%s: answered before the database has", s.name)
	}
	return err
}

// onceMore repeats a step whose answer was lost.
func (j *signInRun) onceMore(i int) {
	j.t.Helper()
	err := steps[i].do(j)
	refused, is := errors.AsType[*refusal](err)
	switch {
	case err == nil: // nothing had been done before, or it is done again
	case is && steps[i].again == refused.status:
		j.goes(steps[1 : i+1])
	default:
		j.t.Fatalf("%s once more: %v", steps[i].name, err)
	}
}

// oneTokenInParallel refreshes with one token at all replicas at a time, again and again.
// All get the same token.
func (f *loginFleet) oneTokenInParallel(t *testing.T) {
	j := f.signedIn(t)
	spent := j.refresh
	for range 5 {
		answers := make([]string, 4*len(f.replicas))
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() {
				one := *j
				one.browserClient = &browserClient{t: t, through: f.to(f.replicas[i%len(f.replicas)], nil)}
				if err := one.renewInto(&answers[i]); err != nil {
					answers[i] = err.Error()
				}
			})
		}
		all.Wait()
		if all := slices.Compact(answers); len(all) != 1 || all[0] == j.refresh {
			t.Fatalf("got %q for %q", all, j.refresh)
		}
		j.refresh = answers[0]
	}
	// A token from five generations ago gets the present one.
	present := j.refresh
	if j.refresh = spent; j.renew() != nil || j.refresh != present {
		t.Errorf("a spent token: got %q, want %q", j.refresh, present)
	}
}

// endsEverywhere ends what people and machines have, in each way that there is, and
// measures how long what is open at the replicas outlives it.
func (f *loginFleet) endsEverywhere(t *testing.T) {
	config := f.replicas[0].path("drawbridge.yaml")
	operator := func(args ...string) string {
		said, err := exec.CommandContext(t.Context(), "drawbridge", append(args, "-config", config)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, said)
		}
		return string(said)
	}
	key := regexp.MustCompile(`dbk_[a-z2-7]{47}`).FindString(operator("keys", "create", "-tenant", "acme", "-subject", "ci"))
	id, _, _ := strings.Cut(strings.Split(operator("keys", "list"), "\n")[1], " ") // below the names of columns
	client := f.journey(t)
	for _, end := range []struct {
		name  string
		token string
		do    func()
	}{
		{"back-channel logout", "", func() {
			answer, text := client.ask("POST", f.origin+"/logout/corp", formKind,
				url.Values{"logout_token": {f.directory.logoutToken(t)}}.Encode())
			if answer.StatusCode != http.StatusOK {
				t.Fatalf("status %d: %s", answer.StatusCode, text)
			}
		}},
		{"sign-out", "", func() { operator("sign-out", f.directory.URL+"#ann") }},
		{"revoked at one replica", "", nil},
		{"access key", key, func() { operator("keys", "revoke", id) }},
	} {
		token, do := end.token, end.do
		if token == "" {
			j := f.signedIn(t)
			token = j.access
			if do == nil {
				do = func() { j.goes(steps[len(steps)-1:]) }
			}
		}
		var open []<-chan struct{}
		for _, r := range f.replicas {
			for _, ended := range r.streams(t, token) {
				open = append(open, ended)
			}
		}
		do()
		began := time.Now()
		for _, ended := range open {
			eventually(t, end.name+": a stream ends", func() bool { return isClosed(ended) })
		}
		took := time.Since(began)
		for _, r := range f.replicas {
			one := &signInRun{browserClient: &browserClient{t: t, through: f.to(r, nil)}, origin: f.origin}
			refused, is := errors.AsType[*refusal](one.callWith(token))
			if !is || refused.status != http.StatusUnauthorized {
				t.Errorf("%s: a call afterwards: %v, want 401", end.name, refused)
			}
		}
		t.Logf("%s: %d streams at three replicas had ended after %v", end.name, len(open), took.Round(time.Millisecond))
	}
}

// databaseAway takes PostgreSQL away in the middle.
func (f *loginFleet) databaseAway(t *testing.T) {
	j, held, valid := f.signedIn(t), f.signedIn(t), f.signedIn(t)
	asked := f.journey(t).goes(steps[:3])
	f.faults.Refuse()
	f.faults.Cut()
	var all sync.WaitGroup
	all.Go(func() {
		began := time.Now()
		refused, is := errors.AsType[*refusal](j.renew())
		if !is || refused.status != http.StatusServiceUnavailable ||
			!strings.Contains(refused.text, `"error":"temporarily_unavailable"`) || time.Since(began) < 2*time.Second {
			t.Errorf("a refresh after %v: %v, want to be held and then 503", time.Since(began), refused)
		}
	})
	all.Go(func() {
		refused, is := errors.AsType[*refusal](asked.consentPage())
		if !is || refused.status != http.StatusServiceUnavailable || !strings.Contains(refused.text, "<html") {
			t.Errorf("the page that asks for consent: %v, want 503 in words", refused)
		}
	})
	for range f.replicas {
		valid.goes(steps[6:7]) // a call
		for _, path := range []string{"/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/mcp", "/jwks"} {
			if _, _, err := f.journey(t).send(http.StatusOK, "GET", path, "", ""); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		if _, _, err := f.journey(t).send(http.StatusUnauthorized, "HEAD", "/mcp", "", ""); err != nil {
			t.Errorf("HEAD: %v", err)
		}
	}
	all.Wait()
	// One that comes while the database is away, and is answered when it is back.
	written := make(chan struct{})
	held.through = f.to(f.replicas[1], sync.OnceFunc(func() { close(written) }))
	all.Go(func() {
		if err := held.renew(); err != nil {
			t.Errorf("a refresh that was held: %v", err)
		}
	})
	<-written
	f.faults.Heal()
	all.Wait()
	for range f.replicas {
		valid.goes(steps[6:8])
		asked.goes(steps[3:4])
	}
	asked.goes(steps[4:])
}
