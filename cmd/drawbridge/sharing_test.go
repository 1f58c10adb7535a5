package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/lifetime/lifetimetest"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/server"
	"github.com/drawbridge-mcp/drawbridge/server/admin"
)

// startSharing starts a gateway that is one of two replicas, and the Redis that it
// shares.
func startSharing(t *testing.T) (*recorder, *redistest.Server) {
	t.Helper()
	redis := redistest.Start(t)
	return startReplica(t, func(listen, operator string) string {
		return fmt.Sprintf(keyed, listen, operator, "replicas: 2\nredis: {url: \"redis://"+redis.Address+
			"\", patience: 5s}\n")
	}), redis
}

// TestReplicasKnowWhoLeadsASessionForItsIdleTime opens a session without saying after
// which idle time it ends. A replica that takes it over must still find its entry then.
func TestReplicasKnowWhoLeadsASessionForItsIdleTime(t *testing.T) {
	t.Parallel()
	r, redis := startSharing(t)
	r.session(t)
	entry := strings.TrimSpace(redis.Exec(t, "KEYS", "*:session:*"))
	left, err := strconv.Atoi(strings.TrimSpace(redis.Exec(t, "TTL", entry)))
	if err != nil || time.Duration(left)*time.Second < server.DefaultSessionIdle {
		t.Errorf("the entry %q is kept for %d s, %v; want %v at least", entry, left, err, server.DefaultSessionIdle)
	}
}

// TestGatewayIsReadyOnceRedisWasReached shows what /readyz says before that, then, and
// when Redis is gone again.
func TestGatewayIsReadyOnceRedisWasReached(t *testing.T) {
	t.Parallel()
	server := redistest.StartOne(t)
	server.Stop()
	registry := prometheus.NewRegistry()
	cfg := &config.Config{
		Redis: config.Redis{Addresses: []string{server.Address}},
		Link:  config.Link{Listen: ":0"},
	}
	s, err := newSharing(cfg, seal.RandomRing(), slog.New(slog.DiscardHandler), metrics.New(registry))
	if err != nil {
		t.Fatal(err)
	}
	lifetimetest.Run(t, s.store.Run, s.group.Run)
	shows := func(state, problem, warning string) {
		t.Helper()
		redistest.Wait(t, func() error {
			var view admin.View
			s.judge(&view)
			problems, warnings := strings.Join(view.Problems, "\n"), strings.Join(view.Warnings, "\n")
			if view.Redis != state || (problem == "") != (problems == "") ||
				!strings.Contains(problems, problem) ||
				(warning == "") != (warnings == "") || !strings.Contains(warnings, warning) {
				return fmt.Errorf("got %+v", view)
			}
			return inState(registry, state)
		})
	}
	shows("starting", "connection refused", "")
	server.Begin(t)
	shows("up", "", "")
	server.Stop()
	shows("unreachable", "", "sessions go on at their primaries")
	server.Begin(t)
	shows("up", "", "")
}

// inState returns an error unless the metrics say that Redis is in that state, and in no
// other.
func inState(registry *prometheus.Registry, state string) error {
	families, err := registry.Gather()
	if err != nil {
		return err
	}
	for _, family := range families {
		if family.GetName() != "drawbridge_redis_state" {
			continue
		}
		for _, m := range family.GetMetric() {
			if is := m.GetLabel()[0].GetValue() == state; is != (m.GetGauge().GetValue() == 1) {
				return fmt.Errorf("the gauge of %s is %v", m.GetLabel()[0].GetValue(),
					m.GetGauge().GetValue())
			}
		}
		return nil
	}
	return errors.New("there is no gauge")
}

// TestOnlineTriesRedis has a config that names a Redis which is there, and one whose user
// it does not know.
func TestOnlineTriesRedis(t *testing.T) {
	t.Parallel()
	at := config.Redis{Addresses: []string{redistest.Start(t).Address}, Patience: redistest.Patience}
	unknown := at
	unknown.User, unknown.PasswordFile = "nobody", filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(unknown.PasswordFile, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, r := range map[string]config.Redis{
		"is up and takes writes": at,
		"check redis.user and the file that redis.password_file names": unknown,
	} {
		cfg := &config.Config{Redis: r}
		got := tryAll(t.Context(), cfg, triesBeside(cfg))
		if len(got) != 1 || got[0].Name != "redis" || got[0].OK != (r.User == "") ||
			!strings.Contains(got[0].Message, want) {
			t.Errorf("got %+v, want %q", got, want)
		}
	}
}

// TestAReplicaThatWasTakenForGoneAsksForItsSlotsAgain has the others forget a replica
// whose clock stood still with its machine, and give away the slot of a stream that it
// has.
func TestAReplicaThatWasTakenForGoneAsksForItsSlotsAgain(t *testing.T) {
	t.Parallel()
	r, redis := startSharing(t)
	r.stream(t, http.MethodGet, r.url, "", mcp.HeaderSessionID, r.session(t))
	holds := func() error {
		held := redis.Exec(t, "HVALS", "db2:{acme}:blocks:streams")
		if !strings.HasPrefix(held, "1 ") {
			return fmt.Errorf("the replica holds %q, want the slot of its stream", held)
		}
		return nil
	}
	redistest.Wait(t, holds) // what it does not need it has given back
	redis.Exec(t, "DEL", "db2:{acme}:blocks:streams", "db2:replicas")
	redistest.Wait(t, holds)
}
