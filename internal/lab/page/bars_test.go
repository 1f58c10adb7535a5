package page

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
)

// shape is an element of a picture.
type shape struct {
	name  string
	attrs map[string]string
	text  string
}

func (s *shape) number(t *testing.T, name string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s.attrs[name], 64)
	if err != nil {
		t.Fatalf("<%s> has %s=%q: %v", s.name, name, s.attrs[name], err)
	}
	return v
}

// shapes reads a picture strictly and returns the elements that have the word in their
// class.
func shapes(t *testing.T, picture, class string) []shape {
	t.Helper()
	var all []shape
	d := xml.NewDecoder(strings.NewReader(picture))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the picture is no XML: %v\n%s", err, picture)
		}
		switch token := token.(type) {
		case xml.StartElement:
			s := shape{name: token.Name.Local, attrs: make(map[string]string)}
			for _, a := range token.Attr {
				s.attrs[a.Name.Local] = a.Value
			}
			all = append(all, s)
		case xml.CharData:
			if len(all) > 0 {
				all[len(all)-1].text += strings.TrimSpace(string(token))
			}
		}
	}
	var found []shape
	for _, s := range all {
		if strings.Contains(" "+s.attrs["class"]+" ", " "+class+" ") {
			found = append(found, s)
		}
	}
	return found
}

func sampleBars() *Bars {
	return &Bars{
		Title: "Calls & lists", Unit: "calls per second ÷ <ReverseProxy>", Series: []string{"calls", "lists"},
		Mark: 1,
		Groups: []Group{
			{"drawbridge", []Bar{{1.5, 1.4, 1.6}, {0.75, 0, 0}}},
			{"another gateway with a long name", []Bar{{0.3, 0.3, 0.45}}},
		},
	}
}

func TestBarsAreAsLongAsTheirValues(t *testing.T) {
	picture, err := sampleBars().svg()
	if err != nil {
		t.Fatal(err)
	}
	bars := shapes(t, picture, "bar")
	if len(bars) != 3 {
		t.Fatalf("got %d bars, want 3", len(bars))
	}
	unit := bars[0].number(t, "width") / 1.5
	for i, want := range []float64{1.5, 0.75, 0.3} {
		if got := bars[i].number(t, "width") / unit; math.Abs(got-want) > 0.002 {
			t.Errorf("bar %d is %.3f long, want %.3f", i, got, want)
		}
	}
	left := bars[0].number(t, "x")
	if mark := shapes(t, picture, "mark"); len(mark) != 1 ||
		math.Abs((mark[0].number(t, "x1")-left)/unit-1) > 0.002 {
		t.Errorf("the line at 1 is %v, with bars from %.1f and %.1f for 1", mark, left, unit)
	}
	whiskers := shapes(t, picture, "whisker")
	if len(whiskers) != 6 {
		t.Fatalf("got %d lines of whiskers, want 3 for each of 2", len(whiskers))
	}
	if from, to := (whiskers[0].number(t, "x1")-left)/unit,
		(whiskers[0].number(t, "x2")-left)/unit; math.Abs(from-1.4) > 0.002 || math.Abs(to-1.6) > 0.002 {
		t.Errorf("the whisker reaches from %.3f to %.3f, want 1.4 to 1.6", from, to)
	}
	var values []string
	for _, s := range shapes(t, picture, "value") {
		values = append(values, s.text)
	}
	if got := strings.Join(values, " "); got != "1.50 0.75 0.30" {
		t.Errorf("figures behind the bars are %s", got)
	}
}

func TestChartsKeepWhatTheySayInsideThePicture(t *testing.T) {
	bars, err := sampleBars().svg()
	if err != nil {
		t.Fatal(err)
	}
	whole := shapes(t, bars, "paper")[0]
	width, height := whole.number(t, "width"), whole.number(t, "height")
	for _, class := range []string{"bar", "title", "faint", "value"} {
		for _, s := range shapes(t, bars, class) {
			if x, y := s.number(t, "x"), s.number(t, "y"); x < 0 || x > width || y < 0 || y > height {
				t.Errorf("%s %q is at %.0f, %.0f, outside of %.0f × %.0f", class, s.text, x, y, width, height)
			}
		}
	}
	if title := shapes(t, bars, "title"); len(title) != 1 || title[0].text != "Calls & lists" {
		t.Errorf("the title is %v", title)
	}
}

func TestChartsAreTheSameFileEachTime(t *testing.T) {
	first, err := sampleBars().svg()
	if err != nil {
		t.Fatal(err)
	}
	if second, _ := sampleBars().svg(); second != first {
		t.Error("bars differ when they are drawn again")
	}
	if !strings.Contains(first, "prefers-color-scheme:dark") {
		t.Error("bars have no colours for dark pages")
	}
}

func TestChartsRefuseWhatCannotBeDrawn(t *testing.T) {
	for name, bars := range map[string][]Bar{
		"nothing": nil, "not a number": {{Value: math.NaN()}}, "infinite": {{1, 0, math.Inf(1)}},
		"negative": {{Value: -1}},
	} {
		if _, err := (&Bars{Groups: []Group{{"x", bars}}}).svg(); !errors.Is(err, errNoValues) {
			t.Errorf("bars of %s: got error %v, want %v", name, err, errNoValues)
		}
	}
	zero := &Bars{Groups: []Group{{"x", []Bar{{}}}}}
	if picture, err := zero.svg(); err != nil || strings.Contains(picture, "NaN") {
		t.Errorf("one bar of 0: %v\n%s", err, picture)
	}
}

func TestLinesOfATitleFitTheirChart(t *testing.T) {
	lines := wrapped("Calls per second through drawbridge, in times of what a tuned ReverseProxy does",
		titleLetter)
	if len(lines) < 2 {
		t.Errorf("got %q, want several lines", lines)
	}
	for _, line := range lines {
		if width := titleLetter * float64(len(line)); width > chartWidth-2*chartMargin {
			t.Errorf("%q is %.0f wide", line, width)
		}
	}
}

func TestTicksEndAboveTheLargestValue(t *testing.T) {
	for _, most := range []float64{0, 0.03, 0.9, 1, 1.46, 7, 50, 99, 12_345, 1e6} {
		at := ticks(most)
		if last := at[len(at)-1]; last < most || len(at) < 2 || len(at) > 8 {
			t.Errorf("up to %v the axis has %v", most, at)
		}
	}
}

func TestNumbersHaveThreeDigitsThatCount(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1", 0.031: "0.03", 1.456: "1.46", 9.999: "10.0",
		33.33: "33.3", 250: "250", 999.6: "1,000", 12345: "12,345", 1234567: "1,234,567",
	} {
		if got := Number(v); got != want {
			t.Errorf("Number(%v) = %q, want %q", v, got, want)
		}
	}
}
