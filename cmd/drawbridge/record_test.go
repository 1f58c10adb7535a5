package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// The tests in this file run the program itself, with a record that cannot be written,
// before an API that counts what is done to it.

// keyOfTests is the key of the digests in records of tests.
var (
	keyOfTests     = bytes.Repeat([]byte{7}, 32)
	digestsOfTests = audit.NewKeys([][]byte{keyOfTests})
)

// recorder is the program with an API behind it.
type recorder struct {
	url, operator, token string
	directory            string
	writes               atomic.Int64 // that reached the API
	program              string       // path of another build; "": that of this one
	process              *exec.Cmd
	ended                chan struct{} // closed when the process has ended
}

// startRecorder starts the program with that audit section. wire may change the process
// before it starts.
func startRecorder(t *testing.T, audit string, wire func(*recorder)) *recorder {
	t.Helper()
	r := &recorder{directory: t.TempDir(), ended: make(chan struct{})}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r.writes.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, `{"id":1}`)
	}))
	t.Cleanup(api.Close)
	var ports [2]string
	for i := range ports {
		address, err := freeport.Address()
		if err != nil {
			t.Fatal(err)
		}
		ports[i] = address
	}
	document, err := os.ReadFile("internal/config/testdata/issues.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`listen: %s
operator: %s
audit: %s
issuers:
  - {issuer: "https://login.example/", hmac_secret_file: secret, algorithms: [HS256], tenant: acme}
tenants:
  acme:
    servers: [api]
    rules: [{allow: ["*"]}]
    limits: {requests: {rate: 100000, burst: 100000}, calls: {rate: 100000, burst: 100000}, user_calls: {rate: 100000, burst: 100000}, concurrency: 200}
servers:
  api: {openapi: api.yaml, base_url: "%s", include: [create], private_addresses: true}
`, ports[0], ports[1], strings.TrimSuffix(audit, "}")+", key_file: audit.key}", api.URL)
	for name, text := range map[string]string{
		"drawbridge.yaml": config,
		"audit.key":       base64.StdEncoding.EncodeToString(keyOfTests),
		"secret":          "f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99", "api.yaml": string(document),
	} {
		if err := os.WriteFile(filepath.Join(r.directory, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.url, r.operator = "http://"+ports[0]+"/mcp", ports[1]
	r.sign(t)
	r.start(t, wire)
	return r
}

// log returns what the process has logged so far.
func (r *recorder) log() string {
	text, _ := os.ReadFile(r.path("log")) // it is there since the start
	return string(text)
}

func (r *recorder) path(name string) string { return filepath.Join(r.directory, name) }

func (r *recorder) sign(t *testing.T) {
	t.Helper()
	cfg, err := config.Load(r.path("drawbridge.yaml"), testEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	r.token, _, err = signToken(cfg, tokenRequest{tenant: "acme", subject: "alice", ttl: time.Hour},
		time.Now())
	if err != nil {
		t.Fatal(err)
	}
}

func (r *recorder) start(t *testing.T, wire func(*recorder)) {
	t.Helper()
	r.process = exec.CommandContext(context.Background(), "drawbridge", "serve", "-config",
		r.path("drawbridge.yaml"), "-drain-delay", "0s")
	log, err := os.OpenFile(r.path("log"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() // the process has its own
	r.process.Stderr = log
	if r.program != "" {
		r.process.Path = r.program
	}
	if wire != nil {
		wire(r)
	}
	if err := r.process.Start(); err != nil {
		t.Fatal(err)
	}
	r.ended = make(chan struct{})
	go func(process *exec.Cmd, ended chan struct{}) { // ends with the process
		defer close(ended)
		process.Wait()
	}(r.process, r.ended)
	t.Cleanup(func() {
		r.process.Process.Kill() // unless the test ended it
		<-r.ended
		if t.Failed() {
			log := r.log()
			t.Logf("the end of the log:\n%s", log[max(0, len(log)-16<<10):])
		}
	})
	eventually(t, "the program listens", func() bool {
		return listens(t.Context(), r.address())
	})
}

// eventually waits until check holds.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(3 * patience)
	for !check() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not within %s: %s", 3*patience, what)
		}
	}
}

// ready waits until /readyz answers with a status and a text.
func (r *recorder) ready(t *testing.T, status int, text string) {
	t.Helper()
	eventually(t, fmt.Sprintf("/readyz is %d with %q", status, text), func() bool {
		got, body := fetched("http://" + r.operator + "/readyz")
		return got == status && strings.Contains(body, text)
	})
}

// stops ends the program with SIGTERM.
func (r *recorder) stops(t *testing.T) {
	t.Helper()
	if err := r.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.ended:
	case <-time.After(patience):
		r.process.Process.Signal(syscall.SIGQUIT) // the log says what it does instead
		<-r.ended
		t.Fatal("SIGTERM did not end it")
	}
}

// outcome is what a client learns of a call.
type outcome struct {
	status int
	retry  string // Retry-After
	kind   string // media type
	body   string
}

func (o outcome) String() string {
	return fmt.Sprintf("%d, Retry-After %q, %s: %s", o.status, o.retry, o.kind, o.body)
}

// write calls the tool as a client of 2026-07-28, with arguments of its own for each n.
func (r *recorder) write(n int, headers ...string) (o outcome, digest string) {
	arguments := fmt.Sprintf(`{"body":{"n":%d}}`, n)
	return r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"api__create","arguments":`+
		arguments+`,"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		append([]string{
			mcp.HeaderProtocolVersion, "2026-07-28", mcp.HeaderMethod, "tools/call",
			mcp.HeaderName, "api__create",
		}, headers...)...), digestsOfTests.Digest("acme", []byte(arguments))
}

// unpooled uses each connection once. The program closes one that was dialed and got no
// request for as long as a call waits for a record, so a client that keeps what it dialed
// in vain sends on it when it is being closed, and a POST is not sent again.
var unpooled = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// post posts a message. Headers are names and values in turn.
func (r *recorder) post(body string, headers ...string) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	request, err := r.request(ctx, http.MethodPost, r.url, body, headers)
	if err != nil {
		return outcome{body: err.Error()}
	}
	response, err := unpooled.Do(request)
	if err != nil {
		return outcome{body: err.Error()}
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return outcome{body: err.Error()}
	}
	session := response.Header.Get(mcp.HeaderSessionID)
	if session != "" {
		answer = []byte(session)
	}
	return outcome{
		response.StatusCode, response.Header.Get("Retry-After"),
		response.Header.Get("Content-Type"), string(answer),
	}
}

// writeIn calls the tool as a client of 2025-11-25, in a new session.
func (r *recorder) writeIn(t *testing.T, accept string) outcome {
	t.Helper()
	opened := r.post(
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	if opened.status != http.StatusOK {
		t.Fatalf("initialize: %v", opened)
	}
	headers := []string{
		mcp.HeaderSessionID, opened.body, mcp.HeaderProtocolVersion, "2025-11-25", "Accept",
		accept,
	}
	r.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, headers...)
	return r.post(
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"api__create","arguments":{"body":{"n":0}}}}`, headers...)
}

// records returns the whole lines of the audit file.
func (r *recorder) records(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(r.path("audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	return lines[:len(lines)-1]
}

// TestFullDiskMakesNoCalls shows that with a full disk no call is made, in either era,
// that clients, /readyz, healthcheck and the metric say so, and that it goes on by itself
// when there is room.
func TestFullDiskMakesNoCalls(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("files are extended ahead on Linux only")
	}
	t.Parallel()
	r := startRecorder(t, "{file: audit.jsonl}", func(r *recorder) { largestFile(t, r.path("audit.jsonl")) })
	r.ready(t, http.StatusServiceUnavailable, "audit records cannot be written, so calls are refused")
	for n := range 20 {
		if got, _ := r.write(n); got.status != http.StatusServiceUnavailable || got.retry == "" ||
			!strings.Contains(got.body, "DB-AUDIT-FULL") {
			t.Errorf("got %v, want 503 with Retry-After and DB-AUDIT-FULL", got)
		}
	}
	if got := r.writeIn(
		t, "application/json, text/event-stream"); got.status != http.StatusServiceUnavailable ||
		!strings.Contains(got.body, "it was not made") {
		t.Errorf("in a session: got %v, want 503 that says so", got)
	}
	if got := r.writes.Load(); got != 0 {
		t.Errorf("%d writes reached the server, want none", got)
	}
	out, err := exec.CommandContext(t.Context(), "drawbridge", "healthcheck", "-addr",
		r.operator).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "not healthy: audit records cannot be written") {
		t.Errorf("healthcheck: error %v, %s", err, out)
	}
	if _, text := fetched("http://" + r.operator + "/metrics"); !strings.Contains(text,
		"drawbridge_audit_writable 0\n") {
		t.Error("the metric does not say that the record is broken")
	}
	if err := os.Truncate(r.path("audit.jsonl"), 0); err != nil { // there is room again
		t.Fatal(err)
	}
	r.ready(t, http.StatusOK, "")
	got, digest := r.write(99)
	if got.status != http.StatusOK || r.writes.Load() != 1 {
		t.Errorf("after there is room again: %v, %d writes", got, r.writes.Load())
	}
	if lines := strings.Join(r.records(t), "\n"); !strings.Contains(lines, digest) {
		t.Errorf("the record lacks %s: %s", digest, lines)
	} else if !regexp.MustCompile(`"config":"[0-9a-f]{8}"`).MatchString(lines) {
		t.Errorf("the record does not name the config that decided: %s", lines)
	}
	eventually(t, "the log says that it broke and mended", func() bool {
		_, after, broke := strings.Cut(r.log(), `"audit records cannot be written"`)
		return broke && strings.Contains(after, `"audit records are written again"`)
	})
	r.stops(t)
}

// largestFile makes an empty file as large as its file system lets files be, so that
// nothing can be added to it.
func largestFile(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var size int64
	for step := int64(1) << 62; step > 0; step /= 2 {
		if os.Truncate(name, size+step) == nil {
			size += step
		}
	}
	if err := os.Truncate(name, size); err != nil {
		t.Fatal(err)
	}
}

// TestCallWhoseRecordFailsIsNotRepeated shows what a client learns of a call that was
// made when its record failed after all: nothing that a client or a load balancer
// repeats, in either era, as JSON or as an event stream.
func TestCallWhoseRecordFailsIsNotRepeated(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	t.Parallel()
	for name, call := range map[string]func(*recorder) outcome{
		"modern": func(r *recorder) outcome { got, _ := r.write(1); return got },
		"modern stream": func(r *recorder) outcome {
			got, _ := r.write(1, "Accept", "text/event-stream, application/json")
			return got
		},
		"legacy": func(
			r *recorder,
		) outcome {
			return r.writeIn(t, "application/json, text/event-stream")
		},
		"legacy stream": func(
			r *recorder,
		) outcome {
			return r.writeIn(t, "text/event-stream, application/json")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := startRecorder(t, "{file: /dev/full}", nil)
			got := call(r)
			if got.status != http.StatusOK || got.retry != "" || !strings.Contains(got.body, `"DB-AUDIT"`) ||
				!strings.Contains(got.body, "may have taken effect") ||
				strings.Contains(got.body, "retryAfterMs") {
				t.Errorf("got %v, want 200 without Retry-After, and DB-AUDIT: may have taken effect", got)
			}
			if got, _ := r.write(2); got.status != http.StatusServiceUnavailable || r.writes.Load() != 1 {
				t.Errorf("the next: got %v and %d writes, want 503 and the first alone", got, r.writes.Load())
			}
			r.stops(t)
		})
	}
}

// TestStandardOutputThatNobodyReads shows that calls beyond what a pipe and the program's
// memory hold are refused, or go on with drop, that SIGTERM ends the program all the
// same, and that it goes on by itself once somebody reads.
func TestStandardOutputThatNobodyReads(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"block", "drop"} {
		for _, reads := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, read later %v", mode, reads), func(t *testing.T) {
				t.Parallel()
				stdout := make(chan io.Reader, 1)
				r := startRecorder(t, `{file: "-", when_full: `+mode+`}`, func(r *recorder) {
					stdout <- unread(t, &r.process.Stdout)
					if mode == "drop" {
						unread(t, &r.process.Stderr)
					}
				})
				answers := r.writeMany(400)
				if mode == "drop" {
					r.ready(t, http.StatusOK, "calls go on, and records beyond 4096 are lost")
				} else {
					r.ready(t, http.StatusServiceUnavailable, "calls are refused")
				}
				made := r.writes.Load()
				t.Logf("%d writes reached the server; answers: %v", made, answers)
				if done, refused, unsure := answers["done"], answers["DB-AUDIT-FULL"],
					answers["DB-AUDIT"]; mode == "drop" && done != 400 ||
					mode == "block" && (done == 0 || refused == 0 || made != done+unsure) ||
					done+refused+unsure != 400 {
					t.Errorf("%d writes reached the server; answers: %v", made, answers)
				}
				if reads {
					r.readAgain(t, <-stdout, made)
				}
				r.stops(t)
			})
		}
	}
}

// unread makes a pipe that nobody reads of a stream of the process. It returns the end to
// read.
func unread(t *testing.T, stream *io.Writer) io.Reader {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close(); writer.Close() })
	*stream = writer
	return reader
}

// writeMany makes n calls, 20 at once, and counts how they were answered.
func (r *recorder) writeMany(n int) map[string]int64 {
	var mu sync.Mutex // guards answers
	answers := make(map[string]int64)
	var next atomic.Int64
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for i := next.Add(1); int(i) <= n; i = next.Add(1) {
				got, _ := r.write(int(i))
				answer := got.String()
				for _, word := range []string{"DB-AUDIT-FULL", "DB-AUDIT"} {
					if strings.Contains(got.body, `"`+word+`"`) {
						answer = word
					}
				}
				if strings.Contains(got.body, `"result"`) {
					answer = "done"
				}
				mu.Lock()
				answers[answer]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return answers
}

// readAgain reads the record, and expects that it has a line for each of n calls and goes
// on.
func (r *recorder) readAgain(t *testing.T, record io.Reader, n int64) {
	t.Helper()
	var lines atomic.Int64
	go func() { // ends with the test, which closes the pipe
		for scanner := bufio.NewScanner(record); scanner.Scan(); {
			if object, err := mcp.ParseObject(scanner.Bytes()); err != nil || object.Text("outcome") != "ok" {
				t.Errorf("line %s: %v", scanner.Text(), err)
				return
			}
			lines.Add(1)
		}
	}()
	eventually(t, "every call that was made is on record", func() bool { return lines.Load() == n })
	r.ready(t, http.StatusOK, "")
	eventually(t, "/readyz says no more", func() bool {
		_, body := fetched("http://" + r.operator + "/readyz")
		return !strings.Contains(body, "audit")
	})
	if got, _ := r.write(1000); !strings.Contains(got.body, `"result"`) {
		t.Errorf("once somebody reads: got %v", got)
	}
}

// TestKilledUnderLoadHasEveryAnsweredCallOnRecord kills the program in the middle of
// calls, joins what clients were answered with the record, and starts it again on a file
// that ends within a line.
func TestKilledUnderLoadHasEveryAnsweredCallOnRecord(t *testing.T) {
	t.Parallel()
	r := startRecorder(t, "{file: audit.jsonl}", nil)
	var mu sync.Mutex // guards answered
	answered := make(map[string]bool)
	var next atomic.Int64
	var all sync.WaitGroup
	enough := make(chan struct{})
	for range 8 {
		all.Go(func() {
			for {
				got, digest := r.write(int(next.Add(1)))
				if got.status == 0 {
					return // it is gone
				}
				if !strings.Contains(got.body, `"result"`) {
					t.Errorf("got %v, want a result", got)
					continue
				}
				mu.Lock()
				answered[digest] = true
				if len(answered) == 500 {
					close(enough)
				}
				mu.Unlock()
			}
		})
	}
	select {
	case <-enough:
	case <-time.After(3 * patience):
		t.Error("there are not 500 answers in time")
	}
	if err := r.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	<-r.ended
	lines := strings.Join(r.records(t), "\n")
	for digest := range answered {
		if !strings.Contains(lines, digest) {
			t.Errorf("the call with arguments %s was answered and is not on record", digest)
		}
	}
	t.Logf("%d calls answered, %d on record", len(answered), strings.Count(lines, "\n")+1)

	file, err := os.OpenFile(r.path("audit.jsonl"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(file, `{"time":"2026-`) // as a crash in the middle of a write leaves it
	file.Close()
	r.start(t, nil)
	_, digest := r.write(0)
	r.stops(t)
	for _, line := range r.records(t) {
		if strings.Contains(line, digest) {
			if _, err := mcp.ParseObject([]byte(line)); err != nil {
				t.Errorf("the first record after the crash is not on a line of its own: %s", line)
			}
			return
		}
	}
	t.Error("the first record after the crash is not there")
}

// request returns a request with the token, and with headers, each a name and then a
// value.
func (r *recorder) request(ctx context.Context, method, url, body string,
	headers []string,
) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+r.token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return request, nil
}
