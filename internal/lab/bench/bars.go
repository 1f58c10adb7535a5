package main

import "slices"

// barChart compares values by the lengths of bars, in groups below each other. It is drawn the same way from the same
// values.
type barChart struct {
	title  string
	unit   string   // what a bar's length says, with its unit
	series []string // the name of the first bar of each group, of the second, and so on
	groups []barGroup
	mark   float64 // where a dashed line stands, such as 1 in a chart of ratios; 0 is none
}

// barGroup is the bars of one thing, in the order of the series. A group may have fewer of them.
type barGroup struct {
	label string
	bars  []bar
}

// bar is a value and how far its measurements lay apart. A bar with least and most 0 has no whisker.
type bar struct{ value, least, most float64 }

// Heights in a bar chart.
const (
	barHeight = 16
	barGap    = 3
	groupGap  = 12
	labelRoom = 20 // for the name of a group above its bars
	valueRoom = 50 // for the figure behind the longest bar
)

// svg returns the chart as a file, or errNoValues.
func (c *barChart) svg() (string, error) {
	most := c.mark
	var values []float64
	for _, g := range c.groups {
		for _, b := range g.bars {
			values = append(values, b.value, b.least, b.most)
		}
	}
	if !drawable(values...) {
		return "", errNoValues
	}
	most = max(most, slices.Max(values))
	d := &drawing{}
	d.header(c.title, c.unit, c.series)
	at := ticks(most)
	const left = chartMargin
	scale := (chartWidth - chartMargin - valueRoom - left) / at[len(at)-1]
	top, bottom := d.y, d.y+c.height()
	for _, v := range at {
		d.line(left+v*scale, top, left+v*scale, bottom, "grid")
	}
	for _, g := range c.groups {
		c.group(d, g, left, scale)
	}
	if c.mark > 0 {
		d.line(left+c.mark*scale, top, left+c.mark*scale, bottom, "mark")
	}
	d.y = bottom + 14
	for _, v := range at {
		d.text(left+v*scale, "middle", "faint", number(v))
	}
	return d.picture(c.title), nil
}

// height returns how much room all groups take.
func (c *barChart) height() float64 {
	height := 0.0
	for _, g := range c.groups {
		height += groupHeight(g) + groupGap
	}
	return height
}

func groupHeight(g barGroup) float64 {
	return labelRoom + float64(len(g.bars)*(barHeight+barGap)-barGap)
}

// group draws one group where the drawing ends, and the label above its bars.
func (c *barChart) group(d *drawing, g barGroup, left, scale float64) {
	top, bottom := d.y+groupGap/2+labelRoom, d.y+groupGap+groupHeight(g)
	d.y = top - 5
	d.text(left, "start", "", g.label)
	for i, b := range g.bars {
		y := top + float64(i*(barHeight+barGap))
		d.rect(left, y, b.value*scale, barHeight, "bar "+colour(i))
		if b.most > 0 {
			whisker(d, left+b.least*scale, left+b.most*scale, y+barHeight/2.0)
		}
		d.y = y + barHeight - 3
		d.text(left+max(b.value, b.most)*scale+6, "start", "value", number(b.value))
	}
	d.y = bottom
}

// whisker draws how far measurements lay apart.
func whisker(d *drawing, from, to, y float64) {
	d.line(from, y, to, y, "whisker")
	d.line(from, y-3, from, y+3, "whisker")
	d.line(to, y-3, to, y+3, "whisker")
}
