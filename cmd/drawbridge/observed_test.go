package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/lifetime/lifetimetest"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/metrics"
)

// TestMetricsTellWhatReplicasDo has two replicas whose word is counted, and a Redis that
// loses everything.
func TestMetricsTellWhatReplicasDo(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	cfg := &config.Config{Redis: config.Redis{
		Addresses: []string{server.Address},
		Patience:  redistest.Patience,
	}, Link: config.Link{Listen: ":0"}}
	var registries [2]*prometheus.Registry
	var shared [2]sharing
	for i := range shared {
		registries[i] = prometheus.NewRegistry()
		s, err := newSharing(cfg, ring, slog.New(slog.DiscardHandler), metrics.New(registries[i]))
		if err != nil {
			t.Fatal(err)
		}
		s.others.Handle("news 1", func(context.Context, replica.ID, replica.Message) ([]byte,
			error,
		) {
			return nil, nil
		})
		lifetimetest.Run(t, s.store.Run, s.group.Run)
		shared[i] = s
	}
	a, b := shared[0], shared[1]
	redistest.Wait(t, func() error {
		if !a.others.IsThere(b.others.Self()) {
			return replica.ErrUnreached
		}
		_, err := a.others.Send(t.Context(), b.others.Self(), replica.Message{Kind: "news 1"})
		return err
	})
	if _, err := a.others.Send(t.Context(), replica.NewID(), replica.Message{Kind: "news 1"}); !errors.Is(err,
		replica.ErrUnreached) {
		t.Fatalf("got %v for a replica that is not there", err)
	}
	wait := func(registry *prometheus.Registry, name, labels string, is func(float64) bool) {
		t.Helper()
		redistest.Wait(t, func() error {
			got, err := series(registry, name, labels)
			if err == nil && !is(got) {
				err = fmt.Errorf("%s{%s} is %v", name, labels, got)
			}
			return err
		})
	}
	once := func(n float64) bool { return n == 1 }
	wait(registries[0], "drawbridge_replica_messages_sent_total", "news 1,sent", once)
	wait(registries[0], "drawbridge_replica_messages_sent_total", "news 1,gone",
		func(n float64) bool { return n >= 1 })
	// An answer that came too late has had the message sent again.
	wait(registries[1], "drawbridge_replica_messages_received_total", "news 1",
		func(n float64) bool { return n >= 1 })
	wait(registries[0], "drawbridge_redis_calls_total", "replicas,done",
		func(n float64) bool { return n > 2 })
	wait(registries[0], "drawbridge_redis_clock_offset_seconds", "",
		func(n float64) bool { return math.Abs(n) < 60 })
	wait(registries[0], "drawbridge_redis_losses_total", "", func(n float64) bool { return n == 0 })
	server.Exec(t, "FLUSHALL")
	wait(registries[0], "drawbridge_redis_losses_total", "", once)
	wait(registries[0], "drawbridge_replica_taken_for_gone_total", "", func(n float64) bool { return n >= 1 })
}

// series returns the value of a counter or gauge whose labels, in the order of their
// names, have these values.
func series(registry *prometheus.Registry, name, labels string) (float64, error) {
	families, err := registry.Gather()
	if err != nil {
		return 0, err
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			if strings.Join(values, ",") == labels {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue(), nil
			}
		}
	}
	return 0, fmt.Errorf("there is no %s{%s}", name, labels)
}
