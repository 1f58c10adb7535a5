package freeport

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestMain also plays another process that takes ports.
func TestMain(m *testing.M) {
	if os.Getenv("FREEPORT_OTHER") == "" {
		os.Exit(m.Run())
	}
	for range 150 {
		port, err := Take()
		if err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Stdout.WriteString(strconv.Itoa(port) + "\n")
	}
}

// TestNoPortTwice takes more ports than one claim holds, here and in another process at
// the same time: all differ, though nobody listens on any of them.
func TestNoPortTwice(t *testing.T) {
	seen := map[string]bool{}
	note := func(port string) {
		if seen[port] {
			t.Errorf("%s was given out twice", port)
		}
		seen[port] = true
	}
	for range 150 {
		port, err := Take()
		if err != nil {
			t.Fatal(err)
		}
		note(strconv.Itoa(port))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := exec.CommandContext(t.Context(), self)
	other.Env = append(os.Environ(), "FREEPORT_OTHER=1")
	output, err := other.Output()
	if err != nil {
		t.Fatal(err)
	}
	for port := range strings.FieldsSeq(string(output)) {
		note(port)
	}
	if len(seen) != 300 {
		t.Errorf("%d ports, want 300", len(seen))
	}
}

// TestPortInUse shows that a port on which somebody listens is passed over.
func TestPortInUse(t *testing.T) {
	address, err := Address()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, text, _ := net.SplitHostPort(address)
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	if free(port) {
		t.Errorf("%d is free, want in use", port)
	}
}
