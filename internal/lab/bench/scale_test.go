package main

import (
	"strings"
	"testing"
	"time"
)

// TestGrowthSaysWhichGoalsAreKept: a size is judged by what it cost in the same rounds as
// the smallest.
func TestGrowthSaysWhichGoalsAreKept(t *testing.T) {
	call := goal{within: 0.1}
	for _, test := range []struct {
		name   string
		figure scaleFigure
		size   int
		want   bool
	}{
		{"equal", scaleFigure{
			sizes: []int{10, 5000}, costs: [][]float64{{100, 200, 90}, {101, 199, 90}},
			goal: call,
		}, 1, true},
		{"less", scaleFigure{
			sizes: []int{10, 5000}, costs: [][]float64{{100, 200, 90}, {50, 100, 45}},
			goal: call,
		}, 1, true},
		{"noise that meets both", scaleFigure{
			sizes: []int{10, 5000},
			costs: [][]float64{{100, 900, 100}, {105, 930, 104}}, goal: call,
		}, 1, true},
		{"more", scaleFigure{
			sizes: []int{10, 5000}, costs: [][]float64{{100, 100, 100}, {112, 111, 90}},
			goal: call,
		}, 1, false},
		{"list beside", scaleFigure{
			sizes: []int{1000}, costs: [][]float64{{300}}, beside: [][]float64{{310}},
			goal: goal{beside: true},
		}, 0, true},
		{"list dearer", scaleFigure{
			sizes: []int{1000}, costs: [][]float64{{320}}, beside: [][]float64{{310}},
			goal: goal{beside: true},
		}, 0, false},
		{"list that grows as it should", scaleFigure{
			sizes: []int{1000, 5000},
			costs: [][]float64{{300}, {1600}}, goal: goal{beside: true},
		}, 1, true},
		{"list that grows faster", scaleFigure{
			sizes: []int{1000, 5000}, costs: [][]float64{{300}, {1700}},
			goal: goal{beside: true},
		}, 1, false},
	} {
		if got, _ := test.figure.kept(test.size); got != test.want {
			t.Errorf("%s: kept %t, want %t", test.name, got, test.want)
		}
	}
}

// TestLoadIsKeptOnlyIfAllOfItIs: each of the four goals of a start with its reloads is
// missed once.
func TestLoadIsKeptOnlyIfAllOfItIs(t *testing.T) {
	good := loadFigure{
		start: 4 * time.Second, started: 200 << 20, reloaded: 190 << 20,
		reloads: []float64{150, 900, 160}, busy: []float64{150, 150, 150},
	}
	for name, change := range map[string]func(*loadFigure){
		"":                   func(*loadFigure) {},
		"slow start":         func(f *loadFigure) { f.start = 6 * time.Second },
		"large":              func(f *loadFigure) { f.started = 301 << 20 },
		"slow reloads":       func(f *loadFigure) { f.reloads = []float64{250, 250, 100} },
		"larger by a reload": func(f *loadFigure) { f.reloaded = 201 << 20 },
	} {
		f := good
		change(&f)
		g := growth{loads: []loadFigure{f}}
		if got, want := strings.Contains(g.section(1, 1, ""), "| yes |"), name == ""; got != want {
			t.Errorf("%q: kept %t, want %t", name, got, want)
		}
		if err := g.missed(); (err == nil) != (name == "") {
			t.Errorf("%q: got the error %v", name, err)
		}
	}
	dear := growth{figures: []scaleFigure{{
		sizes: []int{10, 5000}, costs: [][]float64{{100, 100}, {112, 111}}, goal: goal{within: 0.1},
	}}}
	if err := dear.missed(); err == nil {
		t.Error("a request that costs too much is no error")
	}
}
