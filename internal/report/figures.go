package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"minsep/internal/accounting"
	"minsep/internal/digits"
	"minsep/internal/ownergraph"
	"minsep/internal/words"
	"minsep/mechanism"
)

// count writes a whole number with its digits in groups; a number that no int64 holds has an
// exponent.
func count(v float64) string {
	if math.Abs(v) < 1<<62 {
		return words.Grouped(int64(v))
	}
	return number(v)
}

// number writes four significant digits.
func number(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// threeDigits writes a number above 0 with three significant digits, without an exponent below
// 1e18.
func threeDigits(v float64) string {
	if v < 1000 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return count(digits.Nearest(v, 3))
}

// tradeoff draws the largest true positive rate of a membership test against its false positive
// rate.
func tradeoff(g accounting.Guarantee, proven bool) Figure {
	f := Figure{Title: "What an attack can do", Columns: []string{"false positive rate", "true positive rate, at most"}}
	worth := "certified"
	if !proven {
		worth = "not proven"
	}
	f.Alt = fmt.Sprintf("The largest true positive rate of a membership test against its false positive rate, from points that are %s, above that of guessing. The advantage is %s.", worth, accounting.AtMost(g.Advantage()))
	var x, y []float64
	// Evenly spaced on the logarithmic axis.
	for k := 0; k <= 120; k++ {
		fpr := math.Pow(10, -4+4*float64(k)/120)
		x, y = append(x, fpr), append(y, g.TPR(fpr))
	}
	p := chart("false positive rate", "true positive rate")
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, powers{}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 1e-4, 1, 0, 1.3 // with room for the legend
	p.Y.Tick.Marker = upToOne{}
	bound, guess := lineOf(xys(x, y), first, false), lineOf(xys(x, x), other, true)
	p.Add(bound, guess)
	p.Legend.Left = true
	p.Legend.Add("bound, "+worth, bound)
	p.Legend.Add("guessing", guess)
	f.SVG = svg(p, figureWidth, figureHeight, "tradeoff", f.Title, f.Alt)
	for _, a := range append(g.Attacks(), accounting.Attack{FPR: 0.5, TPR: g.TPR(0.5)}) {
		most := "not bounded"
		if a.TPR < 1 {
			most = accounting.RateUp(a.TPR)
		}
		f.Rows = append(f.Rows, []string{number(a.FPR), most})
	}
	return f
}

// curve draws δ against ε: the certified points, and the estimates with a band of two standard
// errors.
func (r *Run) curve() Figure {
	f := Figure{Title: "δ at other ε", Columns: []string{"ε", "δ", "standard error", "status"}}
	p := chart("ε", "δ")
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, powers{}
	low, high := math.Inf(1), 0.0
	seen := func(v float64) {
		if v > 0 {
			low, high = min(low, v), max(high, v)
		}
	}
	var x, y, below, above []float64
	worth := "estimated, certifies nothing"
	for _, c := range r.Curve {
		if c.Proven {
			worth = "proven"
		}
		x, y = append(x, c.Epsilon), append(y, c.Delta)
		// The scale is logarithmic: a lower end at 0 or below has no place on it.
		under := max(c.Delta-2*c.StdErr, c.Delta/10)
		below, above = append(below, under), append(above, c.Delta+2*c.StdErr)
		seen(under)
		seen(c.Delta + 2*c.StdErr)
		f.Rows = append(f.Rows, []string{number(c.Epsilon), number(c.Delta), number(c.StdErr), worth})
	}
	var points plotter.XYs
	certified := "certified"
	if !r.proven() {
		certified = "not proven"
	}
	for _, pt := range r.Certificate.Points {
		points = append(points, plotter.XY{X: pt.Epsilon, Y: pt.Delta})
		seen(pt.Delta)
		f.Rows = append(f.Rows, []string{number(pt.Epsilon), number(pt.Delta), "", certified})
	}
	implied, last := r.implied()
	for _, at := range implied {
		seen(at.Y)
	}
	if x != nil {
		if band, err := plotter.NewPolygon(append(xys(x, above), reversed(xys(x, below))...)); err == nil {
			shade := first
			shade.A = 60
			band.Color, band.LineStyle.Width = shade, 0
			p.Add(band)
		}
		l := lineOf(xys(x, y), first, false)
		p.Add(l)
		p.Legend.Add(worth, l)
	}
	dots, bound := dotsOf(points, other), lineOf(implied, other, true)
	p.Legend.Top, p.Legend.Left = false, true // δ is high on the left, and the space below it empty
	p.Add(bound, dots)
	p.Legend.Add(certified, dots)
	p.Legend.Add("what follows", bound)
	p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(low)-0.3)), min(1, math.Pow(10, math.Ceil(math.Log10(high)+0.3)))
	p.X.Min, p.X.Max = 0, last
	f.Alt = fmt.Sprintf("δ on a logarithmic scale against ε: %s (%s), and dashed, what follows from %s at every other ε", words.Count(len(points), "point"), certified, map[bool]string{true: "it", false: "them"}[len(points) == 1])
	if x != nil {
		f.Alt += fmt.Sprintf("; a falling curve (%s) with a band of two standard errors", worth)
	}
	f.Alt += "."
	f.SVG = svg(p, figureWidth, figureHeight, "curve", f.Title, f.Alt)
	return f
}

// implied is the curve through the certified points, which falls to each of them and no further
// after the last, up to the last ε of the figure.
func (r *Run) implied() (curve plotter.XYs, last float64) {
	guarantee := r.Certificate.Guarantee()
	for _, pt := range guarantee {
		last = max(last, 1.25*pt.Epsilon+0.1)
	}
	for _, c := range r.Curve {
		last = max(last, c.Epsilon)
	}
	for k := range 241 {
		x := last * float64(k) / 240
		curve = append(curve, plotter.XY{X: x, Y: guarantee.Delta(x)})
	}
	return curve, last
}

// mark is a value with its error, under a label.
type mark struct {
	label        string
	value, error float64 // the error is 0 where the value is proven
}

// ranking draws the noise of a run and of a plan's rows relative to the batch.
func ranking(marks []mark) Figure {
	f := Figure{Title: "Noise relative to the batch", Columns: []string{"", "noise / batch", "two standard errors"}}
	p := chart("noise / batch, less is better", "row of the table")
	var proven, estimated plotter.XYs
	labels := make([]string, len(marks))
	// The first mark is the top row, as in the table beside the figure; plot counts from below.
	least, largest := 0, 0.0
	for i, m := range marks {
		largest = max(largest, m.value+m.error)
		at := plotter.XY{X: m.value, Y: float64(len(marks) - 1 - i)}
		labels[len(marks)-1-i] = m.label
		deviation := ""
		if m.error > 0 {
			estimated = append(estimated, at)
			deviation = number(m.error)
			p.Add(lineOf(plotter.XYs{{X: m.value - m.error, Y: at.Y}, {X: m.value + m.error, Y: at.Y}}, first, false))
		} else {
			proven = append(proven, at)
		}
		if m.value < marks[least].value {
			least = i
		}
		f.Rows = append(f.Rows, []string{m.label, number(m.value), deviation})
	}
	p.NominalY(labels...)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1.05*largest, -0.6, float64(len(marks))-0.4
	if proven != nil {
		p.Add(dotsOf(proven, other))
	}
	if estimated != nil {
		p.Add(dotsOf(estimated, first))
	}
	name := marks[least].label
	if name != "this run" {
		name = "row " + name
	}
	f.Alt = fmt.Sprintf("A dot for each row of the table, from the top: %s has the least noise relative to the batch, %.4g.", name, marks[least].value)
	f.Note = "Estimates have a colour of their own, and two standard errors to each side, where there is room to see them."
	f.SVG = svg(p, figureWidth, figureHeight, "ranking", f.Title, f.Alt)
	return f
}

// reversed returns the points in reverse, for the lower edge of a band.
func reversed(list plotter.XYs) plotter.XYs {
	out := make(plotter.XYs, len(list))
	for i := range list {
		out[len(list)-1-i] = list[i]
	}
	return out
}

// figures returns the figures of a distribution: how often participants take part, and how far
// apart.
func (l *Participations) figures(one string) []Figure {
	times := Figure{Title: "How often an " + one + " takes part", Columns: []string{"times", "share of " + one + "s"}}
	most, at := 0.0, 0
	for k, share := range l.Times {
		if share > most {
			most, at = share, k
		}
	}
	labels, values, rows := spread(l.Times, 0)
	times.Rows = rows
	times.Alt = fmt.Sprintf("Shares of %ss by how often they take part; most often %s, with a share of %.3g.", one, words.Count(at, "time"), most)
	if most == 1 {
		times.Alt = fmt.Sprintf("Every %s takes part %d times.", one, at)
	}
	times.Note = fmt.Sprintf("The distribution of the scheme, by %s draws with a public key: it says nothing of who takes part in this run.", words.Grouped(int64(l.Draws)))
	times.SVG = bars("times", times.Title, times.Alt, "participations", "share of "+one+"s", labels, []barSeries{{values: values, color: first}})
	list := []Figure{times}
	if len(l.Gaps) == 0 {
		return list
	}
	gaps := Figure{Title: "How far apart", Columns: []string{"gap in steps", "share of gaps"}, Note: times.Note}
	start := slices.IndexFunc(l.Gaps, func(share float64) bool { return share > 0 })
	labels, values, gaps.Rows = spread(l.Gaps, start)
	gaps.Alt = fmt.Sprintf("Shares of the gaps, in steps, from one participation of an %s to its next. The smallest gap is %d.", one, start)
	gaps.SVG = bars("gaps", gaps.Title, gaps.Alt, "steps apart", "share of gaps", labels, []barSeries{{values: values, color: first}})
	return append(list, gaps)
}

// mostBars is the largest number of bars in a figure of shares.
const mostBars = 30

// spread sums the shares of the numbers from start on into bars. If there is room, each number has
// a bar. Otherwise the bars begin with the first share that is not 0, and each sums an equal number
// of shares. rows has the sums that are not 0.
func spread(shares []float64, start int) (labels []string, values []float64, rows [][]string) {
	if len(shares)-start > mostBars {
		for start < len(shares) && shares[start] == 0 {
			start++
		}
	}
	size := max(1, (len(shares)-start+mostBars-1)/mostBars)
	for k := start; k < len(shares); k += size {
		sum := 0.0
		for _, share := range shares[k:min(k+size, len(shares))] {
			sum += share
		}
		labels, values = append(labels, strconv.Itoa(k)), append(values, sum)
		name := strconv.Itoa(k)
		if size > 1 {
			name += "–" + strconv.Itoa(k+size-1)
		}
		if sum > 0 {
			rows = append(rows, []string{name, number(sum)})
		}
	}
	return labels, values, rows
}

// binned sums a histogram into bins that double: 0, 1, 2, 3–4, 5–8, …
func binned(h ownergraph.Histogram) (labels []string, values []float64) {
	for _, b := range h {
		at := 0
		if b.Value > 0 {
			at = 1 + int(math.Ceil(math.Log2(float64(b.Value))))
		}
		for len(values) <= at {
			name := strconv.Itoa(len(values))
			if k := len(values); k > 2 {
				name = fmt.Sprintf("%d–%d", 1<<(k-2)+1, 1<<(k-1))
			}
			labels, values = append(labels, name), append(values, 0)
		}
		values[at] += float64(b.Count)
	}
	return labels, values
}

// lowest returns the least values of bins, short enough for an axis.
func lowest(bins []string) (list []string) {
	for _, bin := range bins {
		low, _, _ := strings.Cut(bin, "–")
		list = append(list, low)
	}
	return list
}

// bounding returns the figures of kept and lost examples.
func bounding(s *ownergraph.Summary) []Figure {
	owners := givenAndKept("owners", Figure{
		Title:   "Examples an owner has, given and kept",
		Columns: []string{"examples", "owners, given", "owners, kept"},
		Alt:     fmt.Sprintf("Owners by how many examples they had before the bound and have after it. %s of %s examples are kept.", words.Grouped(s.Kept), words.Grouped(s.Examples)),
	}, "examples of an owner, at least", "owners", s.GivenPerOwner, s.KeptPerOwner)
	examples := givenAndKept("owned", Figure{
		Title:   "Owners an example has, given and kept",
		Columns: []string{"owners", "examples, given", "examples, kept"},
		Alt:     "Examples by how many owners they have: all that were given, and those that are kept. Examples with few owners are kept more often.",
	}, "owners of an example, at least", "examples", s.GivenOwners, s.KeptOwners)
	if s.Coverage != nil {
		return []Figure{owners, examples, coverage(s.Coverage)}
	}
	neighborhoods := Figure{Title: "Neighbourhoods of the kept examples", Columns: []string{"examples that share an owner with it", "copies"}}
	labels, sizes := binned(s.Neighborhoods)
	for i, l := range labels {
		neighborhoods.Rows = append(neighborhoods.Rows, []string{l, count(sizes[i])})
	}
	neighborhoods.Alt = "Kept copies of examples by the number of examples, with themselves, that share an owner with them."
	neighborhoods.SVG = bars("neighborhoods", neighborhoods.Title, neighborhoods.Alt, "size of the neighbourhood, at least", "copies", lowest(labels), []barSeries{{values: sizes, color: first}})
	return []Figure{owners, examples, neighborhoods}
}

// coverage returns the figure of the distinct examples of pools.
func coverage(c *ownergraph.Coverage) Figure {
	f := Figure{Title: "Distinct examples of the pools", Columns: []string{"pools", "distinct examples"}}
	const most = 24 // bars
	var values []float64
	var labels []string
	for bar := range min(most, c.Pools) {
		pools := c.Pools * (bar + 1) / min(most, c.Pools)
		values, labels = append(values, float64(c.Distinct[pools-1])), append(labels, fmt.Sprint(pools))
		f.Rows = append(f.Rows, []string{labels[bar], count(values[bar])})
	}
	f.Alt = fmt.Sprintf("Examples that are in at least one of the first pools, by how many pools these are: from %s in the first to %s in all %d.", words.Grouped(c.Distinct[0]), words.Grouped(c.Distinct[c.Pools-1]), c.Pools)
	f.SVG = bars("pools", f.Title, f.Alt, "pools", "examples", labels, []barSeries{{values: values, color: first}})
	return f
}

// givenAndKept completes a figure of two histograms.
func givenAndKept(id string, f Figure, x, y string, givenBins, keptBins ownergraph.Histogram) Figure {
	labels, given := binned(givenBins)
	more, kept := binned(keptBins)
	if len(more) > len(labels) {
		labels = more
	}
	given = append(given, make([]float64, len(labels)-len(given))...)
	kept = append(kept, make([]float64, len(labels)-len(kept))...)
	for i, l := range labels {
		f.Rows = append(f.Rows, []string{l, count(given[i]), count(kept[i])})
	}
	f.SVG = bars(id, f.Title, f.Alt, x, y, lowest(labels), []barSeries{{"given", given, first}, {"kept", kept, other}})
	return f
}

// corner is the number of steps in pictures of matrices.
const corner = 24

// matrices returns pictures of the strategy, its inverse and the covariance of the noise.
func matrices(s *mechanism.Strategy) []Figure {
	n := min(corner, s.Steps)
	c, inverse, covariance := square(n), square(n), square(n)
	unit := make([]float64, s.Steps)
	for j := range n {
		for k, v := range s.Column(nil, j) {
			if j+k < n {
				c[j+k][j] = v
			}
		}
		clear(unit)
		unit[j] = 1
		for i, v := range s.Solve(unit)[:n] {
			inverse[i][j] = v
		}
	}
	for i := range n {
		for j := range n {
			for k := range min(i, j) + 1 {
				covariance[i][j] += inverse[i][k] * inverse[j][k]
			}
		}
	}
	var list []Figure
	for _, m := range []struct {
		id, title, what string
		rows            [][]float64
	}{
		{"strategy", "Strategy C", "the strategy matrix", c},
		{"inverse", "Its inverse C⁻¹", "the inverse of the strategy, which correlates the noise", inverse},
		{"covariance", "Covariance of the noise, C⁻¹C⁻ᵀ", "the covariance of the noise of two steps, at noise multiplier 1", covariance},
	} {
		f := Figure{Title: m.title, Columns: []string{"row", "entries"}}
		f.Alt = fmt.Sprintf("The first %d steps of %s: positive entries in one colour, negative in another, those below 2 %% of the largest left out; that is %.4g in size.", n, m.what, newHeat(m.rows).size)
		f.SVG = picture(m.id, f.Title, f.Alt, m.rows)
		for i := range min(6, n) {
			text := ""
			for _, v := range m.rows[i][:min(6, n)] {
				text += strconv.FormatFloat(v, 'f', 3, 64) + " "
			}
			f.Rows = append(f.Rows, []string{strconv.Itoa(i), text})
		}
		list = append(list, f)
	}
	return list
}

// square returns an n × n matrix of zeros.
func square(n int) [][]float64 {
	rows := make([][]float64, n)
	for i := range rows {
		rows[i] = make([]float64, n)
	}
	return rows
}
