package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/store"
	"github.com/drawbridge-mcp/drawbridge/internal/store/sqlite"
)

// uncounted is a store that can be used, whose records cannot be counted.
type uncounted struct{ store.Database }

func (uncounted) Kinds(context.Context) (map[string]int, error) {
	return nil, errors.New("cannot be counted")
}

// TestALookSaysOfTheStoreOnlyWhetherItCanBeUsed has others ask while a look goes on: what
// they are told is of the store, and is not what the look meets afterwards.
func TestALookSaysOfTheStoreOnlyWhetherItCanBeUsed(t *testing.T) {
	t.Parallel()
	ring := ringOf(t, 1)
	log := slog.New(slog.DiscardHandler)
	db, err := sqlite.Open(filepath.Join(t.TempDir(), storeFile), store.Config{Ring: ring, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := &storing{db: uncounted{db}, ring: ring, log: log}
	look := func() {
		if err := s.check(t.Context()); err == nil {
			t.Error("a look that could not count says nothing of it")
		}
	}
	look()
	over, asked := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(asked)
		for {
			select {
			case <-over:
				return
			default:
			}
			if err := s.up(); err != nil {
				t.Errorf("the store is called away, for it could not be counted: %v", err)
				return
			}
		}
	}()
	for range 10 {
		look()
	}
	close(over)
	<-asked
}

// TestAStopIsNoFaultOfTheStore ends the process while it asks how the store is.
func TestAStopIsNoFaultOfTheStore(t *testing.T) {
	s := keep(t, keepingConfig(t, ""))
	var log bytes.Buffer
	s.log = slog.New(slog.NewTextHandler(&log, nil))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := s.check(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want that the look was ended", err)
	}
	if log.Len() > 0 {
		t.Errorf("got %s, want nothing", log.String())
	}
}

// TestRecordsOfAKeyThatHasEndedAreTold has records come back, as from a dump, whose key
// was removed since: a gateway that runs cannot read them, and another one would not
// start.
func TestRecordsOfAKeyThatHasEndedAreTold(t *testing.T) {
	file := keepingConfig(t, "")
	s := keep(t, file)
	put(t, s, "1")
	s.ring.Adopt(ringOf(t, 7))
	if _, missing := errors.AsType[*store.KeyError](s.check(t.Context())); !missing || s.up() == nil {
		t.Errorf("the store is used, and %v", s.up())
	}
}
