package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// IssuerKeys is how it fares to fetch the keys of an issuer at one moment.
type IssuerKeys struct {
	Usable bool // whether there are keys to verify its tokens with
	// since when all fetches have failed; zero: the last one succeeded, or none has ended
	// yet
	Failing time.Time
}

// keys collects how it fares to fetch the keys of issuers. Like loads it keeps no numbers
// of its own.
type keys struct {
	usable, failing *prometheus.Desc
	read            atomic.Pointer[func() map[string]IssuerKeys] // by issuer; nil: nobody has set it yet
}

var _ prometheus.Collector = (*keys)(nil)

func newKeys() *keys {
	return &keys{
		usable: prometheus.NewDesc("drawbridge_issuer_keys_usable",
			"Whether there are keys for the tokens of an issuer whose keys are fetched. Without any, its "+
				"tokens are refused.",
			[]string{"issuer"}, nil),
		failing: prometheus.NewDesc("drawbridge_issuer_keys_failing_seconds",
			"For how long the keys of an issuer could not be fetched; 0 while they can. Keys that it has "+
				"removed count meanwhile, up to keys_stale.",
			[]string{"issuer"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (k *keys) Describe(out chan<- *prometheus.Desc) {
	out <- k.usable
	out <- k.failing
}

// Collect implements prometheus.Collector. Prometheus may call it from several goroutines
// at once.
func (k *keys) Collect(out chan<- prometheus.Metric) {
	read := k.read.Load()
	if read == nil {
		return
	}
	for issuer, state := range (*read)() {
		failing := time.Duration(0)
		if !state.Failing.IsZero() {
			failing = time.Since(state.Failing)
		}
		out <- prometheus.MustNewConstMetric(k.usable, prometheus.GaugeValue, oneIf(state.Usable), issuer)
		out <- prometheus.MustNewConstMetric(k.failing, prometheus.GaugeValue,
			failing.Truncate(time.Second).Seconds(), issuer)
	}
}

// IssuerKeys sets the function that returns how it fares to fetch the keys of each issuer
// of the config that has an address for them, by its name. It is called whenever metrics
// are read. Until it is set, there are no such series.
func (k *keys) IssuerKeys(read func() map[string]IssuerKeys) { k.read.Store(&read) }
