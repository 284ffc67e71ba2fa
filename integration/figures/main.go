// Command figures draws the pictures of docs/concepts.md, from the samplers, strategies and tests
// that minsep uses: the same bytes each time.
//
//	go run ./integration/figures docs/figures
package main

import (
	"fmt"
	"image/color"
	"io"
	"log"
	"math"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"minsep/accounting"
	"minsep/mechanism"
	"minsep/sampling"
	"minsep/sampling/stream"
)

var (
	blue = color.NRGBA{0x1f, 0x5f, 0xbf, 255}
	red  = color.NRGBA{0xc0, 0x3a, 0x2b, 255}
	gray = color.NRGBA{0x88, 0x88, 0x88, 255}
)

// figures are the pictures by the names of their files.
var figures = map[string]func() (*plot.Plot, error){
	"participations.svg": participations,
	"noise.svg":          noise,
	"verification.svg":   verification,
	"bounding.svg":       bounding,
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: figures FOLDER")
	}
	for name, figure := range figures {
		f, err := os.Create(filepath.Join(os.Args[1], name))
		if err == nil {
			err = write(f, figure)
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			log.Fatalf("%s: %v", name, err)
		}
	}
}

// write draws a figure on white, so that it can be read on a dark page too.
func write(w io.Writer, figure func() (*plot.Plot, error)) error {
	p, err := figure()
	if err != nil {
		return err
	}
	canvas := vgsvg.New(6*vg.Inch, 3.2*vg.Inch)
	all := draw.New(canvas)
	all.SetColor(color.White)
	all.Fill(all.Rectangle.Path())
	p.BackgroundColor = nil
	p.Draw(draw.Crop(all, 8, -14, 8, -8))
	_, err = canvas.WriteTo(w)
	return err
}

func chart(x, y string) *plot.Plot {
	p := plot.New()
	face := font.Font{Typeface: "Liberation", Variant: "Sans", Size: 10}
	p.X.Label.Text, p.Y.Label.Text = x, y
	p.X.Label.TextStyle.Font, p.Y.Label.TextStyle.Font = face, face
	p.X.Tick.Label.Font, p.Y.Tick.Label.Font = face, face
	p.Legend.TextStyle.Font = face
	p.Legend.Padding, p.Legend.XOffs, p.Legend.Left, p.Legend.Top = 4, 8, true, true
	return p
}

func line(points plotter.XYs, c color.Color) (*plotter.Line, error) {
	l, err := plotter.NewLine(points)
	if err == nil {
		l.Color, l.Width = c, 1.5
	}
	return l, err
}

func dots(points plotter.XYs, shape draw.GlyphDrawer, c color.Color) (*plotter.Scatter, error) {
	s, err := plotter.NewScatter(points)
	if err == nil {
		s.GlyphStyle = draw.GlyphStyle{Color: c, Radius: 2.6, Shape: shape}
	}
	return s, err
}

// participations shows when eight examples take part under three schemes.
func participations() (*plot.Plot, error) {
	const steps, minSep, epoch, examples = 48, 8, 16, 8
	schemes := []sampling.Independent{
		&sampling.EpochMinSep{Steps: steps, MinSep: minSep, EpochSteps: epoch},
		&sampling.BMinSep{Steps: steps, MinSep: minSep, Prob: 1.0 / (epoch - minSep + 1), WarmStart: true},
		&sampling.Poisson{Steps: steps, Prob: 1.0 / epoch},
	}
	p := chart("step", "")
	var names []string
	var at []plot.Tick
	for i, scheme := range schemes {
		source := stream.NewSource(stream.PublicKey("figures", []byte(scheme.Name())))
		sampler := scheme.Process().Sampler(source)
		var points plotter.XYs
		for example := range int64(examples) {
			for _, step := range sampler.Append(nil, source.IntAddress(example, 0), example) {
				points = append(points, plotter.XY{X: float64(step), Y: float64(i*(examples+3)) + float64(example)})
			}
		}
		c := blue
		if i%2 == 1 {
			c = red
		}
		s, err := dots(points, draw.BoxGlyph{}, c)
		if err != nil {
			return nil, err
		}
		p.Add(s)
		names = append(names, scheme.Name())
		at = append(at, plot.Tick{Value: float64(i*(examples+3)) + (examples-1)/2.0, Label: names[i]})
	}
	p.Y.Tick.Marker = plot.ConstantTicks(at)
	p.X.Min, p.X.Max = -1, steps
	p.X.Tick.Marker = everyEpoch(epoch)
	grid := plotter.NewGrid()
	grid.Horizontal.Width = 0
	p.Add(grid)
	return p, nil
}

// everyEpoch marks the first step of each epoch.
type everyEpoch int

func (e everyEpoch) Ticks(low, high float64) (ticks []plot.Tick) {
	for at := 0; float64(at) <= high; at += int(e) {
		ticks = append(ticks, plot.Tick{Value: float64(at), Label: fmt.Sprint(at)})
	}
	return ticks
}

// noise shows the noise in the sum of all steps so far, with the same privacy for one
// participation: columns of norm 1, σ = 1.
func noise() (*plot.Plot, error) {
	const steps = 256
	p := chart("step", "noise in the model (std)")
	for _, c := range []struct {
		bands int
		name  string
		color color.Color
	}{{1, "independent", red}, {4, "4 bands", gray}, {32, "32 bands", blue}} {
		strategy, err := mechanism.BSR(steps, c.bands)
		if err != nil {
			return nil, err
		}
		norm := 0.0
		for _, v := range strategy.FirstColumn(nil) {
			norm += v * v
		}
		impulse := make([]float64, steps)
		impulse[0] = 1
		inverse := strategy.Solve(impulse)
		var points plotter.XYs
		sum, variance := 0.0, 0.0
		for step, v := range inverse {
			sum += v
			variance += sum * sum * norm
			points = append(points, plotter.XY{X: float64(step + 1), Y: math.Sqrt(variance)})
		}
		l, err := line(points, c.color)
		if err != nil {
			return nil, err
		}
		p.Add(l)
		p.Legend.Add(c.name, l)
	}
	p.Y.Min = 0
	return p, nil
}

// verification shows how the mean of fresh samples is distributed where δ is as estimated, and
// where it is too large, with the largest mean that is accepted between them.
func verification() (*plot.Plot, error) {
	const samples, estimated, verify, bound = 200_000, 0.85e-5, 1e-5, 1e-3
	accept := accounting.LargestAccept(samples, bound, verify, 1e-3)
	p := chart("mean of the samples, in units of δ", "density")
	for _, c := range []struct {
		mean  float64
		name  string
		color color.Color
	}{{estimated, "δ as estimated", blue}, {verify, "δ too large", red}} {
		deviation := math.Sqrt(c.mean * bound / samples)
		var points plotter.XYs
		for i := range 301 {
			x := (0.75 + 0.35*float64(i)/300) * verify
			z := (x - c.mean) / deviation
			points = append(points, plotter.XY{X: x / verify, Y: math.Exp(-z * z / 2)})
		}
		l, err := line(points, c.color)
		if err != nil {
			return nil, err
		}
		p.Add(l)
		p.Legend.Add(c.name, l)
	}
	l, err := line(plotter.XYs{{X: accept / verify, Y: 0}, {X: accept / verify, Y: 1.1}}, gray)
	if err != nil {
		return nil, err
	}
	l.Dashes = []vg.Length{4, 3}
	p.Add(l)
	p.Legend.Add("accepted to the left", l)
	p.Y.Max = 1.5
	p.Y.Tick.Marker = plot.ConstantTicks(nil)
	return p, nil
}

// bounding shows a graph of examples and owners bounded to two examples per owner.
func bounding() (*plot.Plot, error) {
	owners := [][]int{{0, 1, 2, 3}, {3, 4}, {4, 5, 6}, {7}, {7, 8, 9}}
	kept := map[int]bool{0: true, 2: true, 4: true, 5: true, 7: true, 8: true}
	p := chart("", "")
	p.HideX()
	var all, used plotter.XYs
	for example := range 10 {
		at := plotter.XY{X: float64(example), Y: 1}
		if kept[example] {
			used = append(used, at)
		} else {
			all = append(all, at)
		}
	}
	var people plotter.XYs
	for owner, examples := range owners {
		at := plotter.XY{X: 1 + 1.9*float64(owner), Y: 0}
		people = append(people, at)
		for _, example := range examples {
			l, err := line(plotter.XYs{at, {X: float64(example), Y: 1}}, gray)
			if err != nil {
				return nil, err
			}
			if kept[example] {
				l.Color = blue
			} else {
				l.Dashes = []vg.Length{2, 3}
			}
			p.Add(l)
		}
	}
	for _, c := range []struct {
		points plotter.XYs
		name   string
		shape  draw.GlyphDrawer
		color  color.Color
	}{{used, "example, kept", draw.BoxGlyph{}, blue}, {all, "example, left out", draw.BoxGlyph{}, gray}, {people, "owner", draw.CircleGlyph{}, red}} {
		s, err := dots(c.points, c.shape, c.color)
		if err != nil {
			return nil, err
		}
		s.Radius = 5
		p.Add(s)
		p.Legend.Add(c.name, s)
	}
	p.Y.Min, p.Y.Max = -0.2, 1.8
	p.Y.Tick.Marker = plot.ConstantTicks(nil)
	p.Y.Width = 0
	return p, nil
}
