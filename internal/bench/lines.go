package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// lineChart shows how values change with a size. It is drawn the same way from the same values.
type lineChart struct {
	title string
	size  string // what the horizontal axis says, with its unit
	unit  string // what the vertical axis says, with its unit
	lines []line
}

// line is one thing at several sizes.
type line struct {
	name   string
	points []point // with rising sizes
}

type point struct{ size, value float64 }

// Sizes in a line chart.
const (
	plotHeight = 240
	tickRoom   = 52 // for a figure beside the vertical axis, and between two below the horizontal one
)

// svg returns the chart as a file, or errNoValues. Sizes that lie far apart stand at the distances of their logarithms.
func (c *lineChart) svg() (string, error) {
	var sizes, values []float64
	var names []string
	for _, l := range c.lines {
		names = append(names, l.name)
		for _, p := range l.points {
			sizes, values = append(sizes, p.size), append(values, p.value)
		}
	}
	if !drawable(values...) || !drawable(sizes...) {
		return "", errNoValues
	}
	d := &drawing{}
	d.header(c.title, c.unit, names)
	at := ticks(slices.Max(values))
	slices.Sort(sizes)
	p := plot{top: d.y + 8, most: at[len(at)-1], place: placing(sizes), last: sizes[len(sizes)-1]}
	p.first = p.place(sizes[0])
	p.axes(d, at, slices.Compact(sizes), c.size)
	for i, l := range c.lines {
		p.draw(d, l, colour(i))
	}
	return d.picture(c.title), nil
}

// placing returns how far to the right a size stands: its logarithm when the largest is over fifty times the smallest
// above zero. Zero itself has a place, too.
func placing(sizes []float64) func(float64) float64 {
	above := slices.DeleteFunc(slices.Clone(sizes), func(v float64) bool { return v == 0 })
	if len(above) > 0 && above[len(above)-1] > 50*above[0] {
		return math.Log1p
	}
	return func(v float64) float64 { return v }
}

// plot is the part of a line chart inside its axes.
type plot struct {
	top   float64
	most  float64 // the value at the top
	place func(size float64) float64
	first float64 // the place of the smallest size
	last  float64 // the largest size
}

func (p *plot) x(size float64) float64 {
	const left, right = chartMargin + tickRoom, chartWidth - chartMargin - tickRoom/2
	width := p.place(p.last) - p.first
	if width == 0 {
		return (left + right) / 2
	}
	return left + (right-left)*(p.place(size)-p.first)/width
}

func (p *plot) y(value float64) float64 { return p.top + plotHeight*(1-value/p.most) }

// axes draws lines at round values, and below them each size that has room.
func (p *plot) axes(d *drawing, at, sizes []float64, unit string) {
	const left, right = chartMargin + tickRoom, chartWidth - chartMargin - tickRoom/2
	for _, v := range at {
		d.line(left, p.y(v), right, p.y(v), "grid")
		d.y = p.y(v) + 4
		d.text(left-8, "end", "faint", number(v))
	}
	d.y = p.top + plotHeight + 16
	end := math.Inf(-1)
	for _, size := range sizes {
		if x := p.x(size); x-end >= tickRoom {
			d.text(x, "middle", "faint", number(size))
			end = x
		}
	}
	d.y += 18
	d.text((left+right)/2, "middle", "faint", unit)
}

// draw draws one line, and each of its points as a dot.
func (p *plot) draw(d *drawing, l line, class string) {
	var at []string
	for _, q := range l.points {
		at = append(at, px(p.x(q.size))+","+px(p.y(q.value)))
		fmt.Fprintf(&d.parts, `<circle cx="%s" cy="%s" r="3.5" class="point %s"/>`+"\n", px(p.x(q.size)), px(p.y(q.value)), class)
	}
	fmt.Fprintf(&d.parts, `<polyline points="%s" class="%s line" style="fill:none"/>`+"\n", strings.Join(at, " "), class)
}
