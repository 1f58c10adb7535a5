package page

import (
	"errors"
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// errNoValues is what a chart without values, or with values that cannot be drawn, gives
// instead of a picture.
var errNoValues = errors.New("a chart needs at least one value, and all values finite and not negative")

// Sizes of every chart, in pixels of the picture.
const (
	chartWidth  = 440 // shown on a telephone at 320, its text is still 10 pixels high
	chartMargin = 12
	letterWidth = 7.2 // of the text below on average, to know how much room it takes
	titleLetter = 9.2 // the same of the title
	colours     = 6   // a series beyond them begins with the first one again
)

// style gives every chart its own background, so that its text is legible on a page of
// either theme, whichever of the two the reader's system says it prefers.
const style = `<style>
.paper{fill:#ffffff}
text{font:13px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1f2328}
.title{font-size:16px;font-weight:600}
.faint{fill:#59636e}
.grid{stroke:#d1d9e0}
.mark{stroke:#59636e;stroke-dasharray:4 3}
.whisker{stroke:#1f2328;fill:none}
.s0{fill:#0969da;stroke:#0969da}.s1{fill:#bc4c00;stroke:#bc4c00}.s2{fill:#818b98;stroke:#818b98}
.s3{fill:#1a7f37;stroke:#1a7f37}.s4{fill:#8250df;stroke:#8250df}.s5{fill:#bf3989;stroke:#bf3989}
@media (prefers-color-scheme:dark){
.paper{fill:#0d1117}text{fill:#f0f6fc}.faint{fill:#9198a1}.grid{stroke:#3d444d}.mark{stroke:#9198a1}.whisker{stroke:#f0f6fc}
.s0{fill:#4493f8;stroke:#4493f8}.s1{fill:#db6d28;stroke:#db6d28}.s2{fill:#656c76;stroke:#656c76}
.s3{fill:#3fb950;stroke:#3fb950}.s4{fill:#ab7df8;stroke:#ab7df8}.s5{fill:#db61a2;stroke:#db61a2}
}
</style>
`

// drawing is a picture that grows downwards: what was drawn and how high it is so far.
type drawing struct {
	parts strings.Builder
	y     float64
}

// header draws the title, the unit below it, and which colour means what where there is
// more than one.
func (d *drawing) header(title, unit string, series []string) {
	d.y = chartMargin - 6
	for _, line := range wrapped(title, titleLetter) {
		d.y += 20
		d.text(chartMargin, "start", "title", line)
	}
	d.y += 2
	for _, line := range wrapped(unit, letterWidth) {
		d.y += 17
		d.text(chartMargin, "start", "faint", line)
	}
	d.y += 12
	if len(series) < 2 {
		return
	}
	x := float64(chartMargin)
	for i, name := range series {
		width := 18 + textWidth(name) + 16
		if x > chartMargin && x+width > chartWidth-chartMargin {
			x = chartMargin
			d.y += 18
		}
		d.rect(x, d.y, 12, 12, colour(i))
		d.y += 10
		d.text(x+18, "start", "", name)
		d.y -= 10
		x += width
	}
	d.y += 20
}

// wrapped breaks a text into lines that fit between the margins, with letters of that
// width.
func wrapped(text string, letter float64) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		longer := strings.TrimSpace(line + " " + word)
		if line != "" && letter*float64(len([]rune(longer))) > chartWidth-2*chartMargin {
			lines = append(lines, line)
			longer = word
		}
		line = longer
	}
	return append(lines, line)
}

// text writes at the height that the drawing has; anchor is start, middle or end.
func (d *drawing) text(x float64, anchor, class, text string) {
	fmt.Fprintf(&d.parts, `<text x="%s" y="%s" text-anchor="%s" class="%s">%s</text>`+"\n", px(x), px(d.y),
		anchor, class, html.EscapeString(text))
}

func (d *drawing) rect(x, y, width, height float64, class string) {
	fmt.Fprintf(&d.parts, `<rect x="%s" y="%s" width="%s" height="%s" class="%s"/>`+"\n", px(x), px(y),
		px(width), px(height), class)
}

func (d *drawing) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(&d.parts, `<line x1="%s" y1="%s" x2="%s" y2="%s" class="%s"/>`+"\n", px(x1), px(y1), px(x2),
		px(y2), class)
}

// picture returns the whole file. A reader that cannot see it gets the title.
func (d *drawing) picture(title string) string {
	height := px(d.y + chartMargin)
	return fmt.Sprintf(
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%s" viewBox="0 0 %d %s" role="img" aria-label="%s">`+"\n",
		chartWidth, height, chartWidth, height, html.EscapeString(title)) + style +
		fmt.Sprintf(`<rect width="%d" height="%s" class="paper"/>`+"\n", chartWidth, height) +
		d.parts.String() + "</svg>\n"
}

// px writes a length with one decimal, so that the same figures give the same file on
// every machine.
func px(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

func colour(series int) string { return "s" + strconv.Itoa(series%colours) }

func textWidth(text string) float64 { return letterWidth * float64(len([]rune(text))) }

// ticks returns round values from 0 on, about five, of which the last is not below most.
func ticks(most float64) []float64 {
	if most <= 0 {
		most = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(most/5)))
	for _, times := range []float64{1, 2, 5, 10} {
		if step*times*5 >= most {
			step *= times
			break
		}
	}
	all := []float64{0}
	for n := 1; all[len(all)-1] < most; n++ {
		all = append(all, step*float64(n))
	}
	return all
}

// drawable tells whether a chart can show these values.
func drawable(values ...float64) bool {
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return false
		}
	}
	return len(values) > 0
}
