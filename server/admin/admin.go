// Package admin answers the operator: is the process alive, is it ready, how much did it do. It is served on a
// listener of its own, never to clients, and knows nothing of where its answers come from.
package admin

import (
	"encoding/json"
	"net/http"
)

// View is what the operator's listener shows. It is made anew for every request.
type View struct {
	Ready    bool     `json:"ready"`
	Draining bool     `json:"draining,omitempty"`
	Problems []string `json:"problems,omitempty"` // why it is not ready, beyond starting and draining
	Warnings []string `json:"warnings,omitempty"` // a refused reload, a dead upstream, tools left out

	Servers map[string]Server `json:"servers,omitempty"` // that the gateway connects to, by name
}

// Server is what a server costs at the moment.
type Server struct {
	Processes int `json:"processes"` // that the gateway started, without those that they start
	Sessions  int `json:"sessions"`  // with a server of an older revision, the one that only lists included
}

// Config of the listener. Every field is required.
type Config struct {
	Metrics http.Handler
	View    func() View
}

// Handler returns the operator's handler: /metrics, /healthz (the process lives) and /readyz (it serves, also with
// warnings).
func Handler(cfg Config) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", cfg.Metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, []byte(`{"alive":true}`))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { writeView(w, cfg.View()) })
	return mux
}

func writeView(w http.ResponseWriter, view View) {
	view.Ready = view.Ready && !view.Draining && len(view.Problems) == 0
	body, err := json.Marshal(view)
	if err != nil {
		http.Error(w, "view not encoded", http.StatusInternalServerError)
		return
	}
	status := http.StatusOK
	if !view.Ready {
		status = http.StatusServiceUnavailable
	}
	write(w, status, body)
}

func write(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the operator may be gone
}
