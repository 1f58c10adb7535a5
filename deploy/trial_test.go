package deploy_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// trial is what docs/replicas.md lets people type to try two replicas on one machine,
// with ports that are free here.
type trial struct {
	dir        string // the repository, as far as the commands see it: the program stands here
	begin, use string // the two blocks of commands
	listen     [2]string
	operator   [2]string
	balancer   string // the port of public_url
}

// trialOfThePage reads the commands. The ports in them become others, also those of a
// load balancer and of Redis.
func trialOfThePage(t *testing.T) trial {
	t.Helper()
	_, section, _ := strings.Cut(read(t, "../docs/replicas.md"), "\n## Try it on one machine\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(section, -1)
	if len(blocks) != 2 {
		t.Fatalf("the page has %d blocks of commands, want one that starts replicas and one that uses them",
			len(blocks))
	}
	var ports []string
	var pairs []string
	for _, port := range []string{"8081", "8082", "9091", "9092", "8080", "6390"} {
		free := strings.TrimPrefix(freeAddress(t), "127.0.0.1:")
		if !strings.Contains(blocks[0][1], port) {
			t.Fatalf("the commands that start replicas do not name port %s", port)
		}
		ports, pairs = append(ports, free), append(pairs, port, free)
	}
	others := strings.NewReplacer(pairs...)
	return trial{
		dir: filepath.Dir(drawbridge(t)), begin: others.Replace(blocks[0][1]),
		use:    others.Replace(blocks[1][1]),
		listen: [2]string{ports[0], ports[1]}, operator: [2]string{ports[2], ports[3]}, balancer: ports[4],
	}
}

// start runs the first block, whose processes end with the test, and waits until both
// replicas are ready.
func (r *trial) start(t *testing.T) {
	t.Helper()
	said, err := os.Create(filepath.Join(r.dir, "said")) // a file, since what the block starts keeps it open
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", r.begin)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.dir, said, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Run()
	t.Cleanup(func() {
		// all that the block started; an error: nothing is left
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if t.Failed() {
			for _, name := range []string{"said", "trial/redis.log", "trial/first.log", "trial/second.log"} {
				t.Logf("%s: %s", name, read(t, filepath.Join(r.dir, name)))
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range r.operator {
		eventually(t, "the replica is ready",
			func() error { return answers("http://127.0.0.1:"+port+"/readyz", http.StatusOK) })
	}
}

// calls runs the second block: each call in the session must be answered. At is where it
// goes, $port for the replicas in turn.
func (r *trial) calls(t *testing.T, at string) {
	t.Helper()
	const url = "http://127.0.0.1:$port/mcp"
	if !strings.Contains(r.use, url) {
		t.Fatalf("the commands do not name %s", url)
	}
	out, code := run(t.Context(), t, r.dir, "sh", "-c", strings.ReplaceAll(r.use, url, "http://127.0.0.1:"+at+
		"/mcp"))
	answer := func(
		id string,
	) string {
		return `\{"jsonrpc":"2\.0","id":` + id + `,"result":\{[^\n]*42[^\n]*\}\n`
	}
	if code != 0 || !regexp.MustCompile(answer(r.listen[0])+answer(r.listen[1])+"$").MatchString(out) {
		t.Errorf("exit %d, want two answers of 42 at port %s:\n%s", code, at, out)
	}
}

// recorded returns how many calls each replica has in its record.
func (r *trial) recorded(t *testing.T) (n [2]int) {
	t.Helper()
	for i, port := range r.listen {
		n[i] = strings.Count(read(t, filepath.Join(r.dir, "trial", "audit-"+port+".jsonl")),
			`"toolbox__calculate"`)
	}
	return n
}

// withoutTLS is what the head of each snippet says about a trial on one machine, and the
// changes that it means.
var withoutTLS = map[string]struct {
	snippet string
	file    string // in which p.config writes it
	says    []string
	changes map[string]string // by regular expression
}{
	"nginx": {
		"nginx.conf", "drawbridge.conf",
		[]string{`"listen 127.0.0.1:8080;" in place of "listen 443 ssl;"`, "no line that begins with ssl_"},
		map[string]string{`(?m)^( +listen \S+) ssl;$`: "$1;", `(?m)^ +ssl_.*\n`: ""},
	},
	"haproxy": {
		"haproxy.cfg", "haproxy.cfg",
		[]string{`"bind 127.0.0.1:8080" in place of the line with ssl`, "no user and group"},
		map[string]string{`(?m)^( +bind \S+) ssl .*$`: "$1"},
	},
}

// TestTwoReplicasOnOneMachine types what docs/replicas.md says: a session is served by
// both replicas, of which one leads it. Then it puts each load balancer before them,
// without TLS, as the head of its snippet says.
func TestTwoReplicasOnOneMachine(t *testing.T) {
	for _, name := range []string{"redis-server", "openssl", "curl"} {
		tool(t, name, name)
	}
	r := trialOfThePage(t)
	r.start(t)
	r.calls(t, "$port")
	if got := r.recorded(t); got != [2]int{2, 0} { // the first opened the session, and leads it
		t.Errorf("the replicas have recorded %v calls, want both at the primary of the session", got)
	}
	withEach(t, func(t *testing.T, p program) {
		path, dir, listen, how := tool(t, p.name, p.name), t.TempDir(), "127.0.0.1:"+r.balancer,
			withoutTLS[p.name]
		p.config(t, dir, listen, [2]balancedGateway{
			{"127.0.0.1:" + r.listen[0], "127.0.0.1:" + r.operator[0]}, {
				"127.0.0.1:" + r.listen[1],
				"127.0.0.1:" + r.operator[1],
			},
		})
		head, _, _ := strings.Cut(read(t, "loadbalancer/"+how.snippet), "\n\n")
		for _, words := range how.says {
			if !strings.Contains(head, words) {
				t.Errorf("the head does not say %q", words)
			}
		}
		text := read(t, filepath.Join(dir, how.file))
		for before, after := range how.changes {
			changed := regexp.MustCompile(before).ReplaceAllString(text, after)
			if changed == text {
				t.Errorf("the snippet has nothing like %q", before)
			}
			text = changed
		}
		write(t, filepath.Join(dir, how.file), text)
		if out, code := run(t.Context(), t, dir, path, in(dir, p.check)...); code != 0 ||
			strings.Contains(strings.ToLower(out), "[warn") {
			t.Fatalf("exit %d: %s", code, out)
		}
		background(t, path, in(dir, p.serve)...)
		waitFor(t, listen)
		before := r.recorded(t)
		r.calls(t, r.balancer)
		if after := r.recorded(t); after[0]+after[1] != before[0]+before[1]+2 {
			t.Errorf("the replicas have recorded %v calls, and %v before two more", after, before)
		}
	})
}
