package main

import (
	"crypto/tls"
	"net/http"
	"testing"
	"time"
)

// TestUsurperHearsWhoTakesItsCertificate asks the web server that has the address of a
// replica as a replica would that does not look whose certificate it gets.
func TestUsurperHearsWhoTakesItsCertificate(t *testing.T) {
	server, requests := usurp(t.Context(), "127.0.0.1:0")
	defer server.Close()
	careless := &http.Client{
		Timeout:   time.Minute,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := careless.Do(request)
	if err == nil {
		_ = response.Body.Close()
	}
	careless.CloseIdleConnections()
	if n := requests.Load(); err != nil || n != 1 {
		t.Errorf("got %v, and %d requests, want one", err, n)
	}
}
