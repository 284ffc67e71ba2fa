package report

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"html/template"
	"image/color"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Figure is a picture with its message in words and in numbers.
type Figure struct {
	Title   string        // without markup, as all texts here
	Alt     string        // a description in a sentence or two
	SVG     template.HTML // safe as it is
	Columns []string      // headings of the numbers behind the picture
	Rows    [][]string    // one entry for each column
	Note    string        // below the picture; "" for none
}

// Colours of figures stand for the page's colours, which differ in light and dark mode: the SVG
// names variables of the page's style. Each channel is 0 or 255; a transparent colour comes out of
// the drawing library with a small error.
var (
	ink   = color.NRGBA{0, 0, 0, 255}
	faint = color.NRGBA{255, 0, 255, 255}
	first = color.NRGBA{0, 0, 255, 255}
	other = color.NRGBA{255, 0, 0, 255}
)

// drawnColour matches a colour in the library's SVG.
var drawnColour = regexp.MustCompile(`#[0-9A-F]{6}`)

// pageColour returns the variable for a drawn colour.
func pageColour(drawn string) string {
	high := func(at int) bool { return drawn[at] >= '8' } // the first digit of a channel
	switch {
	case high(1) && high(5):
		return "var(--line)"
	case high(1):
		return "var(--two)"
	case high(5):
		return "var(--one)"
	}
	return "var(--ink)"
}

const (
	figureWidth  = 330 // points
	figureHeight = 230
	labelSize    = 13 // a phone shows 12 pixels and more of them: its pages are hardly wider than a figure
)

// chart returns an empty plot in the page's colours, with the labels of its axes.
func chart(x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.X.Label.Text, p.Y.Label.Text = x, y
	face := font.Font{Typeface: "Liberation", Variant: "Sans", Size: labelSize}
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Color, axis.Tick.Color = ink, ink
		axis.LineStyle.Color, axis.Tick.LineStyle.Color = ink, ink
		axis.Label.TextStyle.Color, axis.Tick.Label.Color = ink, ink
		axis.Label.TextStyle.Font, axis.Tick.Label.Font = face, face
		axis.Padding, axis.Label.Padding = 0, 2
		axis.Tick.Marker = plainTicks{}
	}
	p.Legend.TextStyle = text.Style{Color: ink, Font: face, Handler: plot.DefaultTextHandler}
	p.Legend.Top = true
	p.Legend.Padding = 4
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = faint, faint
	p.Add(grid)
	return p
}

// svg draws a plot as an SVG that fits the page. id must be unique on the page.
func svg(p *plot.Plot, width, height vg.Length, id, title, alt string) template.HTML {
	const margin = 10 // on the right, for half of a label under the last tick
	p.Y.Tick.Marker = apart{p.Y.Tick.Marker}
	canvas := vgsvg.New(width, height)
	p.Draw(draw.Crop(draw.New(canvas), 0, -margin, 0, 0))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		panic(err) // a buffer takes all
	}
	body := b.String()
	body = body[strings.Index(body, "<svg"):]
	body = body[strings.Index(body, ">")+1:]
	body = drawnColour.ReplaceAllStringFunc(body, pageColour)
	head := fmt.Sprintf(`<svg viewBox="0 0 %g %g" role="img" aria-labelledby="%s-t %s-d" xmlns="http://www.w3.org/2000/svg"><title id="%s-t">%s</title><desc id="%s-d">%s</desc>`,
		float64(width), float64(height), id, id, id, html.EscapeString(title), id, html.EscapeString(alt))
	return template.HTML(head + body) // #nosec: numbers and our own words, which are escaped
}

// xys pairs the numbers of two slices.
func xys(x, y []float64) plotter.XYs {
	list := make(plotter.XYs, len(x))
	for i := range x {
		list[i].X, list[i].Y = x[i], y[i]
	}
	return list
}

// lineOf returns a line. It leaves out values that are not numbers.
func lineOf(points plotter.XYs, c color.Color, dashed bool) *plotter.Line {
	l, err := plotter.NewLine(points)
	if err != nil {
		return nil
	}
	l.Color, l.Width = c, vg.Points(1.6)
	if dashed {
		l.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
	}
	return l
}

// dotsOf returns dots, or nil if a value is not a number.
func dotsOf(points plotter.XYs, c color.Color) *plotter.Scatter {
	s, err := plotter.NewScatter(points)
	if err != nil {
		return nil
	}
	s.GlyphStyle = draw.GlyphStyle{Color: c, Radius: vg.Points(3.2), Shape: draw.CircleGlyph{}}
	return s
}

// bars draws shares by whole numbers, one group of bars for each label.
func bars(id, title, alt, x, y string, labels []string, series []barSeries) template.HTML {
	if len(labels) < 2 { // a single bar shows nothing: the words and the numbers say it
		return ""
	}
	p := chart(x, y)
	room := 240.0
	if len(series) > 1 { // a gap between groups
		room = 190
	}
	width := vg.Points(min(18, room/float64(max(1, len(labels)*len(series)))))
	largest := 0.0
	for i, s := range series {
		for _, v := range s.values {
			largest = max(largest, v)
		}
		chart, err := plotter.NewBarChart(plotter.Values(s.values), width)
		if err != nil {
			continue
		}
		chart.Color, chart.LineStyle.Width = s.color, 0
		chart.Offset = width * vg.Length(float64(i)-float64(len(series)-1)/2)
		p.Add(chart)
		if s.name != "" {
			p.Legend.Add(s.name+" ", chart)
		}
	}
	if len(labels) > 0 {
		p.NominalX(thinned(labels)...)
		p.X.Tick.Width, p.X.Tick.Length = vg.Points(0.5), vg.Points(4) // which keeps the labels off the axis
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = -0.8, float64(max(1, len(labels)))-0.2, 0, 1.05*cmp.Or(largest, 1)
	return svg(p, figureWidth, figureHeight, id, title, alt)
}

// barSeries is one colour of a bar chart, with its name in the legend.
type barSeries struct {
	name   string
	values []float64
	color  color.Color
}

// thinned leaves as many labels as there is room for.
func thinned(labels []string) []string {
	longest := 0
	for _, l := range labels {
		longest = max(longest, utf8.RuneCountInString(l))
	}
	room := min(12, 28/(longest+1))
	every := (len(labels) + room - 1) / room
	list := make([]string, len(labels))
	for i := range labels {
		if i%max(1, every) == 0 {
			list[i] = labels[i]
		}
	}
	return list
}

// plainTicks has the ticks of gonum, with labels without trailing zeros.
type plainTicks struct{}

// Ticks implements [plot.Ticker].
func (plainTicks) Ticks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i, t := range ticks {
		if t.Label == "" {
			continue
		}
		ticks[i].Label = strconv.FormatFloat(t.Value, 'g', 6, 64)
		if t.Value >= 1e4 && t.Value < 1e6 {
			ticks[i].Label = count(t.Value)
		}
		if math.Abs(t.Value) < 1e-9*(high-low) {
			ticks[i].Label = "0"
		}
	}
	return ticks
}

// apart adds room between the ticks of a vertical axis and their labels.
type apart struct{ plot.Ticker }

// Ticks implements [plot.Ticker].
func (a apart) Ticks(low, high float64) []plot.Tick {
	ticks := a.Ticker.Ticks(low, high)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label += " "
		}
	}
	return ticks
}

// upToOne has plain ticks for shares, none above 1.
type upToOne struct{}

// Ticks implements [plot.Ticker].
func (upToOne) Ticks(low, _ float64) []plot.Tick { return plainTicks{}.Ticks(low, 1) }

// powers has the ticks of a logarithmic axis: whole powers of ten, as many as there is room for.
type powers struct{}

func (powers) Ticks(low, high float64) (ticks []plot.Tick) {
	from, to := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	every := math.Ceil((to - from + 1) / 7)
	for k := from; k <= to; k++ {
		v := math.Pow(10, k)
		if v < low*(1-1e-9) || v > high*(1+1e-9) {
			continue
		}
		t := plot.Tick{Value: v}
		if math.Mod(k-from, every) == 0 {
			t.Label = "1e" + strconv.Itoa(int(k))
			if k >= -2 && k <= 2 {
				t.Label = strconv.FormatFloat(v, 'g', -1, 64)
			}
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// heat is a picture of a matrix: entries above zero have one colour, entries below another, and
// larger ones are stronger.
type heat struct {
	rows [][]float64
	size float64 // of the largest entry
}

func (h heat) Dims() (c, r int) { return len(h.rows), len(h.rows) }
func (h heat) X(c int) float64  { return float64(c) }
func (h heat) Y(r int) float64  { return float64(r) }

// leastDrawn is the smallest entry that is drawn, as a part of the largest.
const leastDrawn = 0.02

// Z returns an entry, with the first row on top, or NaN for an entry below leastDrawn: it is not
// drawn.
func (h heat) Z(c, r int) float64 {
	if v := h.rows[len(h.rows)-1-r][c]; math.Abs(v) >= leastDrawn*h.size {
		return v
	}
	return math.NaN()
}

// newHeat finds the largest entry of a square matrix.
func newHeat(rows [][]float64) heat {
	h := heat{rows: rows}
	for _, row := range rows {
		for _, v := range row {
			h.size = max(h.size, math.Abs(v))
		}
	}
	return h
}

// shades is a palette of the page's two colours.
type shades []color.Color

// Colors implements [palette.Palette].
func (s shades) Colors() []color.Color { return s }

var signed = func() (s shades) {
	const each = 20
	for i := -each; i <= each; i++ {
		c := first
		if i < 0 {
			c = other
		}
		c.A = uint8(math.Round(255 * math.Sqrt(max(0.5, math.Abs(float64(i)))/each)))
		s = append(s, c)
	}
	return s
}()

// picture draws a square matrix.
func picture(id, title, alt string, rows [][]float64) template.HTML {
	h := newHeat(rows)
	p := plot.New()
	p.BackgroundColor = nil
	p.HideAxes()
	m := plotter.NewHeatMap(h, signed)
	m.Max = max(h.size, 1e-300)
	m.Min = -m.Max
	p.Add(m)
	return svg(p, 200, 200, id, title, alt)
}
