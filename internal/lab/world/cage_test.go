package world

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
)

// layout makes files below a temporary directory, each with its text, and returns the
// directory.
func layout(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700),
			os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestWhereACageCanBe(t *testing.T) {
	const own, hands = "proc/self/cgroup", "cgroup.subtree_control"
	for name, test := range map[string]struct {
		files  map[string]string
		want   string // below sys/fs/cgroup; "" is nowhere
		second bool
	}{
		"version 1": {
			map[string]string{own: "4:memory:/a/b\n1:cpu:/\n0::/\n"},
			"memory/a/b", false,
		},
		"version 1, two together": {map[string]string{own: "0::/c\n3:cpu,memory:/\n"}, "memory", false},
		"version 2, the group above": {map[string]string{own: "0::/a.slice/b\n", "sys/fs/cgroup/a.slice/" +
			hands: "cpu memory\n", "sys/fs/cgroup/a.slice/b/" + hands: "\n"}, "a.slice", true},
		"version 2, the first group": {map[string]string{own: "0::/a/b\n", "sys/fs/cgroup/" +
			hands: "memory pids\n", "sys/fs/cgroup/a/" + hands: "pids\n"}, ".", true},
		"version 2, only others": {map[string]string{own: "0::/a\n", "sys/fs/cgroup/" +
			hands: "cpu pids\n"}, "", true},
		"version 2, a container": {
			map[string]string{own: "0::/\n", "sys/fs/cgroup/" + hands: "\n"},
			"",
			true,
		},
		"version 2, outside of sight": {map[string]string{
			own:            "0::/../../../x\n",
			"sys/" + hands: "memory\n",
		}, "", true},
		"neither":  {map[string]string{own: ""}, "", false},
		"no Linux": {nil, "", false},
	} {
		root := layout(t, test.files)
		var dir string
		var second bool
		err := must.Try(func() { dir, second = parentGroup(root) })
		switch want := filepath.Join(root, "sys/fs/cgroup", test.want); {
		case test.want == "" && err == nil:
			t.Errorf("%s: got %s, want none", name, dir)
		case test.want != "" && (err != nil || dir != want || second != test.second):
			t.Errorf("%s: got %s of version 2 %v (error %v), want %s", name, dir, second, err, want)
		}
	}
}

// TestFilesOfACage bounds cages that have the files which the kernel makes, and reads
// what it would say.
func TestFilesOfACage(t *testing.T) {
	for name, test := range map[string]struct {
		second        bool
		files         map[string]string // as the kernel makes them
		want          map[string]string // what they hold once the cage is bounded
		kills         int
		most, sockets int64
	}{
		"version 2": {
			true,
			map[string]string{
				"memory.max": "max\n", "memory.swap.max": "max\n",
				"memory.events": "low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\noom_group_kill 7\n",
				"memory.peak":   "4096\n",
			},
			map[string]string{"memory.max": "134217728", "memory.swap.max": "0"},
			1, 4096, 0,
		},
		"version 2, without swap, before 5.19": {
			true,
			map[string]string{"memory.max": "max\n", "memory.events": "oom 0\noom_kill 0\n"},
			map[string]string{"memory.max": "134217728"},
			0, 0, 0,
		},
		"version 1": {
			false,
			map[string]string{
				"memory.limit_in_bytes":          "9223372036854771712\n",
				"memory.memsw.limit_in_bytes":    "9223372036854771712\n",
				"memory.kmem.tcp.limit_in_bytes": "9223372036854771712\n",
				"memory.oom_control":             "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
				"memory.max_usage_in_bytes":      "8192\n", "memory.kmem.tcp.max_usage_in_bytes": "4096\n",
			},
			map[string]string{
				"memory.limit_in_bytes":       "134217728",
				"memory.memsw.limit_in_bytes": "134217728", "memory.kmem.tcp.limit_in_bytes": "134217728",
			},
			3, 8192, 4096,
		},
	} {
		c := &Cage{dir: layout(t, test.files), second: test.second}
		if err := must.Try(func() { c.bound(128 << 20) }); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, file := range slices.Sorted(maps.Keys(test.want)) {
			text, err := os.ReadFile(filepath.Join(c.dir, file))
			if string(text) != test.want[file] || err != nil {
				t.Errorf("%s: %s holds %q (error %v), want %s", name, file, text, err, test.want[file])
			}
		}
		if n, err := must.Got(func() int { return c.Kills() }); n != test.kills || err != nil {
			t.Errorf("%s: got %d ended (error %v), want %d", name, n, err, test.kills)
		}
		if most, sockets := c.Charged(); most != test.most || sockets != test.sockets {
			t.Errorf("%s: charged %d, and %d of sockets, want %d and %d", name, most, sockets, test.most,
				test.sockets)
		}
	}
	if err := must.Try(func() { (&Cage{dir: t.TempDir(), second: true}).bound(128 << 20) }); err == nil {
		t.Error("a cage without a file for its limit was bounded")
	}
}
