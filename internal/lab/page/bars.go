package page

import "slices"

// Bars compares values by the lengths of bars, in groups below each other. It is drawn
// the same way from the same values.
type Bars struct {
	Title  string
	Unit   string   // what a bar's length says, with its unit
	Series []string // the name of the first bar of each group, of the second, and so on
	Groups []Group
	Mark   float64 // where a dashed line stands, such as 1 in a chart of ratios; 0 is none
}

// Group is the bars of one thing, in the order of the series. A group may have fewer of
// them.
type Group struct {
	Label string
	Bars  []Bar
}

// Bar is a value and how far its measurements lay apart. A bar with least and most 0 has
// no whisker.
type Bar struct{ Value, Least, Most float64 }

// Heights in a bar chart.
const (
	barHeight = 16
	barGap    = 3
	groupGap  = 12
	labelRoom = 20 // for the name of a group above its bars
	valueRoom = 50 // for the figure behind the longest bar
)

// svg returns the chart as a file, or errNoValues.
func (c *Bars) svg() (string, error) {
	var values []float64
	for _, g := range c.Groups {
		for _, b := range g.Bars {
			values = append(values, b.Value, b.Least, b.Most)
		}
	}
	if !drawable(values...) {
		return "", errNoValues
	}
	d := &drawing{}
	d.header(c.Title, c.Unit, c.Series)
	at := ticks(max(c.Mark, slices.Max(values)))
	const left = chartMargin
	scale := (chartWidth - chartMargin - valueRoom - left) / at[len(at)-1]
	top, bottom := d.y, d.y+c.height()
	for _, v := range at {
		d.line(left+v*scale, top, left+v*scale, bottom, "grid")
	}
	for _, g := range c.Groups {
		c.group(d, g, left, scale)
	}
	if c.Mark > 0 {
		d.line(left+c.Mark*scale, top, left+c.Mark*scale, bottom, "mark")
	}
	d.y = bottom + 14
	for _, v := range at {
		d.text(left+v*scale, "middle", "faint", Number(v))
	}
	return d.picture(c.Title), nil
}

// height returns how much room all groups take.
func (c *Bars) height() float64 {
	height := 0.0
	for _, g := range c.Groups {
		height += groupHeight(g) + groupGap
	}
	return height
}

func groupHeight(g Group) float64 {
	return labelRoom + float64(len(g.Bars)*(barHeight+barGap)-barGap)
}

// group draws one group where the drawing ends, and the label above its bars.
func (c *Bars) group(d *drawing, g Group, left, scale float64) {
	top, bottom := d.y+groupGap/2+labelRoom, d.y+groupGap+groupHeight(g)
	d.y = top - 5
	d.text(left, "start", "", g.Label)
	for i, b := range g.Bars {
		y := top + float64(i*(barHeight+barGap))
		d.rect(left, y, b.Value*scale, barHeight, "bar "+colour(i))
		if b.Most > 0 {
			whisker(d, left+b.Least*scale, left+b.Most*scale, y+barHeight/2.0)
		}
		d.y = y + barHeight - 3
		d.text(left+max(b.Value, b.Most)*scale+6, "start", "value", Number(b.Value))
	}
	d.y = bottom
}

// whisker draws how far measurements lay apart.
func whisker(d *drawing, from, to, y float64) {
	d.line(from, y, to, y, "whisker")
	d.line(from, y-3, from, y+3, "whisker")
	d.line(to, y-3, to, y+3, "whisker")
}
