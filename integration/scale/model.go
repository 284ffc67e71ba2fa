package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"minsep/sampling/ownergraph"
	"minsep/transforms/contribution"
)

// readPoints reads points, one a line.
func readPoints(path string) (points []point, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		var p point
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, n, err)
		}
		points = append(points, p)
	}
	return points, lines.Err()
}

// line is y = Base + Slope·x, by least squares.
type line struct {
	Base, Slope float64
	Worst       float64 // largest |residual| / y
}

func fit(x, y []float64) (l line) {
	n := float64(len(x))
	var sx, sy, sxx, sxy float64
	for i := range x {
		sx, sy, sxx, sxy = sx+x[i], sy+y[i], sxx+x[i]*x[i], sxy+x[i]*y[i]
	}
	l.Slope = (n*sxy - sx*sy) / (n*sxx - sx*sx)
	l.Base = (sy - l.Slope*sx) / n
	for i := range x {
		l.Worst = max(l.Worst, math.Abs(l.at(x[i])-y[i])/y[i])
	}
	return l
}

// proportional is y = Slope·x, by least squares.
func proportional(x, y []float64) (l line) {
	var sxx, sxy float64
	for i := range x {
		sxx, sxy = sxx+x[i]*x[i], sxy+x[i]*y[i]
	}
	l.Slope = sxy / sxx
	for i := range x {
		if y[i] > 0 {
			l.Worst = max(l.Worst, math.Abs(l.at(x[i])-y[i])/y[i])
		}
	}
	return l
}

func (l line) at(x float64) float64 { return l.Base + l.Slope*x }

const (
	packedPrefix  = "bytes shuffled: "
	verdictPrefix = packedPrefix + "verdicts after round "
	modelK        = 2 // examples per owner that the model is of
	verdictBytes  = 18
	lawRounds     = 12 // of most points by which the law is known
)

// roundsShown are the rounds of the table of the law.
var roundsShown = []int{0, 2, 4, 6, 8, 10, 12, 16, 20, 24, 28, 32}

// shuffles are the shuffles of bound, in their order; reports and decisions of all rounds together.
var shuffles = []struct{ name, what string }{
	{"edges", "edges, to the bucket of their example"},
	{"memberships", "each owner's examples"},
	{"examples", "examples with their owners, which wait"},
	{"verdicts", "what owners say of undecided examples, all rounds"},
	{"reports", "what undecided examples say to owners, all rounds"},
	{"decisions", "examples that owners refused"},
	{"kept examples", "to the counting of neighbourhoods"},
	{"shares", "kept examples to their owners"},
	{"lists", "owners' lists to their examples"},
	{"rows", "kept examples, to the range of their id"},
}

// bytes is how many bytes a point gave to a shuffle.
func (p point) bytes(shuffle string) (n float64) {
	if shuffle != "verdicts" {
		return float64(p.Counts[packedPrefix+shuffle])
	}
	for name, v := range p.Counts {
		if strings.HasPrefix(name, verdictPrefix) {
			n += float64(v)
		}
	}
	return n
}

// undecided is the part of the edges that is undecided after a round.
func (p point) undecided(round int) float64 {
	return float64(p.Counts[fmt.Sprintf("%s%d", verdictPrefix, round)]) / float64(verdictBytes) / float64(p.Edges)
}

// model predicts the cost of bound from the points.
type model struct {
	measured  []point // rounds as planned, of random graphs, by size
	law       []point // many rounds
	planned   []point // the measured points with two rounds or more
	hot       []point
	cpu       line // µs per edge, over log10 of the edges
	peak      line // GiB, over edges
	fileBytes line // of the graph, over edges
}

func newModel(points []point) *model {
	m := new(model)
	var size, logSize, perEdge, peak, file []float64
	for _, p := range points {
		switch {
		case strings.HasPrefix(p.Shape, "hot") || p.Shape == "wide-example":
			m.hot = append(m.hot, p)
		case p.Rounds > 0:
			m.law = append(m.law, p)
		default:
			m.measured = append(m.measured, p)
			if p.undecided(lawRounds) == 0 && p.undecided(2) > 0 {
				m.planned = append(m.planned, p)
			}
		}
		if p.Stage == boundStage && p.Shape == "uniform" && p.K == modelK && p.Rounds == 0 {
			e := float64(p.Edges)
			size, logSize, perEdge, peak, file = append(size, e), append(logSize, math.Log10(e)), append(perEdge, p.CPU/e*1e6), append(peak, p.PeakGiB), append(file, float64(p.Files))
		}
	}
	m.cpu, m.peak, m.fileBytes = fit(logSize, perEdge), fit(size, peak), proportional(size, file)
	return m
}

// shuffled returns the bytes per edge that a shuffle takes, over the sizes of a shape with many
// rounds.
func (m *model) shuffled(shape, shuffle string) line {
	var x, y []float64
	for _, p := range m.law {
		if p.Shape == shape && p.K == modelK {
			x, y = append(x, float64(p.Edges)), append(y, p.bytes(shuffle))
		}
	}
	return proportional(x, y)
}

// total is the bytes per edge of all shuffles.
func (m *model) total(shape string) (sum float64) {
	for _, s := range shuffles {
		sum += m.shuffled(shape, s.name).Slope
	}
	return sum
}

// report prints the tables of docs/background/scale.md.
func (m *model) report(out io.Writer) {
	row := func(cells ...string) { fmt.Fprintln(out, "| "+strings.Join(cells, " | ")+" |") }
	table := func(heading []string, write func()) {
		row(heading...)
		row(slices.Repeat([]string{"---"}, len(heading))...)
		write()
		fmt.Fprintln(out)
	}
	num := func(v float64) string { return fmt.Sprintf("%.3g", v) }

	table([]string{"stage", "graph", "edges", "k", "wall s", "CPU-s", "µs per edge", "peak GiB"}, func() {
		for _, p := range append(slices.Clone(m.measured), m.hot...) {
			k := fmt.Sprint(p.K)
			if p.K == 0 {
				k = "all"
			}
			row(strings.TrimSpace(strings.ReplaceAll(p.Stage, "-", " ")+" "+p.Scheme), p.Shape, num(float64(p.Edges)), k, num(p.Wall), num(p.CPU), num(p.CPU/float64(p.Edges)*1e6), fmt.Sprintf("%.2f", p.PeakGiB))
		}
	})
	heading := []string{"graph", "edges", "k", "undecided edges after round 0"}
	for _, round := range roundsShown[1:] {
		heading = append(heading, fmt.Sprint(round))
	}
	table(heading, func() {
		for _, p := range append(slices.Clone(m.law), m.planned...) {
			cells := []string{p.Shape, num(float64(p.Edges)), fmt.Sprint(p.K)}
			for _, round := range roundsShown {
				if u := p.undecided(round); u > 0 || round <= p.Rounds {
					cells = append(cells, fmt.Sprintf("%.2g", u))
				} else {
					cells = append(cells, "")
				}
			}
			row(cells...)
		}
	})
	table([]string{"shuffle", "what", "B per edge, uniform", "power-law", "worst deviation"}, func() {
		for _, s := range shuffles {
			u, p := m.shuffled("uniform", s.name), m.shuffled("power-law", s.name)
			row(s.name, s.what, num(u.Slope), num(p.Slope), fmt.Sprintf("%.1f %%", 100*max(u.Worst, p.Worst)))
		}
		row("all", "", num(m.total("uniform")), num(m.total("power-law")), "")
	})
	fmt.Fprintf(out, "CPU: %.2f + %.2f · log10(edges) µs per edge (worst deviation %.0f %%).\nPeak memory of the direct runner: %.2f GiB + %.0f B per edge (%.0f %%).\n\n",
		m.cpu.Base, m.cpu.Slope, 100*m.cpu.Worst, m.peak.Base, m.peak.Slope*(1<<30), 100*m.peak.Worst)
	table([]string{"edges", "CPU-h", "TB shuffled", "buckets", "rounds", "edges left to one worker, at most", "GB shuffled a worker of 100", "of 10,000"}, func() {
		for _, edges := range []float64{1e8, 1e9, 1e10} {
			c := contribution.Config{Bound: ownergraph.Bound{MaxExamplesPerOwner: modelK}, Edges: int64(m.fileBytes.at(edges)) / 4}
			sizes := c.Sizes()
			left := edges * contribution.Undecided(modelK, sizes.Rounds/2)
			bytes := edges * max(m.total("uniform"), m.total("power-law"))
			row(num(edges), num(edges*m.cpu.at(math.Log10(edges))/1e6/3600), num(bytes/1e12), fmt.Sprint(sizes.Buckets), fmt.Sprint(sizes.Rounds), num(left), num(bytes/1e9/100), num(bytes/1e9/1e4))
		}
	})
}
