package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// TestMain lets the program of the tests be the parts that a run starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestPeersAreDescribedAndPinned(t *testing.T) {
	var names []string
	for _, p := range peers {
		if slices.Contains(names, p.name) {
			t.Errorf("%s is there twice", p.name)
		}
		names = append(names, p.name)
		if pinned := p.parcel.registry == fromNPM || p.parcel.registry == fromGo; pinned &&
			p.parcel.version == "" {
			t.Errorf("%s has no version", p.name)
		}
		if p.start == nil {
			continue
		}
		if p.settings == "" || p.lacks == "" {
			t.Errorf("%s: settings %q, lacks %q", p.name, p.settings, p.lacks)
		}
		how := p.start(place{
			binary: "/program", self: "/bench", dir: "/dir", addr: "127.0.0.1:2345",
			operator: "127.0.0.1:2346", upstream: "127.0.0.1:6789",
		})
		said := fmt.Sprint(how.argv, how.files)
		if how.path == "" || !strings.Contains(said, "2345") || !strings.Contains(said, "127.0.0.1") {
			t.Errorf("%s is not told where to listen: %s", p.name, said)
		}
		if !strings.Contains(said, "127.0.0.1:6789") && !strings.Contains(said, "peers-stdio") {
			t.Errorf("%s is not told which server stands behind it: %s", p.name, said)
		}
	}
}

// TestPeerThatFailsStopsNothing runs a peer that ends at once beside one that works, from
// the start to the page.
func TestPeerThatFailsStopsNothing(t *testing.T) {
	all := peers
	works := newContender(all[slices.IndexFunc(all, func(p peer) bool { return p.name == "ReverseProxy" })])
	works.installed = (&shelf{}).get(t.Context(), works.parcel)
	direct := newContender(peer{name: peerDirect, passes: true})
	broken := newContender(peer{name: "broken", start: func(place) launch {
		return launch{argv: []string{"/bin/sh", "-c", "echo no licence for today; exit 3"}, path: "/mcp"}
	}})
	absent := newContender(peer{name: "absent"})
	absent.failed = "could not be installed: 404 Not Found"
	contenders := []*contender{direct, broken, works, absent}

	lab := newPeersLab(t.Context(), page.Report{Log: io.Discard})
	defer lab.Close()
	p := peersRun{plan: &plan{took: 20 * time.Millisecond, rounds: 2}, streams: 20}
	lab.measure(t.Context(), contenders, p)
	if !strings.Contains(broken.failed, "no licence for today") {
		t.Errorf("the broken one failed for %q", broken.failed)
	}
	for _, c := range []*contender{direct, works} {
		for _, kind := range cells {
			s := c.work[kind]
			if s == nil {
				t.Fatalf("%s (%s) has no %s", c.name, c.failed, kind)
			}
			if c.failed != "" || s.failed != nil || len(s.rate) != 2 || s.rate[0] <= 0 {
				t.Errorf("%s (%s), %s: %+v, failed: %v", c.name, c.failed, kind, s.rounds, s.failed)
			}
		}
	}
	if m := &works.memory; m.failed != "" || len(m.steps) != 2 || m.steps[1].sessions != 20 ||
		m.streams != 20 || m.reached != 20 {
		t.Errorf("sessions and streams: %s", m)
	}
	text := p.section(page.Report{Path: filepath.Join(t.TempDir(), "benchmarks.md")}, contenders)
	for _, part := range []string{
		"## Beside other gateways", "charts/peers-calls.svg",
		"charts/peers-memory.svg", "| 20 of 20 |", "no licence for today", "404 Not Found",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the section has no %q:\n%s", part, text)
		}
	}
}

func TestStopEndsWhatThePeerStarted(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	script := "trap '' TERM; sleep 1000 & setsid sleep 1000 & while :; do wait; done"
	l := &lab{Lab: &world.Lab{Keeper: &world.Keeper{}}}
	defer l.Keeper.Close()
	p := l.startPeer(t.Context(), t.TempDir(), listener.Addr().String(),
		[]string{"/bin/sh", "-c", script})
	var tree []int
	err = world.Within(t.Context(), time.Minute, "the children run", func() bool {
		tree = world.Tree(p.PID())
		return len(tree) == 3
	})
	p.KillTree()
	if err != nil {
		t.Fatal(err)
	}
	if err := world.Within(t.Context(), time.Minute, "all have ended",
		func() bool { return !slices.ContainsFunc(tree, runsStill) }); err != nil {
		t.Error(err)
	}
}

// runsStill tells whether a process is there and has not ended, even if nobody has taken
// note of its end.
func runsStill(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}

func TestTreeCountsChildrenButNotTheServer(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if !runs(os.Getpid(), self) {
		t.Errorf("this process does not run %s", self)
	}
	if memory := treeMemory(os.Getpid()); memory < 1<<20 {
		t.Errorf("this process has %d bytes", memory)
	}
	treeCPU(os.Getpid())
	if size, err := own(os.Getpid()); err != nil || size <= 0 {
		t.Errorf("of its own it has %d bytes, %v", size, err)
	}
}

func TestInstallSaysWhyNot(t *testing.T) {
	tools := t.TempDir()
	t.Setenv("PATH", tools+":"+os.Getenv("PATH"))
	s := &shelf{dir: t.TempDir(), progress: io.Discard}
	ask := func(script string) (installed, error) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(tools, "npm"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
		return must.Got(func() installed {
			return s.get(t.Context(), parcel{
				registry: fromNPM, name: "@some/gateway", version: "1.2.3", program: "gateway",
			})
		})
	}
	if _, err := ask(
		"echo npm warn old; echo 'npm error 404 Not Found - GET it'; echo see the log; exit 1"); err == nil ||
		!strings.Contains(err.Error(), "404 Not Found") {
		t.Errorf("got %v", err)
	}
	i, err := ask("mkdir -p node_modules/.bin && echo '#!/bin/sh' > node_modules/.bin/gateway")
	if err != nil || i.version != "1.2.3" {
		t.Fatalf("got %+v, %v", i, err)
	}
	if again, err := ask("exit 1"); err != nil || again.binary != i.binary {
		t.Errorf("what is installed was installed again: %+v, %v", again, err)
	}
	if err := must.Try(func() {
		s.get(t.Context(), parcel{
			registry: fromDebian, name: "no-such-package-of-debian", program: "no-such-program",
		})
	}); err == nil || !strings.Contains(err.Error(), "no-such-program is not installed; .ci/setup") {
		t.Errorf("got %v", err)
	}
}

func TestPeersRefusesNamesItDoesNotKnow(t *testing.T) {
	p := peersRun{plan: &plan{time.Second, 1}, streams: 10, cache: t.TempDir(), only: "drawbridge,ngnix"}
	if err := must.Try(func() { p.check() }); err == nil || !strings.Contains(err.Error(), `"ngnix"`) ||
		!strings.Contains(err.Error(), "nginx") {
		t.Errorf("got %v", err)
	}
	p.only = "nginx,mcp-proxy (npm)"
	if err := must.Try(func() { p.check() }); err != nil || !slices.Equal(p.names(), []string{"nginx", "mcp-proxy (npm)"}) {
		t.Errorf("got %q, %v", p.names(), err)
	}
}

func TestCostOfASessionIsThatOfTheNewOnes(t *testing.T) {
	m := memoryFigures{
		start: 1000 << 10,
		steps: []memoryStep{
			{sessions: 100, without: 1200 << 10, withStreams: 2000 << 10},
			{sessions: 1000, without: 3800 << 10, withStreams: 31000 << 10},
		},
	}
	if got := []float64{m.session(0), m.session(1), m.stream(0), m.stream(1)}; !slices.Equal(got,
		[]float64{2, 2, 10, 30}) {
		t.Errorf("got %v", got)
	}
}

func TestRevisionsOfEras(t *testing.T) {
	if revisionOf(mcp.Modern) != mcp.LatestModern || revisionOf(mcp.Legacy) != mcp.LatestLegacy {
		t.Error("the eras have other revisions")
	}
}
