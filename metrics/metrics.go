// Package metrics answers: how much does the gateway do, and how does it fare? It holds
// every Prometheus metric of the gateway: its name, its help text, its labels, and the
// one method that records it, so that whoever records something knows nothing of
// Prometheus. It decides nothing, and it does not know what tenants, servers or calls
// are: to it they are values of labels.
//
// Label values come from code, config and what servers list, never from a client. Each
// combination of label values is a series of its own, which costs memory here and in
// Prometheus until the process ends. If clients could choose one, they could make as many
// as they like.
//
// Each file has the metrics of one subject, and the methods that record them. Those of
// asked.go are not recorded but asked for when somebody reads them: Of sets the function
// that is asked. failures.go keeps the one count that is no series, refused tokens by
// address, and resolved.go makes it cheap to record what happens at each call.
package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics records. Its methods are named after what has happened, and are safe for
// concurrent use. LogLost and all that is Asked take a function instead, which is called
// at every reading of the metrics: it must be quick and safe for concurrent use. LogLost
// is called once at most.
type Metrics struct {
	*traffic
	*connections
	*upstreams
	*asked
	*shared
	*replicas
	*signIns
	*process

	Store *Store // of what outlives a restart
}

// New registers all metrics but that of LogLost with registerer, and with them those of
// the Go runtime and of the process. It panics if registerer has one of them already, so
// it can be called once for each registerer.
func New(registerer prometheus.Registerer) *Metrics {
	registerer.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	f := promauto.With(registerer)
	traffic := newTraffic(f)
	return &Metrics{
		traffic: traffic, connections: newConnections(f), upstreams: newUpstreams(f, traffic),
		asked: newAsked(registerer), shared: newShared(f), replicas: newReplicas(f),
		signIns: newSignIns(f), process: newProcess(f), Store: newStore(f),
	}
}

// Handler serves the metrics of gatherer in the text format of Prometheus. If one
// collector fails, the metrics of the others are served nevertheless. Of concurrent
// readers it serves four and refuses the rest with 503, because each reading costs time
// and memory.
func Handler(gatherer prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: 4,
	})
}
