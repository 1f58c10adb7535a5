package deploy_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// step is a block of commands of docs/tutorial.md, and what the page says that they
// print: nothing where it shows nothing.
type step struct{ commands, prints string }

// stepsOfTheTutorial reads the blocks that people type, with ports that are free here.
func stepsOfTheTutorial(t *testing.T) (steps []step) {
	t.Helper()
	page := read(t, "../docs/tutorial.md")
	var ports []string
	for _, port := range []string{"127.0.0.1:8080", "127.0.0.1:9090", "127.0.0.1:9095"} {
		if !strings.Contains(page, port) {
			t.Fatalf("the tutorial does not name %s", port)
		}
		ports = append(ports, port, freeAddress(t))
	}
	page = strings.NewReplacer(ports...).Replace(page)
	for _, block := range regexp.MustCompile("(?ms)^```(sh|text)\n(.*?)^```$").FindAllStringSubmatch(page,
		-1) {
		if block[1] == "sh" {
			steps = append(steps, step{commands: block[2]})
		} else {
			steps[len(steps)-1].prints = block[2]
		}
	}
	return steps
}

// TestTutorialPrintsWhatItShows types docs/tutorial.md from its first block to its last,
// in one shell.
func TestTutorialPrintsWhatItShows(t *testing.T) {
	for name, debian := range map[string]string{
		"openssl": "openssl", "curl": "curl",
		"prometheus": "prometheus",
	} {
		tool(t, name, debian)
	}
	steps, dir := stepsOfTheTutorial(t), filepath.Dir(drawbridge(t))
	if len(steps) < 8 {
		t.Fatalf("the tutorial has %d blocks of commands", len(steps))
	}
	var script strings.Builder
	for i, s := range steps {
		fmt.Fprintf(&script, "exec > printed.%d\n%s", i, s.commands)
	}
	said, err := os.Create(filepath.Join(dir, "said")) // a file, since what the blocks start keeps it open
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	cmd := exec.CommandContext(t.Context(), "bash", "-e", "-c", script.String())
	cmd.Dir, cmd.Stderr = dir, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Run()
	// what the blocks started and did not end; an error: nothing is left
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if err != nil {
		t.Errorf("%v\n%s", err, read(t, said.Name()))
	}
	for i, s := range steps {
		printed, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("printed.%d", i)))
		if err != nil {
			t.Fatal(err)
		}
		if !shows(s.prints, string(printed)) {
			t.Errorf("block %d:\n%sprinted\n%swhere the page shows\n%s", i+1, s.commands, printed, s.prints)
		}
	}
}

// shows tells whether each line of a page fits the line that was printed in its place. An
// ellipsis stands for any text.
func shows(page, printed string) bool {
	lines := strings.Split(strings.TrimSuffix(page, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*")
	}
	return regexp.MustCompile(`(?m)^` + strings.Join(lines, `\n`) + `$`).MatchString(printed)
}

func TestTheCheckOfTheTutorialCanFail(t *testing.T) {
	for page, fits := range map[string]bool{"ok (…\n": true, "ok\n": false, "ok (1 tenant)\nmore\n": false} {
		if got := shows(page, "ok (1 tenant)\n"); got != fits {
			t.Errorf("shows(%q) = %v, want %v", page, got, fits)
		}
	}
}
