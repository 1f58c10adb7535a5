package world

import "context"

// Redis is what the replicas share: Nodes has one server; master and replica, with a sentinel; or three of a cluster.
type Redis struct {
	Nodes    []*Store
	Sentinel *Store // nil unless watched
}

// Store is one redis-server, which keeps nothing on disk.
type Store struct {
	Name    string // such as "redis", "redis-1", "sentinel": for Partition
	Address string // host:port
}

// Master returns the node that is the master now, the only one if there is one.
func (r *Redis) Master(ctx context.Context) (*Store, error) { return nil, nil }

// Kill ends the server at once. What it kept is lost.
func (s *Store) Kill() {}

// Begin starts the server again after Kill, at the same address, and waits until it answers.
func (s *Store) Begin(ctx context.Context) error { return nil }

// Freeze stops the processor time of the server: connections stay open and nothing is answered.
func (s *Store) Freeze() error { return nil }

// Thaw ends Freeze.
func (s *Store) Thaw() error { return nil }

// Exec runs a command at the server past all proxies, with all rights, and returns the answer as redis-cli writes it.
func (s *Store) Exec(ctx context.Context, command ...string) (string, error) { return "", nil }
