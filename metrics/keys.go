package metrics

import (
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

// keys are the metrics of how it fares to fetch the keys of issuers.
type keys struct {
	// IssuerKeys returns how it fares to fetch the keys of each issuer of the config that
	// has an address for them, by its name.
	IssuerKeys *Asked[func() map[string]IssuerKeys]
}

func newKeys(r prometheus.Registerer) *keys {
	usable := prometheus.NewDesc("drawbridge_issuer_keys_usable",
		"Whether there are keys for the tokens of an issuer whose keys are fetched. Without any, its "+
			"tokens are refused.",
		[]string{"issuer"}, nil)
	failing := prometheus.NewDesc("drawbridge_issuer_keys_failing_seconds",
		"For how long the keys of an issuer could not be fetched; 0 while they can. Keys that it has "+
			"removed count meanwhile, up to keys_stale.",
		[]string{"issuer"}, nil)
	return &keys{ask(r, func(read func() map[string]IssuerKeys, set gaugeSetter) {
		for issuer, state := range read() {
			seconds := 0.0
			if !state.Failing.IsZero() {
				seconds = time.Since(state.Failing).Truncate(time.Second).Seconds()
			}
			set(usable, oneIf(state.Usable), issuer)
			set(failing, seconds, issuer)
		}
	}, usable, failing)}
}
