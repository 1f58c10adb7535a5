package server_test

import (
	"log/slog"
	"runtime"
	"testing"
)

// BenchmarkIdleStream opens idle streams of each era, and tells what one takes of heap
// and stacks: with its session, both ends of its connection, and the client's small
// buffers. The resident memory of a process is more, by what the collector leaves.
func BenchmarkIdleStream(b *testing.B) {
	used := func() uint64 {
		var m runtime.MemStats
		for range 2 { // what is in a pool survives one collection
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	for era, of := range eraStreams() {
		b.Run(era, func(b *testing.B) {
			h := newListeningWorld(b, func(w *world) {
				w.config.MaxStreams, w.config.Logger = 100_000, slog.New(slog.DiscardHandler)
			})
			before, opened := used(), 0
			for b.Loop() {
				g := h.visit(b, of(b, h.world, "alice"), "")
				g.lines, g.resp = nil, nil
				opened++
			}
			eventually(b, func() bool { return h.streamsOpen(b) == opened })
			b.ReportMetric(float64(used()-before)/float64(opened)/1024, "KiB/stream")
		})
	}
}
