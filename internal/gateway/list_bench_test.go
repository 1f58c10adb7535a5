package gateway

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// BenchmarkList asks the desk for the first page of the tools, of which it has at most
// 1000. Tenants take turns. Those that see the same share what is made of it; all others
// see all tools but one, and share the texts of the tools only.
func BenchmarkList(b *testing.B) {
	for _, tools := range []int{10, 1000, 5000} {
		for _, tenants := range []struct {
			count int
			name  string
			deny  func(n int) []string
		}{
			{1, "1 tenant", nothing},
			{5000, "5000 tenants", nothing},
			{
				5000, "5000 tenants with other rules",
				func(n int) []string { return []string{fmt.Sprintf("wide__tool_%04d", n%tools)} },
			},
		} {
			b.Run(fmt.Sprintf("%d tools/%s", tools, tenants.name), func(b *testing.B) {
				benchmarkList(b, tools, listers(tenants.count, []string{"wide"}, tenants.deny))
			})
		}
	}
}

func benchmarkList(b *testing.B, tools int, tenants []TenantConfig) {
	g := newBench(b, tenants...)
	g.replace(b, wide(tools))
	callers := make([]Caller, len(tenants))
	for n := range callers {
		callers[n] = g.resolve(b, tenantOf(n))
	}
	request := &Request{Method: mcp.MethodToolsList}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if _, err := g.Handle(b.Context(), callers[n%len(callers)], request); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkManyTenants lets each of 5000 tenants list 200 tools, all but two that no
// other lacks, and reports what a tenant holds after that, in bytes.
func BenchmarkManyTenants(b *testing.B) {
	const count, tools = 5000, 200
	g := newBench(b, listers(count, []string{"wide"}, func(n int) []string {
		return []string{
			fmt.Sprintf("wide__tool_%04d", n%tools),
			fmt.Sprintf("wide__tool_%04d", (n+1+n/tools)%tools),
		}
	})...)
	g.replace(b, wide(tools))
	request := &Request{Method: mcp.MethodToolsList}
	before := heap()
	b.ReportAllocs()
	for b.Loop() {
		for n := range count {
			if _, err := g.Handle(b.Context(), g.resolve(b, tenantOf(n)), request); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(heap()-before)/count, "B/tenant")
	runtime.KeepAlive(g)
}

// heap returns how many bytes are in use on the heap.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
