package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
)

// sampleFindings is what two rounds could have shown.
func sampleFindings() *findings {
	ways := func(names ...string) map[string]*rounds {
		all := make(map[string]*rounds)
		for i, name := range names {
			rate := 1000 * float64(i+1)
			all[name] = &rounds{
				rate: []float64{rate, rate}, latency: []float64{100, 200},
				cpu: []float64{50, 60}, resident: []float64{20, 30},
			}
		}
		return all
	}
	m := &findings{secure: result{"2026-07-28", 16, ways(wayProxyOne, wayProxyTwo, wayDrawbridge)}}
	for _, connections := range []int{1, 16} {
		m.calls = append(m.calls, result{"2026-07-28", connections, ways(wayDirect, wayProxy, wayDrawbridge,
			wayThrifty)})
	}
	m.byKind = map[string]*rounds{}
	for _, k := range []struct {
		name, plain, reason string
		perKiB              float64
	}{
		{plainModern, "", "", 100},
		{"cheap", plainModern, "", 150},
		{"dear", plainModern, "it does more", 250},
		{"dear as well", plainModern, "", 300},
		{"result of 1 KiB", plainModern, "", 90},
		{"result of 1 KiB" + besideProxy, "", "", 45},
	} {
		m.kinds = append(m.kinds, kind{name: k.name, plain: k.plain, reason: k.reason, callers: 16})
		m.byKind[k.name] = &rounds{
			rate: []float64{10}, cpu: []float64{k.perKiB}, kib: []float64{1}, perKiB: []float64{k.perKiB},
		}
	}
	for i, k := range idleKinds {
		m.idle = append(m.idle, idleResult{
			kind: k.name, streams: 1000, kib: 7.5, after: 8, told: 1000 - i,
			last: 90 * time.Millisecond,
		})
	}
	return m
}

func TestReportSaysWhatWasMeasured(t *testing.T) {
	text := sampleFindings().describe(plan{took: time.Second, rounds: 2}, "no nginx here", "CALLS", "STREAMS")
	for _, want := range []string{
		"CALLS", "STREAMS", "no nginx here", "2 rounds of 1s",
		"| 2026-07-28 | 1 | **1.50** | 0.75 | not measured | 3 | 1 |",      // ratios
		"| 2026-07-28 | 16 | direct | 1,000 | 150 | – | – |",               // a way whose CPU does not count
		"| 2026-07-28 | 16 | drawbridge | 3,000 | 150 | 55 (50–60) | 25 |", // and one whose does
		"calls/s **3**, CPU a call 1. ÷ ReverseProxy with HTTP/2",          // TLS
		"| cheap | 16 | 10 | 150 | 1 | 150 | 1.50 |",                       // within bounds
		"| dear | 16 | 10 | 250 | 1 | 250 | **2.50** |",                    // beyond them
		"- dear costs 2.50 times the plain case by KiB.\n",                 // in a note
		"\nit does more\n", // with its reason
		"- dear as well costs 3 times the plain case by KiB.\n", // in another,
		reasonUnknown, // whose reason nobody knows
		"- A result of 1 KiB costs 2 times the CPU that ReverseProxy takes", // beside ReverseProxy
		"| 1000 | **7.50** | 8 | all 1000 | 0s | 0s | 90ms |",               // idle streams
		"**999 of 1000**", // a stream that was not told
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report has no %q:\n%s", want, text)
		}
	}
	if err := sampleFindings().missed(); err == nil {
		t.Error("a stream that was not told is no error")
	}
	if strings.Contains(text, "- cheap") || strings.Contains(text, "%!") {
		t.Errorf("the report says too much:\n%s", text)
	}
}

func TestReportHasCharts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "benchmarks.md")
	calls, memory := sampleFindings().charts(page.Report{Path: file})
	for shows, bars := range map[string]int{calls: 4, memory: 3} {
		_, path, _ := strings.Cut(strings.TrimSuffix(shows, ")"), "](")
		if got := strings.Count(read(t, filepath.Join(filepath.Dir(file), path)),
			`class="bar `); got != bars {
			t.Errorf("%s has %d bars, want %d", shows, got, bars)
		}
	}
}
