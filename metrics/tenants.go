package metrics

import "github.com/prometheus/client_golang/prometheus"

// ServeTenants says which tenants there are from now on, and drops the series of those
// that were there before and are not any more. What such a tenant still does, as calls do
// that end later, leaves no series either. It is called at the start and after each
// reload, by one goroutine at a time.
func (t *traffic) ServeTenants(ids []string) {
	now := make(map[string]bool, len(ids))
	for _, id := range ids {
		now[id] = true
	}
	if before := t.tenants.Swap(&now); before != nil {
		for id := range *before {
			t.tidy(id)
		}
	}
}

// drop drops the series of metrics that have a label with that value.
func drop(label, value string, metrics ...interface {
	DeletePartialMatch(gone prometheus.Labels) (deleted int)
},
) {
	for _, m := range metrics {
		m.DeletePartialMatch(prometheus.Labels{label: value})
	}
}

// setOrDelete sets the series with these values of labels to n. If that is zero, it
// deletes the series.
func setOrDelete(gauges *prometheus.GaugeVec, n int, labels ...string) {
	if n == 0 {
		gauges.DeleteLabelValues(labels...)
		return
	}
	gauges.WithLabelValues(labels...).Set(float64(n))
}

// tidy drops the series of a tenant that is not there. Whoever has made one of them, or
// added to it, calls it afterwards: so it makes no difference whether ServeTenants comes
// before or between. The empty tenant stands for those who are not authenticated, and
// stays.
func (t *traffic) tidy(tenant string) {
	tenants := t.tenants.Load()
	if tenants == nil || tenant == "" || (*tenants)[tenant] {
		return
	}
	drop("tenant", tenant, t.calls, t.refusals, t.repairs, t.deprecated, t.evictions, t.callsInFlight,
		t.streams, t.sessions)
	t.ofCalls.forget()
	t.ofTenants.forget()
}

// tidyServer drops the series of the calls of a server that was removed. Whoever has made
// one of them, or added to it, calls it afterwards, as tidy.
func (t *traffic) tidyServer(server string) {
	if _, is := t.removed.Load(server); is {
		drop("server", server, t.calls, t.callSeconds, t.repairs)
		t.ofCalls.forget()
	}
}
