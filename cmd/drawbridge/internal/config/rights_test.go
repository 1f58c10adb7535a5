package config

import (
	"os/user"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/registry/upstream/process"
)

// TestRightsAreRead reads users and limits in every form.
func TestRightsAreRead(t *testing.T) {
	someone, err := user.Lookup("nobody")
	if err != nil {
		t.Skip("this machine does not know nobody")
	}
	named, _ := numbers(someone.Uid, someone.Gid)
	for text, want := range map[string]process.Rights{
		"":                            {},
		", limits: {}":                {},
		", user: nobody":              {User: named},
		", user: " + someone.Uid:      {User: named},
		", user: '12:0'":              {User: process.User{UID: 12}},
		", limits: {memory: 512MiB}":  {Limits: process.Limits{Memory: 512 << 20}},
		", limits: {cpu_time: 1m30s}": {Limits: process.Limits{CPU: 90 * time.Second}},
		", user: '12:34', limits: {files: 16, processes: 64}": {
			User: process.User{UID: 12, GID: 34}, Limits: process.Limits{Files: 16, Processes: 64},
		},
	} {
		cfg := parse(t, minimal+"  tested: {command: x"+text+"}\n")
		if diff := cmp.Diff(want, cfg.Servers[1].Rights); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// TestRightsThatAreWithheldHereAreSaid shows who can give a server rights of its own.
func TestRightsThatAreWithheldHereAreSaid(t *testing.T) {
	t.Parallel()
	limited := process.Rights{Limits: process.Limits{Files: 100}}
	another := process.Rights{User: process.User{UID: 12}}
	for _, test := range []struct {
		rights process.Rights
		system string
		uid    int
		want   bool
	}{
		{process.Rights{}, "linux", 0, false},
		{process.Rights{}, "linux", 1000, false},
		{process.Rights{}, "darwin", 1000, false},
		{limited, "linux", 0, false},
		{limited, "linux", 1000, false},
		{limited, "darwin", 0, true},
		{another, "linux", 0, false},
		{another, "linux", 1000, true},
		{another, "darwin", 0, true},
	} {
		if got := withheld(test.rights, test.system, test.uid); (got != "") != test.want {
			t.Errorf("%+v on %s by %d: got %q, want something said: %t", test.rights, test.system, test.uid,
				got, test.want)
		}
	}
}
