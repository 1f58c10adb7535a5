package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// configFaults returns what may happen to configs and keys.
func configFaults() []*fault {
	const calculator = "{builtin: [calculate]}"
	more := func(name string) step { return of(fleet, rewrites(below("servers", name+": "+calculator))) }
	return []*fault{
		badConfig("a truncated config", "the file ends in the middle of a server", "is not closed",
			func(text string) string {
				whole, _, _ := strings.Cut(text, "private_addresses")
				return whole
			}),
		badConfig("a config with an unknown key", "`nonsense: 1` at its end", `unknown key "nonsense"`,
			func(text string) string { return text + "\nnonsense: 1\n" }),
		badConfig("a config that names a server twice", "a server stands twice in `servers`",
			`repeated key "twice"`, below("servers", "twice: "+calculator+"\n  twice: "+calculator)),
		badConfig("a config with a weak secret", "an issuer whose secret is one word", "at least 32 are needed",
			below("issuers", `- {issuer: "https://weak.test/", hmac_secret_file: /proc/sys/kernel/ostype, `+
				`algorithms: [HS256], tenant: red}`)),
		badConfig("a config with a bad pattern",
			"a rule that allows `to[ol`; the config has no regular expressions", `"to[ol" is not a pattern`,
			below("tenants", `odd: {servers: [modern], rules: [{allow: ["to[ol"]}]}`)),
		badConfig("a huge config", "17 MiB of comments", "larger than 1 MiB",
			func(text string) string { return text + strings.Repeat("# nothing but room\n", 17<<20/19) }),
		badConfig("an empty config", "a file without a byte", "the file is empty",
			func(string) string { return "" }),
		{
			name: "the config changes under load",
			done: "all replicas take four other configs, one after the other", ground: plain,
			holds: "each is taken, and sessions go on",
			make:  all(of(victim, opens), more("added-0"), more("added-1"), more("added-2"), more("added-3")),
			seen:  goOn, after: known,
		},
		{
			// but for the wait before the last of the three steps of docs/keys.md
			name: "the keys that seal are rotated",
			done: "a key is added, and then turned to the front, at one replica after the other", ground: plain,
			holds: "sessions from before each step go on at every replica",
			make:  all(of(victim, opens), rotatesKeys), seen: goOn, after: known,
		},
	}
}

// badConfig gives a replica a config that it must refuse, with words that say why.
func badConfig(name, done, why string, change func(text string) string) *fault {
	const success = "drawbridge_config_last_reload_successful"
	return &fault{
		name: name, done: done, ground: plain,
		holds: "it is refused, a metric says so and `/readyz` why (`" + why +
			"`), the one before stays in force, and a gateway that is started with it ends with exit code 2",
		make: func(ctx context.Context, s *scene) {
			err := must.Try(func() { s.rewrite(ctx, s.victim, change, s.heals) })
			is("the config is refused", errors.Is(err, world.ErrRefused), err)
		},
		seen:  of(victim, measures(0, 0, success), warns("config is refused", why), startsNot, servesAll),
		after: of(victim, measures(1, 1, success)),
	}
}

// startsNot fails if a gateway can be started with the config of a
// replica, or does not say that it was refused.
func startsNot(ctx context.Context, s *scene, r *world.Replica) {
	command := exec.CommandContext(ctx, s.program, "serve", "-config", filepath.Join(r.Dir, "drawbridge.yaml")) //nolint:gosec // our own program
	said, err := command.CombinedOutput()
	_, exited := errors.AsType[*exec.ExitError](err)
	must.Be(err == nil || exited, "%w", err)
	is("a gateway that is started with it ends with exit code 2",
		command.ProcessState.ExitCode() == 2, fmt.Sprintf("%v %.300s", command.ProcessState, said))
}

// rotatesKeys takes the keys that seal through the first steps of a rotation.
func rotatesKeys(ctx context.Context, s *scene) {
	old, fresh := keysOf(s.victim), newKey()
	rekey(ctx, s.fleet(), old+fresh)
	rekey(ctx, s.fleet(), fresh+old)
}
