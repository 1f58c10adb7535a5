// Package metricstest reads metrics in tests.
package metricstest

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/internal/fatal"
)

// Sum returns the sum of the series of a counter or gauge that have all of the labels,
// which are names, each followed by its value. It is zero if there is none.
func Sum(t testing.TB, from prometheus.Gatherer, name string, labels ...string) (sum float64) {
	t.Helper()
	for _, family := range fatal.Have(from.Gather())(t) {
		if family.GetName() != name {
			continue
		}
		for _, series := range family.GetMetric() {
			values := make(map[string]string)
			for _, label := range series.GetLabel() {
				values[label.GetName()] = label.GetValue()
			}
			if has(values, labels) {
				sum += series.GetCounter().GetValue() + series.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func has(values map[string]string, labels []string) bool {
	for i := 0; i < len(labels); i += 2 {
		if values[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}
