//go:build unix

package signin_test

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

// BenchmarkSignIn takes people through everything, each a new one with a client of her
// own: register, authorize, callback, consent, code, token. It tells how much processor
// each takes in this process, which has the client, the browser and the provider, too;
// what PostgreSQL takes in its own processes is not in it. Without a processor to spare
// sign-ins/s says more of the machine than of the program.
func BenchmarkSignIn(b *testing.B) {
	for _, where := range []struct {
		name string
		open func(testing.TB, *seal.Ring) store.Database // nil: a map in memory
	}{
		{"memory", nil},
		{"SQLite", openSQLite},
		{"PostgreSQL", openPostgres},
	} {
		b.Run(where.name, func(b *testing.B) {
			w := newWorld(b)
			if where.open != nil {
				db := where.open(b, w.ring)
				w.server = w.replica(b, func(c *signin.Config, _ *signin.Settings) {
					c.Store, c.Logger = db, slog.New(slog.DiscardHandler)
				})
			}
			var people atomic.Int64
			b.ReportAllocs()
			b.ResetTimer()
			before, begun := processor(b), time.Now()
			b.SetParallelism(16) // people do not wait for each other
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					name := fmt.Sprintf("p%d", people.Add(1))
					w.idp.set(func() { w.idp.claims[name] = `{"sub":"` + name + `","groups":["acme"],"scope":"read"}` })
					w.signIn(b, base, name, nil)
				}
			})
			b.ReportMetric(float64(processor(b)-before)/float64(b.N)/float64(time.Millisecond), "cpu-ms/op")
			b.ReportMetric(float64(b.N)/time.Since(begun).Seconds(), "sign-ins/s")
		})
	}
}

// processor returns how long this process has been computing.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
