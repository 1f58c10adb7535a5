// Package admin answers the operator, and the programs that watch for the operator: is
// the process alive, is it ready, how much did it do? It serves HTTP on a listener of its
// own, which clients must never reach: nobody is asked for a token here. It knows nothing
// of where its answers come from; Config brings them.
package admin

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// View is what /readyz shows, as JSON. It is made anew for every request.
type View struct {
	// Ready says whether load balancers should send requests. What the config's View
	// returns may be overruled: a gateway that drains or has Problems is never shown as
	// ready.
	Ready    bool     `json:"ready"`
	Draining bool     `json:"draining,omitempty"` // it is stopping and takes nothing new
	Problems []string `json:"problems,omitempty"` // why it is not ready, other than that it starts or drains
	// Warnings are what the operator should mend although requests are served: a refused
	// reload, a dead upstream, tools that are left out.
	Warnings []string `json:"warnings,omitempty"`

	// Overload says what is scarce, and who holds most of it, while requests may be
	// refused for it. It does not make the gateway less ready: those who hold little are
	// served, and the others would take their load to the next replica.
	Overload string `json:"overload,omitempty"`

	// Redis is the state of what replicas share; "": this gateway shares nothing.
	Redis string `json:"redis,omitempty"`
	// Store is whether the store of what outlives a restart is used or away; "": there is
	// none.
	Store string `json:"store,omitempty"`

	Servers map[string]Server `json:"servers,omitempty"` // the servers that the gateway connects to, by name
	Issuers map[string]Issuer `json:"issuers,omitempty"` // the issuers whose keys are fetched, by name
	// the providers where people sign in that cannot be reached, by name
	Unreached map[string]Provider `json:"unreached_providers,omitempty"`
}

// Provider is a provider that cannot be reached.
type Provider struct {
	Failing time.Time `json:"failing"` // since when
}

// Issuer is how it fares to fetch the keys of an issuer.
type Issuer struct {
	Fetched time.Time `json:"fetched,omitzero"` // when the keys in use were asked for; zero: there are none
	// Until is when the keys in use are used no longer, unless others are fetched before;
	// zero: there are none. Until then a key that the issuer has removed may still verify
	// tokens.
	Until time.Time `json:"until,omitzero"`
	// since when all fetches have failed; zero: the last one succeeded
	Failing time.Time `json:"failing,omitzero"`
}

// Server is what a server behind the gateway costs at the moment.
type Server struct {
	Processes int `json:"processes"` // that the gateway started; their own children are not counted
	// with a server of the legacy era, including the one that only fetches its lists
	Sessions int `json:"sessions"`
}

// Config of the listener. Every field is required.
type Config struct {
	Metrics http.Handler // serves /metrics
	View    func() View  // called for every /readyz, by several goroutines at once; it must be quick
	// AllowsHost tells whether requests may name that host: a web page can point its own
	// name at this machine (DNS rebinding), and would read all answers.
	AllowsHost func(host string) bool
}

// Handler returns the handler of the operator's listener.
//
//	/metrics  what Config.Metrics serves
//	/healthz  200 as long as the process lives, for whoever would restart it; it says nothing of readiness
//	/readyz   the View: 200 if it is ready, also with warnings, otherwise 503
func Handler(cfg Config) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", cfg.Metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, []byte(`{"alive":true}`))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { writeView(w, cfg.View()) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !cfg.AllowsHost(r.Host) {
			http.Error(w, "this host is not served: add it to allowed_hosts", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// writeView answers with view as JSON.
func writeView(w http.ResponseWriter, view View) {
	view.Ready = view.Ready && !view.Draining && len(view.Problems) == 0
	body, _ := json.Marshal(view) // texts, numbers and times of our days can always be encoded
	status := http.StatusOK
	if !view.Ready {
		status = http.StatusServiceUnavailable
	}
	write(w, status, body)
}

// write answers with a JSON body and a line break. Nothing may cache it: it is true only
// now. What servers chose in it, such as names, hides nothing from a terminal.
func write(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(strictjson.AppendVisible(nil, body), '\n')) // the operator may be gone
}
