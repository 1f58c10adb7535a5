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
	"strconv"
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
	directory string       // "": none
	shared    *redis.Store // nil: none
	// disk has room for the one who reads or writes in the directory.
	disk chan struct{}
}

// newKeySetStorage returns where the config wants key sets kept. The error says that its
// directory is none.
func newKeySetStorage(cfg *config.Config, ring *seal.Ring, shared *redis.Store) (keySetStorage, error) {
	if cfg.KeySetsDir != "" {
		if info, err := os.Stat(cfg.KeySetsDir); err != nil || !info.IsDir() {
			return keySetStorage{}, fmt.Errorf("key_sets_dir: %q is no directory", cfg.KeySetsDir)
		}
	}
	return keySetStorage{
		ring: ring, directory: cfg.KeySetsDir, shared: shared, disk: make(chan struct{}, 1),
	}, nil
}

// of returns the store of the key sets of these issuers, nil if they are kept nowhere.
func (p keySetStorage) of(issuers []config.Issuer) auth.KeySetStore {
	if p.directory == "" && p.shared == nil {
		return nil
	}
	names := make(map[string]string, len(issuers))
	for i := range issuers {
		iss := &issuers[i]
		names[iss.Issuer.Issuer] = strconv.Quote(iss.Issuer.Issuer) + strconv.Quote(iss.JWKSURL) +
			strconv.FormatBool(iss.PrivateAddresses)
	}
	return &keySets{keySetStorage: p, names: names}
}

// keySets keeps the key sets of some issuers.
type keySets struct {
	keySetStorage

	// names has, by issuer, a text that is the same only if the set comes from the same
	// place: what an address in the internal network has said must not count once that is
	// forbidden.
	names map[string]string
}

var _ auth.KeySetStore = (*keySets)(nil)

// purpose binds a sealed key set to its issuer and where it comes from.
func (k *keySets) purpose(issuer string) string { return "key set 1 " + k.names[issuer] }

// digest names the key set of an issuer in file names and keys of Redis.
func (k *keySets) digest(issuer string) string {
	sum := sha256.Sum256([]byte(k.names[issuer]))
	return hex.EncodeToString(sum[:16])
}

func (k *keySets) file(issuer string) string {
	return filepath.Join(k.directory, k.digest(issuer)+".keyset")
}

func (k *keySets) key(issuer string) string { return redis.CommonKey("keyset", k.digest(issuer)) }

// Save implements auth.KeySetStore.
func (k *keySets) Save(ctx context.Context, issuer string, text []byte, life time.Duration) error {
	sealed := k.ring.SealBytes(k.purpose(issuer), text)
	if k.directory != "" {
		_, err := k.onDisk(ctx, func() ([]byte, error) {
			return nil, writeWhole(k.directory, ".keyset-*", sealed, func(part string) error {
				return os.Rename(part, k.file(issuer))
			})
		})
		return err
	}
	_, err := k.shared.Do(ctx, redis.Command{
		Name: "SET", Key: k.key(issuer), Args: []string{string(sealed), "PX", redis.Millis(life)},
	})
	return err
}

// errDiskHangs says that a file of the directory was not read or written in time.
var errDiskHangs = errors.New("the disk of key_sets_dir does not answer")

// onDisk calls do and returns what it does, but waits no longer than ctx: nothing ends a
// read or write of a disk that hangs, and meanwhile keys must be fetched all the same.
// One that hangs keeps all others out, so that no more than one goroutine is left behind.
func (k *keySets) onDisk(ctx context.Context, do func() ([]byte, error)) ([]byte, error) {
	select {
	case k.disk <- struct{}{}:
	case <-ctx.Done():
		return nil, errDiskHangs
	}
	var data []byte
	var err error
	done := make(chan struct{})
	go func() { // nobody waits for it once ctx has ended
		defer func() { <-k.disk; close(done) }()
		data, err = do()
	}()
	select {
	case <-done:
		return data, err
	case <-ctx.Done():
		return nil, errDiskHangs
	}
}

// Load implements auth.KeySetStore.
func (k *keySets) Load(ctx context.Context, issuer string) ([]byte, error) {
	sealed, err := k.read(ctx, issuer)
	if sealed == nil || err != nil {
		return nil, err
	}
	return k.ring.OpenBytes(k.purpose(issuer), sealed)
}

// read returns the sealed key set of an issuer, nil if there is none.
func (k *keySets) read(ctx context.Context, issuer string) ([]byte, error) {
	if k.directory != "" {
		data, err := k.onDisk(ctx, func() ([]byte, error) { return os.ReadFile(k.file(issuer)) })
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return data, err
	}
	if !k.shared.Reached() {
		// At the start the keys of an issuer that does not answer are asked for before Redis
		// is used, and without the wait its tokens would be refused until they are asked for
		// again.
		awaitRedis(ctx, k.shared)
	}
	reply, err := k.shared.Do(ctx, redis.Command{Name: "GET", Key: k.key(issuer)})
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
