package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

// keySetStorage is where the last key sets of issuers are kept: in a directory or,
// without one, in Redis. Sets are sealed, so that whoever can write there can make the
// gateway forget keys, but not believe any.
type keySetStorage struct {
	ring      *seal.Ring
	directory string             // "": none
	shared    *redis.Store       // nil: none
	disk      *pace.Once[[]byte] // reads and writes in the directory
}

// newKeySetStorage returns where the config wants key sets kept. Its directory is made if
// it is not there; the error says why it cannot be.
func newKeySetStorage(cfg *config.Config, ring *seal.Ring, shared *redis.Store) (keySetStorage, error) {
	if cfg.KeySetsDir != "" {
		if err := os.MkdirAll(cfg.KeySetsDir, 0o700); err != nil {
			return keySetStorage{}, fmt.Errorf("key_sets_dir: %w", err)
		}
	}
	return keySetStorage{
		ring: ring, directory: cfg.KeySetsDir, shared: shared, disk: new(pace.Once[[]byte]),
	}, nil
}

var _ auth.KeySetStore = keySetStorage{}

// forVerifier returns the storage for a verifier, nil if sets are kept nowhere.
func (k keySetStorage) forVerifier() auth.KeySetStore {
	if k.directory == "" && k.shared == nil {
		return nil
	}
	return k
}

// keySetPurpose stands before the place to which a sealed key set is bound.
const keySetPurpose = "key set 1 "

// keySetName names the key set of a place in file names and keys of Redis.
func keySetName(place string) string {
	sum := sha256.Sum256([]byte(place))
	return hex.EncodeToString(sum[:16])
}

func (k keySetStorage) file(place string) string {
	return filepath.Join(k.directory, keySetName(place)+".keyset")
}

func keySetKey(place string) string { return redis.CommonKey("keyset", keySetName(place)) }

// Save implements auth.KeySetStore.
func (k keySetStorage) Save(ctx context.Context, place string, text []byte, life time.Duration) error {
	sealed := k.ring.SealBytes(keySetPurpose+place, text)
	if k.directory != "" {
		_, err := k.onDisk(ctx, "save "+place, func() ([]byte, error) {
			return nil, writeWhole(k.directory, ".keyset-*", sealed, func(part string) error {
				return os.Rename(part, k.file(place))
			})
		})
		return err
	}
	_, err := k.shared.Do(ctx, redis.Command{
		Name: "SET", Key: keySetKey(place), Args: []string{string(sealed), "PX", redis.Millis(life)},
	})
	return err
}

// errDiskHangs says that a file of the directory was not read or written in time.
var errDiskHangs = errors.New("the disk of key_sets_dir does not answer")

// onDisk calls do, which is what its name says, and returns what it does, but waits no
// longer than ctx: nothing ends a read or write of a disk that hangs, and meanwhile keys
// must be fetched all the same. While one hangs, whoever wants the same waits for that
// one, so that no more goroutines are left behind than there are key sets to read and to
// write; a newer text is saved after the next fetch.
func (k keySetStorage) onDisk(ctx context.Context, name string, do func() ([]byte, error)) ([]byte, error) {
	data, err := k.disk.Do(ctx, name, func(context.Context) ([]byte, error) { return do() })
	if ctx.Err() != nil {
		return nil, errDiskHangs
	}
	return data, err
}

// Load implements auth.KeySetStore.
func (k keySetStorage) Load(ctx context.Context, place string) ([]byte, error) {
	sealed, err := k.read(ctx, place)
	if sealed == nil || err != nil {
		return nil, err
	}
	return k.ring.OpenBytes(keySetPurpose+place, sealed)
}

// read returns the sealed key set of a place, nil if there is none.
func (k keySetStorage) read(ctx context.Context, place string) ([]byte, error) {
	if k.directory != "" {
		data, err := k.onDisk(ctx, "load "+place, func() ([]byte, error) {
			return os.ReadFile(k.file(place))
		})
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return data, err
	}
	if !k.shared.Reached() {
		// At the start the keys of an issuer that does not answer are asked for before
		// Redis is used, and without the wait its tokens would be refused until they are
		// asked for again.
		awaitRedis(ctx, k.shared)
	}
	reply, err := k.shared.Do(ctx, redis.Command{Name: "GET", Key: keySetKey(place)})
	if err != nil || reply.Nil() {
		return nil, err
	}
	text, err := reply.Text()
	return []byte(text), err
}

// awaitRedis waits until Redis is used, or ctx ends.
func awaitRedis(ctx context.Context, store *redis.Store) {
	for store.Up() != nil && ctx.Err() == nil {
		pace.Wait(ctx, pollInterval)
	}
}
