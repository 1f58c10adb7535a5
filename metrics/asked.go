package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Asked are gauges that keep no numbers: a function is asked for them whenever metrics
// are read. So what is gone, such as a server that left the config, has no series from
// then on, and nobody has to delete them. The gauges have one label in common, or none.
// Until the function is set, there are no series.
type Asked struct {
	gauges []*prometheus.Desc
	labels []string // the name of the label, if they have one
	read   atomic.Pointer[func(tell Tell)]
}

// Tell gives gauges their values, in the order in which their Asked is said to have them,
// for one value of their label; it is "" for those without one.
type Tell func(label string, values ...float64)

// ask registers gauges, each of which is a name and a help text. label is that of all of
// them, "" for none.
func ask(r prometheus.Registerer, label string, gauges ...[2]string) *Asked {
	a := &Asked{}
	if label != "" {
		a.labels = []string{label}
	}
	for _, gauge := range gauges {
		a.gauges = append(a.gauges, prometheus.NewDesc(gauge[0], gauge[1], a.labels, nil))
	}
	r.MustRegister(a)
	return a
}

// Of sets the function that is asked. Several goroutines may call it at once, and it must
// be quick.
func (a *Asked) Of(read func(tell Tell)) { a.read.Store(&read) }

// Describe implements prometheus.Collector.
func (a *Asked) Describe(out chan<- *prometheus.Desc) {
	for _, gauge := range a.gauges {
		out <- gauge
	}
}

// Collect implements prometheus.Collector. Prometheus may call it from several goroutines
// at once.
func (a *Asked) Collect(out chan<- prometheus.Metric) {
	read := a.read.Load()
	if read == nil {
		return
	}
	(*read)(func(label string, values ...float64) {
		for i, value := range values {
			out <- prometheus.MustNewConstMetric(a.gauges[i], prometheus.GaugeValue, value,
				[]string{label}[:len(a.labels)]...)
		}
	})
}

// asked are all gauges that are asked for.
type asked struct {
	Connections *Asked // of clients: how many may be open, and how many are
	// IssuerKeys are of the issuers of the config whose keys are fetched, by their names:
	// whether there are keys, and for how many seconds they could not be fetched
	IssuerKeys    *Asked
	UpstreamLoads *Asked // of the upstreams of the config, by their names: processes, and sessions
	// MemoryHeld is how many bytes tenants hold, whose number must have a bound, and
	// under "" what all others hold
	MemoryHeld    *Asked
	MemoryLimit   *Asked // how many bytes all may hold
	WorkSlots     *Asked // for work that keeps a processor busy: how many there are, and are in use
	WorkWaiting   *Asked // how much work waits for such a slot, by tenant
	RedisState    *Asked // whether Redis is in a state, by all states
	RedisClock    *Asked // by how many seconds the clock here is ahead of that of Redis
	Replicas      *Asked // how many are running, this one included, are reached, and are allowed
	StoreUp       *Asked // whether the store can be used
	StoreRecords  *Asked // how many records it has, by kind
	Draining      *Asked // whether the gateway is stopping
	AuditWritable *Asked // whether audit records can be written
}

func newAsked(r prometheus.Registerer) *asked {
	return &asked{
		Connections: ask(r, "",
			[2]string{"drawbridge_connections_limit", "Connections of clients that may be open at once."},
			[2]string{"drawbridge_connections_open", "Connections of clients that are open."}),
		IssuerKeys: ask(r, "issuer",
			[2]string{
				"drawbridge_issuer_keys_usable", "Whether there are keys for the tokens of an issuer " +
					"whose keys are fetched. Without any, its tokens are refused.",
			},
			[2]string{
				"drawbridge_issuer_keys_failing_seconds", "For how long the keys of an issuer could not " +
					"be fetched; 0 while they can. Keys that it has removed count meanwhile, up to " +
					"keys_stale.",
			}),
		UpstreamLoads: ask(r, "server",
			[2]string{
				"drawbridge_upstream_processes", "Processes that were started for an upstream and have " +
					"not ended, without those that they start themselves.",
			},
			[2]string{
				"drawbridge_upstream_sessions", "Sessions with an upstream of an older revision, the one " +
					"that only lists included.",
			}),
		MemoryHeld: ask(r, "tenant", [2]string{
			"drawbridge_memory_held_bytes", "Memory that requests hold beyond what their slots cover, by " +
				"the tenants that hold most; the tenant is empty for all others together.",
		}),
		MemoryLimit: ask(r, "", [2]string{
			"drawbridge_memory_limit_bytes", "Memory that all requests together may hold beyond what " +
				"their slots cover.",
		}),
		WorkSlots: ask(r, "",
			[2]string{
				"drawbridge_work_slots", "Slots for work that keeps a processor busy: parsing, checking, " +
					"cleaning and encoding what is large.",
			},
			[2]string{"drawbridge_work_slots_busy", "Slots that are in use."}),
		WorkWaiting: ask(r, "tenant", [2]string{
			"drawbridge_work_waiting", "Pieces of work that wait for a slot, by tenant.",
		}),
		RedisState: ask(r, "state", [2]string{
			"drawbridge_redis_state", "Whether Redis is in that state. There are no series where the " +
				"config names no Redis.",
		}),
		RedisClock: ask(r, "", [2]string{
			"drawbridge_redis_clock_offset_seconds", "How far the clock of this replica is ahead of that " +
				"of Redis; below zero: behind. There are no series where the config names no Redis.",
		}),
		Replicas: ask(r, "kind", [2]string{
			"drawbridge_replicas", "How many replicas are running, as far as this one knows, how many " +
				"others it reaches, and how many are allowed by the setting replicas. There are no series " +
				"where the config names no Redis.",
		}),
		StoreUp: ask(r, "", [2]string{
			"drawbridge_store_up", "Whether the store of data can be used. There are no series where the " +
				"config has no data.",
		}),
		StoreRecords: ask(r, "kind", [2]string{
			"drawbridge_store_records", "Records in the store by kind, as counted at the last look.",
		}),
		Draining: ask(r, "", [2]string{
			"drawbridge_draining", "Whether the gateway is stopping, and lets calls end.",
		}),
		AuditWritable: ask(r, "", [2]string{
			"drawbridge_audit_writable", "Whether audit records can be written. While they cannot, calls " +
				"are refused; with when_full=drop they go on, and records that memory does not hold are " +
				"lost.",
		}),
	}
}

// OneIf returns the value of a gauge that answers a question: 1 for yes, 0 for no.
func OneIf(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}
