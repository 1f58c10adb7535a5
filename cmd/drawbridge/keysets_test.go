package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

// behindLogin starts the program with an issuer that gives its keys at an address; more
// is what its config has besides.
func behindLogin(t *testing.T, l *login, more string) *recorder {
	t.Helper()
	r := &recorder{directory: t.TempDir(), token: l.token(t)}
	var addresses [2]string
	for i := range addresses {
		address, err := freeport.Address()
		if err != nil {
			t.Fatal(err)
		}
		addresses[i] = address
	}
	keys, _ := keyLines(t, 1)
	r.save(t, "keys", keys)
	r.save(t, "drawbridge.yaml", fmt.Sprintf(`listen: %s
operator: %s
sessions: {keys_file: keys}
%sissuers:
  - {issuer: "https://login.example/", jwks_url: %q, private_addresses: true, algorithms: [EdDSA], audiences: [us], tenant: acme}
tenants:
  acme: {servers: [toolbox], rules: [{allow: ["*"]}]}
servers:
  toolbox: {builtin: [calculate]}
`, addresses[0], addresses[1], more, l.server.URL))
	r.url, r.operator = "http://"+addresses[0]+"/mcp", addresses[1]
	r.start(t, func(r *recorder) { r.process.Dir = r.directory })
	return r
}

// TestReplicaStartsWhileAnIssuerFails runs two processes that share Redis, or start one
// after the other with a directory, the second while the issuer's keys cannot be fetched:
// it is ready and serves the issuer's tokens with the keys that the first has fetched.
func TestReplicaStartsWhileAnIssuerFails(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]func(t *testing.T) string{
		"redis": func(t *testing.T) string {
			return "replicas: 2\nredis: {url: \"" + redistest.Start(t).URL() + "\", patience: 5s}\n"
		},
		"directory": func(t *testing.T) string { return fmt.Sprintf("key_sets_dir: %q\n", t.TempDir()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, more := newLogin(t), kept(t)
			first := behindLogin(t, l, more)
			first.ready(t, http.StatusOK, `"fetched"`)
			eventually(t, "the first serves", func() bool { return first.list("").status == http.StatusOK })
			l.failing.Store(true)
			second := behindLogin(t, l, more)
			second.ready(t, http.StatusOK, "its keys cannot be fetched: fetch key set: status 502")
			if got := second.list(""); got.status != http.StatusOK {
				t.Errorf("the second replica: %v, want it served with the saved keys", got)
			}
		})
	}
}

// TestKeySetIsReadOnceRedisIsUsed asks for a key set before Redis was reached, as a
// replica that starts does while the issuer does not answer.
func TestKeySetIsReadOnceRedisIsUsed(t *testing.T) {
	t.Parallel()
	iss, ring, server := newLogin(t).issuer(), ringOf(t, 1), redistest.Start(t)
	place := withKeySet(iss).Place
	running := keySetStorage{ring: ring, shared: server.Store(t)}
	if err := running.Save(t.Context(), place, []byte("keys"), time.Hour); err != nil {
		t.Fatal(err)
	}
	store, asked, got := redis.New(server.Config()), make(chan struct{}), make(chan string, 1)
	go func() { // it is waited for below
		close(asked)
		text, err := keySetStorage{ring: ring, shared: store}.Load(t.Context(), place)
		got <- fmt.Sprint(string(text), err)
	}()
	<-asked
	select {
	case text := <-got:
		t.Fatalf("got %s before Redis was reached, want that to be waited for", text)
	case <-time.After(100 * time.Millisecond): // which shows nothing where it is too short
	}
	redistest.Run(t, store)
	if text := <-got; text != "keys<nil>" {
		t.Errorf("got %s, want what another replica saved", text)
	}
}

// TestReplicaIsNotReadyWithoutAnyKeys starts a process while no issuer's keys can be had:
// it is not ready, so that a rollout waits for it, until the issuer answers, and asks
// soon.
func TestReplicaIsNotReadyWithoutAnyKeys(t *testing.T) {
	t.Parallel()
	l := newLogin(t)
	l.failing.Store(true)
	r := behindLogin(t, l, "")
	r.ready(t, http.StatusServiceUnavailable, "no issuer has keys yet")
	if got := r.list(""); got.status != http.StatusServiceUnavailable {
		t.Errorf("without keys: %v, want 503", got)
	}
	l.failing.Store(false)
	r.ready(t, http.StatusOK, `"fetched"`)
	l.failing.Store(true)
	if got := r.list(""); got.status != http.StatusOK {
		t.Errorf("with keys: %v, want 200", got)
	}
}

// ringOf returns a ring of one key.
func ringOf(t *testing.T, fill byte) *seal.Ring {
	t.Helper()
	ring, err := seal.NewRing(bytes.Repeat([]byte{fill}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// keySetsIn returns where key sets are kept in a directory, sealed with one key.
func keySetsIn(t *testing.T, fill byte, dir string) keySetStorage {
	t.Helper()
	storage, err := newKeySetStorage(&config.Config{KeySetsDir: dir}, ringOf(t, fill), nil)
	if err != nil {
		t.Fatal(err)
	}
	return storage
}

// TestDirectoryOfKeySetsIsMade names one that is not there, and one that cannot be.
func TestDirectoryOfKeySetsIsMade(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "kept", "sets")
	keySetsIn(t, 1, dir)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		t.Errorf("got %v, error %v, want a directory", info, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := newKeySetStorage(&config.Config{KeySetsDir: file}, ringOf(t, 1), nil)
	if err == nil || !strings.HasPrefix(err.Error(), "key_sets_dir: ") {
		t.Errorf("a file in its place: got error %v, want one that names the setting", err)
	}
}

// TestAHungDiskKeepsNoKeysAway has a key set saved where reading does not end, while the
// issuer does not answer: it is asked again all the same, and whoever stops the verifiers
// does not wait for the disk.
func TestAHungDiskKeepsNoKeysAway(t *testing.T) {
	t.Parallel()
	l, dir := newLogin(t), t.TempDir()
	l.failing.Store(true)
	storage, iss := keySetsIn(t, 1, dir), l.issuer()
	if err := syscall.Mkfifo(storage.file(withKeySet(iss).Place), 0o600); err != nil { // nobody writes to it
		t.Fatal(err)
	}
	v, err := newVerifiers([]config.Issuer{iss}, storage, slog.New(slog.DiscardHandler), func() {})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	v.start(ctx)
	eventually(t, "the issuer is asked again", func() bool { return l.fetches.Load() >= 2 })
	l.failing.Store(false)
	eventually(t, "there are keys", v.current.Load().HasKeys)
	cancel()
	stopped := make(chan struct{})
	go func() { v.wait(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		t.Error("the verifiers do not stop")
	}
}

// TestKeySetsAreSealedAndBound reads a kept set as another issuer's, from another
// address, with another key, and after a byte was changed: it is never believed.
func TestKeySetsAreSealedAndBound(t *testing.T) {
	l := newLogin(t)
	dir := t.TempDir()
	place := keySetsIn(t, 1, dir)
	iss := l.issuer()
	if err := place.Save(t.Context(), withKeySet(iss).Place, []byte("keys"), 0); err != nil {
		t.Fatal(err)
	}
	load := func(place keySetStorage, iss config.Issuer) string {
		text, _ := place.Load(t.Context(), withKeySet(iss).Place)
		return string(text)
	}
	if got := load(place, iss); got != "keys" {
		t.Fatalf("got %q, want what was saved", got)
	}
	moved, public := iss, iss
	moved.JWKSURL += "/moved"
	public.PrivateAddresses = false
	if got := load(place, moved) + load(place, public) + load(keySetsIn(t, 2, dir), iss); got != "" {
		t.Errorf("from another place, or with another key: got %q, want nothing", got)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("got files %q, %v, want one", files, err)
	}
	sealed, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want a file for its owner alone", info.Mode(), err)
	}
	sealed[len(sealed)-1] ^= 1
	if err := os.WriteFile(files[0], sealed, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := load(place, iss); got != "" {
		t.Errorf("changed: got %q, want nothing", got)
	}
}
