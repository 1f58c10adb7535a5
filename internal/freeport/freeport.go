// Package freeport finds ports of the loopback address for programs that tests and
// benchmarks start: those take a port by its number, after whoever chose it has let go of
// it. A port that the kernel chose is not safe in between, for the kernel gives it to the
// next who asks, be it for an outgoing connection.
package freeport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// The ports lie below those that Linux (32768 and up) and other systems (49152 and up)
// give to outgoing connections.
const (
	first     = 20000
	last      = 32699
	blockSize = 100 // ports that one process claims at once
)

// taken are the ports that this process has claimed and not handed out, and the locks
// that hold its claims.
var taken struct {
	sync.Mutex
	ports []int
	locks []*os.File // open until the process ends
	block int        // to try next
}

// Take returns a port of 127.0.0.1 that nobody listens on and that no other call of Take
// returns, in this process or in another one of this user, while this process runs. It
// may be called from many goroutines.
func Take() (int, error) {
	taken.Lock()
	defer taken.Unlock()
	for {
		for len(taken.ports) > 0 {
			port := taken.ports[0]
			taken.ports = taken.ports[1:]
			if free(port) {
				return port, nil
			}
		}
		if err := claimLocked(); err != nil {
			return 0, err
		}
	}
}

// Address is Take as an address to listen on, such as "127.0.0.1:20000".
func Address() (string, error) {
	port, err := Take()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}

// claimLocked claims a block of ports for this process, by a lock on a file that the
// system gives up when the process ends.
func claimLocked() error {
	directory := filepath.Join(os.TempDir(), fmt.Sprintf("drawbridge-ports-%d", os.Getuid()))
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return err
	}
	for ; first+(taken.block+1)*blockSize <= last+1; taken.block++ {
		file, err := os.OpenFile(filepath.Join(directory, strconv.Itoa(taken.block)), os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // a name of ours
		if err != nil {
			return err
		}
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			for i := range blockSize {
				taken.ports = append(taken.ports, first+taken.block*blockSize+i)
			}
			taken.locks = append(taken.locks, file)
			taken.block++
			return nil
		}
		_ = file.Close() // nothing was written
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("lock %s: %w", file.Name(), err)
		}
	}
	return fmt.Errorf("every port from %d to %d is claimed by a process or used", first, last)
}

func free(port int) bool {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp",
		net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}
