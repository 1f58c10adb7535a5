package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// configFaults returns what may happen to configs and keys.
func configFaults() []*fault {
	return []*fault{
		badConfig("a truncated config", "the file ends in the middle of a server", "is not closed",
			func(text string) string {
				whole, _, _ := strings.Cut(text, "private_addresses")
				return whole
			}),
		badConfig("a config with an unknown key", "`nonsense: 1` at its end", `unknown key "nonsense"`,
			func(text string) string { return text + "\nnonsense: 1\n" }),
		badConfig("a config that names a server twice", "a server stands twice in `servers`",
			`repeated key "twice"`, func(text string) string {
				return strings.Replace(text, "\nservers:\n",
					"\nservers:\n  twice: {builtin: [calculate]}\n  twice: {builtin: [calculate]}\n", 1)
			}),
		badConfig("a config with a weak secret", "an issuer whose secret is one word",
			"at least 32 are needed", func(text string) string {
				return strings.Replace(text, "\nissuers:\n",
					"\nissuers:\n  - {issuer: \"https://weak.test/\", hmac_secret_file: /proc/sys/kernel/ostype, algorithms: [HS256], tenant: red}\n", 1)
			}),
		badConfig("a config with a bad pattern",
			"a rule that allows `to[ol`; the config has no regular expressions", `"to[ol" is not a pattern`,
			func(text string) string {
				return strings.Replace(text, "\ntenants:\n",
					"\ntenants:\n  odd: {servers: [modern], rules: [{allow: [\"to[ol\"]}]}\n", 1)
			}),
		badConfig("a huge config", "17 MiB of comments", "larger than 16 MiB",
			func(text string) string { return text + strings.Repeat("# nothing but room\n", 17<<20/19) }),
		badConfig("an empty config", "a file without a byte", "the file is empty",
			func(string) string { return "" }),
		{
			name: "the config changes under load",
			done: "all replicas take four other configs, one after the other", ground: plain,
			holds: "each is taken, and sessions go on",
			make: func(ctx context.Context, s *scene) (effect, error) {
				session, err := s.open(ctx, at(s.victim))
				if err != nil {
					return effect{}, err
				}
				for i := range 4 {
					if err := s.rewriteAll(ctx, func(text string) string {
						return strings.Replace(text, "\nservers:\n",
							fmt.Sprintf("\nservers:\n  added-%d: {builtin: [calculate]}\n", i), 1)
					}); err != nil {
						return effect{}, err
					}
				}
				return effect{seen: s.goOn(), after: s.knows(session)}, nil
			},
		},
		keysRotated(),
	}
}

// rewrite changes the config of a replica, and has it changed back when the round is
// over.
func (s *scene) rewrite(ctx context.Context, r *world.Replica, change func(config string) string) error {
	before := ""
	err := r.Rewrite(ctx, func(text string) string {
		before = text
		return change(text)
	})
	s.later(func(ctx context.Context) error {
		ctx, stop := context.WithTimeout(ctx, patience)
		defer stop()
		return r.Rewrite(ctx, func(string) string { return before })
	})
	return err
}

var errTaken = errors.New("the config was taken")

// badConfig gives a replica a config that it must refuse, with words that say why.
func badConfig(name, done, why string, change func(text string) string) *fault {
	return &fault{
		name: name, done: done, ground: plain,
		holds: "it is refused, a metric says so and `/readyz` why (`" + why +
			"`), the one before stays in force, and a gateway that is started with it ends with exit code 2",
		make: func(ctx context.Context, s *scene) (effect, error) {
			before := ""
			err := s.victim.Rewrite(ctx, func(text string) string {
				before = text
				return change(text)
			})
			switch {
			case err == nil:
				err = errTaken
			case errors.Is(err, world.ErrRefused):
				err = nil
			}
			success := "drawbridge_config_last_reload_successful"
			says := s.judged(s.victim, "a config was refused because of "+why, func(v view) bool {
				return v.Ready && slices.ContainsFunc(v.Warnings, func(warning string) bool {
					return strings.Contains(warning, "config is refused") && strings.Contains(warning, why)
				})
			})
			return effect{
				seen: all(s.measures(s.victim, 0, success), says, s.startsNot(s.victim),
					s.servesAll(s.victim)),
				heal: func(
					ctx context.Context,
				) error {
					return s.victim.Rewrite(ctx, func(string) string { return before })
				},
				after: s.measures(s.victim, 1, success),
			}, err
		},
	}
}

// startsNot returns what is wrong when a gateway can be started with the config of a
// replica, or does not say that it was refused.
func (s *scene) startsNot(r *world.Replica) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		command := exec.CommandContext(ctx, s.program, "serve", "-config", filepath.Join(r.Dir, "drawbridge.yaml")) //nolint:gosec // our own program
		said, err := command.CombinedOutput()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			err = nil
		}
		return is("a gateway that is started with it ends with exit code 2",
			command.ProcessState.ExitCode() == 2, fmt.Sprintf("%v %.300s", command.ProcessState, said), err)
	}
}

// measures returns what is wrong when a metric of a replica does not have a value.
func (s *scene) measures(r *world.Replica, want float64, name string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		value, err := r.Metric(ctx, name)
		return is(fmt.Sprintf("%s of %s is %v", name, r.Name, want), value == want, value, err)
	}
}

// knows returns what is wrong when a session does not go on at every replica.
func (s *scene) knows(session string) func(ctx context.Context) error {
	return ofEach(s.fleet(), func(r *world.Replica) func(context.Context) error {
		return func(ctx context.Context) error {
			said, err := s.within(ctx, at(r), session, s.spared)
			return is("the session goes on at "+r.Name, said.ok(), said, err)
		}
	})
}

// keysRotated takes the keys that seal through the three steps of docs/keys.md, but for
// the wait before the last.
func keysRotated() *fault {
	return &fault{
		name: "the keys that seal are rotated",
		done: "a key is added, and then turned to the front, at one replica after the other", ground: plain,
		holds: "sessions from before each step go on at every replica",
		make: func(ctx context.Context, s *scene) (effect, error) {
			session, err := s.open(ctx, at(s.victim))
			if err != nil {
				return effect{}, err
			}
			text, err := os.ReadFile(keysOf(s.victim))
			if err != nil {
				return effect{}, err
			}
			old, fresh := string(text), newKey()
			for _, step := range []string{old + fresh, fresh + old} {
				if err := s.rekeyAll(ctx, s.fleet(), step); err != nil {
					return effect{}, err
				}
			}
			return effect{seen: s.goOn(), after: s.knows(session)}, nil
		},
	}
}
