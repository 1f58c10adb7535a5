package cgroup_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/drawbridge-mcp/drawbridge/internal/cgroup"
)

const (
	none1  = "9223372036854771712\n" // no limit in version 1
	mount2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	mount1 = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n" +
		"32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n" +
		"35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
)

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, groups, mounts string
		files                map[string]string // by name below /sys/fs/cgroup
		want                 int64
	}{
		{
			"version 2, in a container", "0::/\n", mount2,
			map[string]string{"memory.max": "536870912\n"},
			512 << 20,
		},
		{"version 2, no limit", "0::/a\n", mount2, map[string]string{"a/memory.max": "max\n"}, 0},
		{
			"version 2, the group above is tighter", "0::/a/b/c\n", mount2,
			map[string]string{
				"a/memory.max": "134217728\n", "a/b/memory.max": "max\n",
				"a/b/c/memory.max": "536870912\n",
			},
			128 << 20,
		},
		{
			"version 2, the group itself is tighter", "0::/a/b\n", mount2,
			map[string]string{"a/memory.max": "536870912\n", "a/b/memory.max": "134217728\n"},
			128 << 20,
		},
		{
			"version 2, slowed down before the limit", "0::/a\n", mount2,
			map[string]string{"a/memory.max": "536870912\n", "a/memory.high": "402653184\n"},
			384 << 20,
		},
		{"version 2, slowed down alone", "0::/a\n", mount2, map[string]string{
			"a/memory.max":  "max\n",
			"a/memory.high": "134217728\n",
		}, 128 << 20},
		{
			"version 2, a group above is slowed down", "0::/a/b\n", mount2,
			map[string]string{
				"a/memory.high": "134217728\n", "a/memory.max": "max\n",
				"a/b/memory.max": "536870912\n", "a/b/memory.high": "max\n",
			},
			128 << 20,
		},
		{"version 2, a group beside", "0::/a\n", mount2, map[string]string{
			"a/memory.max": "max\n",
			"b/memory.max": "1\n",
		}, 0},
		{
			"version 1", "4:memory:/a/b\n1:cpu:/\n", mount1,
			map[string]string{
				"memory/a/b/memory.limit_in_bytes": "536870912\n",
				"memory/memory.limit_in_bytes":     none1,
			},
			512 << 20,
		},
		{
			"version 1, no limit", "4:memory:/a\n", mount1,
			map[string]string{"memory/a/memory.limit_in_bytes": none1},
			0,
		},
		{
			"version 1, the container's group under the host's name", "4:memory:/docker/f00\n",
			"35 31 0:32 /docker/f00 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
			map[string]string{"memory/memory.limit_in_bytes": "134217728\n"},
			128 << 20,
		},
		{
			"version 1, below the container's group", "4:memory:/docker/f00/x\n",
			"35 31 0:32 /docker/f00 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
			map[string]string{
				"memory/memory.limit_in_bytes":   "134217728\n",
				"memory/x/memory.limit_in_bytes": "1048576\n",
			},
			1 << 20,
		},
		{
			"version 1, another container's name", "4:memory:/docker/f00d\n",
			"35 31 0:32 /docker/f00 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
			map[string]string{"memory/memory.limit_in_bytes": "134217728\n"},
			128 << 20,
		},
		{
			"outside the mount", "0::/../../a\n", mount2,
			map[string]string{"memory.max": "134217728\n"},
			128 << 20,
		},
		{
			"both versions", "4:memory:/a\n0::/\n", mount1 +
				"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			map[string]string{"memory/a/memory.limit_in_bytes": "134217728\n"},
			128 << 20,
		},
		{
			"two controllers together", "4:cpu,memory:/a\n",
			"35 31 0:32 / /sys/fs/cgroup/m rw - cgroup cgroup rw,cpu,memory\n",
			map[string]string{"m/a/memory.limit_in_bytes": "134217728\n"},
			128 << 20,
		},
		{"no files of limits", "0::/a\n", mount2, nil, 0},
		{
			"nonsense", "x\n0:\n::::\n", "a b c - cgroup2\n - \n1 2 3 / - cgroup2 a b\n" + mount2,
			map[string]string{"memory.max": "-7\n"},
			0,
		},
		{"no control groups", "", "", nil, 0},
	} {
		root := t.TempDir()
		write(t, root, "proc/self/cgroup", test.groups)
		write(t, root, "proc/self/mountinfo", test.mounts)
		for name, text := range test.files {
			write(t, root, "sys/fs/cgroup/"+name, text)
		}
		if got := cgroup.MemoryLimit(os.DirFS(root)); got != test.want {
			t.Errorf("%s: got %d, want %d", test.name, got, test.want)
		}
	}
}

// write makes a file below root, and the directories above it.
func write(t *testing.T, root, name, text string) {
	t.Helper()
	name = filepath.Join(root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700),
		os.WriteFile(name, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func TestWithoutFilesThereIsNoLimit(t *testing.T) {
	t.Parallel()
	for _, root := range []fstest.MapFS{{}, {"proc/self/cgroup": {Data: []byte("0::/\n")}}} {
		if got := cgroup.MemoryLimit(root); got != 0 {
			t.Errorf("got %d, want none", got)
		}
	}
	// Whatever this machine has, it is read without a panic and is a sensible number.
	if got := cgroup.MemoryLimit(os.DirFS("/")); got < 0 || got > 0 && got < 1<<20 {
		t.Errorf("this machine: got %d", got)
	}
}
