package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// process are the metrics of the gateway itself: its config, its records and its build.
type process struct {
	sealKeys       *prometheus.GaugeVec
	reloads        *prometheus.CounterVec
	reloadOK       prometheus.Gauge
	reloadTime     prometheus.Gauge
	configWarnings *prometheus.GaugeVec
	valuesRefused  prometheus.Counter
	auditDropped   prometheus.Counter
	localLimits    prometheus.Counter
	panics         prometheus.Counter
	buildInfo      *prometheus.GaugeVec

	later promauto.Factory // of what is registered when it can be counted
}

func newProcess(f promauto.Factory) *process {
	return &process{
		later: f,
		reloads: f.NewCounterVec(prometheus.CounterOpts{
			Name: "drawbridge_config_reloads_total", Help: "Attempts to load the config.",
		}, []string{"result"}),
		reloadOK: f.NewGauge(prometheus.GaugeOpts{
			Name: "drawbridge_config_last_reload_successful",
			Help: "Whether the last attempt to load the config succeeded.",
		}),
		reloadTime: f.NewGauge(prometheus.GaugeOpts{
			Name: "drawbridge_config_last_reload_success_timestamp_seconds",
			Help: "When the config in use was loaded.",
		}),
		configWarnings: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drawbridge_config_warnings",
			Help: "Warnings of the config in use, and of what its rules match now, that it does not " +
				"acknowledge.",
		}, []string{"code"}),
		sealKeys: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drawbridge_seal_keys",
			Help: "Keys of sessions.keys_file that are in force, by their ids: the one that seals, and " +
				"those that only open what they sealed before.",
		}, []string{"key", "use"}),
		localLimits: f.NewCounter(prometheus.CounterOpts{
			Name: "drawbridge_replica_local_limits_total",
			Help: "Times that this replica decided on a rate by its part of the limit, because Redis did " +
				"not.",
		}),
		auditDropped: f.NewCounter(prometheus.CounterOpts{
			Name: "drawbridge_audit_records_dropped_total",
			Help: "Audit records that are lost, those of calls refused for want of room included.",
		}),
		valuesRefused: f.NewCounter(prometheus.CounterOpts{
			Name: "drawbridge_replica_values_refused_total",
			Help: "Values of sessions in Redis that no replica wrote there, or that are sealed under a key " +
				"that this one lacks. They are not used.",
		}),
		panics: f.NewCounter(prometheus.CounterOpts{
			Name: "drawbridge_panics_total", Help: "Panics that were recovered from.",
		}),
		buildInfo: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drawbridge_build_info", Help: "The build that runs.",
		}, []string{"version", "revision", "goversion"}),
	}
}

// BuildInfo records the version that runs, the commit that it was built from, and the
// version of Go. Its gauge is always 1, as is usual in Prometheus for a metric whose
// labels are what it tells.
func (p *process) BuildInfo(version, revision string) {
	p.buildInfo.WithLabelValues(version, revision, runtime.Version()).Set(1)
}

// SealKeys records which keys are in force, by their ids: the one that seals, and those
// that only open. Those recorded before are forgotten.
func (p *process) SealKeys(seals string, open []string) {
	p.sealKeys.Reset()
	p.sealKeys.WithLabelValues(seals, "seal").Set(1)
	for _, id := range open {
		p.sealKeys.WithLabelValues(id, "open").Set(1)
	}
}

// Reloaded records an attempt to load the config. The first one, at the start, counts
// too.
func (p *process) Reloaded(ok bool) {
	p.reloadOK.Set(OneIf(ok))
	if !ok {
		p.reloads.WithLabelValues("refused").Inc()
		return
	}
	p.reloads.WithLabelValues("ok").Inc()
	p.reloadTime.SetToCurrentTime()
}

// ConfigWarnings records how many warnings with that code the config in use has and does
// not acknowledge. If there are none, the series is deleted.
func (p *process) ConfigWarnings(code string, n int) {
	setOrDelete(p.configWarnings, n, code)
}

// LimitedLocally counts one decision on a rate by this replica's part of the limit.
func (p *process) LimitedLocally() { p.localLimits.Inc() }

// ValueRefused counts a value in Redis that no replica wrote there.
func (p *process) ValueRefused() { p.valuesRefused.Inc() }

// AuditDropped counts n audit records that are lost.
func (p *process) AuditDropped(n int) { p.auditDropped.Add(float64(n)) }

// LogLost registers the function that tells how many log lines could not be written since
// the start; the number never falls. It is called whenever metrics are read.
func (p *process) LogLost(lost func() uint64) {
	p.later.NewCounterFunc(prometheus.CounterOpts{
		Name: "drawbridge_log_lines_dropped_total",
		Help: "Log lines that nobody took from standard error in time.",
	}, func() float64 { return float64(lost()) })
}

// Panicked counts a panic that was recovered from.
func (p *process) Panicked() { p.panics.Inc() }
