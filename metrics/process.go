package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// process makes the metrics of the gateway itself: its config, its records and its build.
func (m *Metrics) process(f promauto.Factory) {
	m.reloads = f.NewCounterVec(prometheus.CounterOpts{
		Name: "drawbridge_config_reloads_total", Help: "Attempts to load the config.",
	}, []string{"result"})
	m.reloadOK = f.NewGauge(prometheus.GaugeOpts{
		Name: "drawbridge_config_last_reload_successful",
		Help: "Whether the last attempt to load the config succeeded.",
	})
	m.reloadTime = f.NewGauge(prometheus.GaugeOpts{
		Name: "drawbridge_config_last_reload_success_timestamp_seconds",
		Help: "When the config in use was loaded.",
	})
	m.configWarnings = f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drawbridge_config_warnings",
		Help: "Warnings of the config in use, and of what its rules match now, that it does not acknowledge.",
	}, []string{"code"})
	m.sealKeys = f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drawbridge_seal_keys",
		Help: "Keys of sessions.keys_file that are in force, by their ids: the one that seals, and those that only open what they sealed before.",
	}, []string{"key", "use"})
	m.localLimits = f.NewCounter(prometheus.CounterOpts{
		Name: "drawbridge_replica_local_limits_total",
		Help: "Times that this replica decided on a rate by its part of the limit, because Redis did not.",
	})
	m.auditDropped = f.NewCounter(prometheus.CounterOpts{
		Name: "drawbridge_audit_records_dropped_total",
		Help: "Audit records that are lost, those of calls refused for want of room included.",
	})
	m.valuesRefused = f.NewCounter(prometheus.CounterOpts{
		Name: "drawbridge_replica_values_refused_total",
		Help: "Values of sessions in Redis that no replica wrote there, or that are sealed under a key that this one lacks. They are not used.",
	})
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "drawbridge_audit_writable",
		Help: "Whether audit records can be written. While they cannot, calls are refused; with when_full=drop they go on, and records that memory does not hold are lost.",
	}, func() float64 {
		check := m.auditWritable.Load()
		return oneIf(check == nil || (*check)())
	})
	f.NewCounterFunc(prometheus.CounterOpts{
		Name: "drawbridge_log_lines_dropped_total",
		Help: "Log lines that nobody took from standard error in time.",
	}, func() float64 {
		if lost := m.logLost.Load(); lost != nil {
			return float64((*lost)())
		}
		return 0
	})
	m.panics = f.NewCounter(prometheus.CounterOpts{
		Name: "drawbridge_panics_total", Help: "Panics that were recovered from.",
	})
	m.buildInfo = f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drawbridge_build_info", Help: "The build that runs.",
	}, []string{"version", "revision", "goversion"})
}

// BuildInfo records the version that runs, the commit that it was built from, and the
// version of Go. Its gauge is always 1, as is usual in Prometheus for a metric whose
// labels are what it tells.
func (m *Metrics) BuildInfo(version, revision string) {
	m.buildInfo.WithLabelValues(version, revision, runtime.Version()).Set(1)
}

// SealKeys records which keys are in force, by their ids: the one that seals, and those
// that only open. Those recorded before are forgotten.
func (m *Metrics) SealKeys(seals string, open []string) {
	m.sealKeys.Reset()
	m.sealKeys.WithLabelValues(seals, "seal").Set(1)
	for _, id := range open {
		m.sealKeys.WithLabelValues(id, "open").Set(1)
	}
}

// Reloaded records an attempt to load the config. The first one, at the start, counts
// too.
func (m *Metrics) Reloaded(ok bool) {
	m.reloadOK.Set(oneIf(ok))
	if !ok {
		m.reloads.WithLabelValues("refused").Inc()
		return
	}
	m.reloads.WithLabelValues("ok").Inc()
	m.reloadTime.SetToCurrentTime()
}

// ConfigWarnings records how many warnings with that code the config in use has and does
// not acknowledge. If there are none, the series is deleted.
func (m *Metrics) ConfigWarnings(code string, n int) {
	if n == 0 {
		m.configWarnings.DeleteLabelValues(code)
		return
	}
	m.configWarnings.WithLabelValues(code).Set(float64(n))
}

// LimitedLocally counts one decision on a rate by this replica's part of the limit.
func (m *Metrics) LimitedLocally() { m.localLimits.Inc() }

// ValueRefused counts a value in Redis that no replica wrote there.
func (m *Metrics) ValueRefused() { m.valuesRefused.Inc() }

// AuditDropped counts n audit records that are lost.
func (m *Metrics) AuditDropped(n int) { m.auditDropped.Add(float64(n)) }

// AuditWritable sets the function that tells whether audit records can be written. It is
// called whenever metrics are read. Until it is set, the gauge says that they can.
func (m *Metrics) AuditWritable(check func() bool) { m.auditWritable.Store(&check) }

// LogLost sets the function that tells how many log lines could not be written since the
// start; the number never falls. It is called whenever metrics are read. Until it is set,
// the counter is 0.
func (m *Metrics) LogLost(lost func() uint64) { m.logLost.Store(&lost) }

// Panicked counts a panic that was recovered from.
func (m *Metrics) Panicked() { m.panics.Inc() }
