package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/netfault"
)

const (
	hostName = "odd.chaos.test"
	hosts    = "127.0.0.1 localhost " + hostName + "\n"
)

func (s *scene) hostsFile() string { return filepath.Join(s.dir, "hosts") }

// nameLost lets the name of a server resolve no more.
func nameLost() *fault {
	return &fault{
		name:   "the name of a server does not resolve",
		done:   "it stands in a hosts file of the replica, which loses it while its connections end",
		ground: direct, root: true,
		holds: "its calls are refused as not made, all else goes on, and it is served again without a restart",
		before: func(ctx context.Context, s *scene) error {
			if err := os.WriteFile(s.hostsFile(), []byte(hosts), 0o600); err != nil {
				return err
			}
			return s.wrapped(ctx, nil, "unshare", "--mount", "/bin/sh", "-c",
				`mount --bind "$0" /etc/hosts && exec "$@"`, s.hostsFile())
		},
		make: func(ctx context.Context, s *scene) (effect, error) {
			proxy, err := netfault.Start(s.servers[crowd.Modern].Address)
			if err != nil {
				return effect{}, err
			}
			s.later(does(proxy.Close))
			_, port, _ := strings.Cut(proxy.Address, ":")
			token, err := s.withNursery(ctx,
				fmt.Sprintf("{url: \"http://%s:%s/mcp\", private_addresses: true}", hostName, port), s.victim)
			if err != nil {
				return effect{}, err
			}
			serves := s.servesOdd(s.victim, token, "touch")
			if err := until(ctx, serves); err != nil {
				return effect{}, err
			}
			if err := os.WriteFile(s.hostsFile(), []byte("127.0.0.1 localhost\n"), 0o600); err != nil {
				return effect{}, err
			}
			refused := func(ctx context.Context) error {
				proxy.Cut() // connections that are open would go on
				said, err := s.call(ctx, at(s.victim), token, nurseryServer+"__touch", nursery)
				return is("calls of it are refused", said.code == "DB-UPSTREAM-DOWN", said, err)
			}
			return effect{seen: all(refused, s.servesAll(s.victim)), heal: func(ctx context.Context) error {
				proxy.Heal()
				if err := os.WriteFile(s.hostsFile(), []byte(hosts), 0o600); err != nil {
					return err
				}
				return until(ctx, serves)
			}}, nil
		},
	}
}
