package sampling

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"sort"

	"minsep/internal/param"
)

// LawScheme is the scheme of a [Law] of your own.
const LawScheme = "law"

var lawKind = Kind{
	Name:  LawScheme,
	Help:  "a law of a program of your own (docs/library.md), from the file --law",
	Takes: []string{"law"},
	check: func(p Params, c *param.Checker) {
		const rule = "must be left out for law: the law says how often an example takes part"
		c.Require(p.MinSep == 0, "min-sep", p.MinSep, rule)
		c.Require(p.BatchSize == 0, "batch size", p.BatchSize, rule)
		c.Require(p.Prob == 0, "prob", p.Prob, rule)
		if p.Law == nil {
			c.Require(false, "law", nil, "must be given: a table that sampling.Law.Tabulate makes, as JSON")
			return
		}
		c.Add(p.Law.Validate())
		c.Requiref(p.Steps == p.Law.Steps, "steps", p.Steps, "must be %d, as the law has", p.Law.Steps)
	},
	spec: func(p Params, _ Population) (Spec, error) { return Spec{Law: p.Law}, nil },
	scheme: func(s Spec) Scheme {
		if s.Law == nil {
			return nil
		}
		return s.Law
	},
}

// Name returns [LawScheme].
func (*Table) Name() string { return LawScheme }

// String says which table it is.
func (t *Table) String() string { return fmt.Sprintf("of %d steps, SHA-256 %s", t.Steps, t.Hash()) }

// NumSteps returns Steps.
func (t *Table) NumSteps() int { return t.Steps }

// ExpectedBatchSize is the mean over all steps; [Table.Rates] has each step's.
func (t *Table) ExpectedBatchSize(examples int64) float64 {
	mean, _ := t.TotalMoments(examples)
	return mean / float64(t.Steps)
}

// TotalMoments returns mean and variance of the number of participations of all examples in all
// steps.
func (t *Table) TotalMoments(examples int64) (mean, variance float64) {
	return float64(examples) * t.facts.mean, float64(examples) * t.facts.variance
}

// Never returns the probability that an example takes part at no step.
func (t *Table) Never() float64 { return t.facts.never }

// MaxParticipations returns how often an example takes part at most.
func (t *Table) MaxParticipations() int { return t.facts.most }

// participationCount is about the number of participations from a point on.
type participationCount struct {
	mean, variance float64
	never          float64 // probability of none
	most           int
}

// mixed is what holds with a probability, and other else, but for never. A mean that is the same in
// both stays exactly so.
func (c participationCount) mixed(prob float64, other participationCount) participationCount {
	apart := c.mean - other.mean
	return participationCount{
		mean:     other.mean + prob*apart,
		variance: other.variance + prob*(c.variance-other.variance) + prob*(1-prob)*apart*apart,
		most:     max(c.most, other.most),
	}
}

// count goes through the run backward.
func (t *Table) count() participationCount {
	rows := make([][]participationCount, t.Steps) // by the places of the choices
	from := func(at Point) participationCount {
		if at.Step >= t.Steps {
			return participationCount{never: 1}
		}
		return rows[at.Step][t.place(at)]
	}
	for i := t.Steps - 1; i >= 0; i-- {
		rows[i] = make([]participationCount, len(t.Row(i)))
		for k, x := range t.Row(i) {
			in := from(x.In.to(i))
			in.mean, in.never, in.most = in.mean+1, 0, in.most+1
			if x.Threshold < certain {
				out := from(x.Out.to(i))
				in = in.mixed(x.Prob(), out)
				in.never = x.Complement() * out.never
			}
			rows[i][k] = in
		}
	}
	all, sum, never := participationCount{}, 0.0, 0.0
	for _, s := range t.Starts {
		one := from(s.point())
		sum += s.Prob()
		never += s.Prob() * one.never
		all = one.mixed(s.Prob()/sum, all)
	}
	all.never = never
	return all
}

// Rates returns the probability that an example takes part at each step. It is not to be changed.
func (t *Table) Rates() []float64 { return t.facts.rates }

// marginals are the rates.
func (t *Table) marginals() []float64 {
	rates, reached := make([]float64, t.Steps), make([][]float64, t.Steps)
	for i := range reached {
		reached[i] = make([]float64, len(t.Row(i)))
	}
	add := func(at Point, prob float64) {
		if at.Step < t.Steps {
			reached[at.Step][t.place(at)] += prob
		}
	}
	for _, s := range t.Starts {
		add(s.point(), s.Prob())
	}
	for i, row := range reached {
		for k, x := range t.Row(i) {
			rates[i] += row[k] * x.Prob()
			add(x.In.to(i), row[k]*x.Prob())
			if x.Threshold < certain {
				add(x.Out.to(i), row[k]*x.Complement())
			}
		}
	}
	return rates
}

// place is the index of a point in the row of its step.
func (t *Table) place(at Point) int {
	k, _ := slices.BinarySearchFunc(
		t.Row(at.Step),
		at.State,
		func(x Choice, state int) int { return cmp.Compare(x.State, state) },
	)
	return k
}

// Process implements [Independent]. Every probability that an example takes part is met to 2^-62.
func (t *Table) Process() Process {
	b := processBuilder{table: t, process: &TableProcess{}, known: map[Point]int32{}}
	for _, s := range t.Starts {
		end := s.Weight
		if last := len(b.process.starts) - 1; last >= 0 {
			end += b.process.starts[last]
		}
		b.process.starts = append(b.process.starts, end)
		b.process.first = append(b.process.first, b.visit(s.point()))
	}
	for len(b.open) > 0 { // points that participations lead to
		k := b.open[len(b.open)-1]
		b.open = b.open[:len(b.open)-1]
		b.process.points[k].in = b.visit(b.in[k])
	}
	return b.process
}

// TableProcess draws the participations of one example of a [Table].
//
// Points that follow each other without a participation are cut into segments. One word decides at
// which point of a segment the example takes part, if at any: survive has 2^64 times the probability
// that it has not taken part, from the segment's begin to each of its points and to its end. A
// segment ends where this falls below one half.
type TableProcess struct {
	starts   []uint64 // sums of the weights of the starts
	first    []int32  // by start: its point; -1 for none
	points   []tablePoint
	segments []segment
}

// tablePoint is a point of a run.
type tablePoint struct{ step, segment, in int32 }

// segment is some points in a row.
type segment struct {
	first   int32    // point
	next    int32    // the point after its last one without a participation
	survive []uint64 // one more than it has points; the first is 2^64-1 and stands for 2^64
}

// processBuilder follows a table.
type processBuilder struct {
	table   *Table
	process *TableProcess
	known   map[Point]int32
	in      []Point // by point
	open    []int32 // points of which in is not known yet
}

// visit returns the number of a point, and adds it and all points after it.
func (b *processBuilder) visit(at Point) int32 {
	if at.Step >= b.table.Steps {
		return -1
	}
	if k, known := b.known[at]; known {
		return k
	}
	begin := int32(len(b.process.points))
	last := -1 // segment
	for {
		if k, known := b.known[at]; at.Step >= b.table.Steps || known {
			if last >= 0 {
				b.process.segments[last].next = -1
				if known {
					b.process.segments[last].next = k
				}
			}
			return begin
		}
		k := int32(len(b.process.points))
		x, _ := b.table.Choice(at)
		if last < 0 || b.process.segments[last].full() {
			if last >= 0 {
				b.process.segments[last].next = k
			}
			last = len(b.process.segments)
			b.process.segments = append(
				b.process.segments,
				segment{first: k, next: -1, survive: []uint64{1<<64 - 1}},
			)
		}
		b.known[at] = k
		b.process.points = append(b.process.points, tablePoint{int32(at.Step), int32(last), -1})
		b.in, b.open = append(b.in, x.In.to(at.Step)), append(b.open, k)
		b.process.segments[last].append(x.Threshold)
		if x.Threshold == certain {
			return begin
		}
		at = x.Out.to(at.Step)
	}
}

// full says that a segment has fallen to one half.
func (s *segment) full() bool { return s.survive[len(s.survive)-1] < 1<<63 }

// append adds a point at which an example takes part with a probability in units of 2^-63.
func (s *segment) append(threshold uint64) {
	high, low := bits.Mul64(s.survive[len(s.survive)-1], certain-threshold)
	s.survive = append(s.survive, high<<1|low>>63)
}

// Draw implements [Process]. It takes a word for the start, if there are several, and one for each
// segment that it comes to.
func (p *TableProcess) Draw(dst []int32, words Words, _ int64) []int32 {
	k := p.first[0]
	if len(p.first) > 1 {
		word := words.Uint64() >> 1
		k = p.first[sort.Search(len(p.starts), func(s int) bool { return word < p.starts[s] })]
	}
	for k >= 0 {
		s := &p.segments[p.points[k].segment]
		rest := s.survive[k-s.first:]
		target, _ := bits.Mul64(words.Uint64(), rest[0]) // uniform below rest[0]
		hit := sort.Search(len(rest)-1, func(n int) bool { return rest[n+1] <= target })
		if hit == len(rest)-1 {
			k = s.next
			continue
		}
		x := p.points[k+int32(hit)]
		dst = append(dst, x.step)
		k = x.in
	}
	return dst
}
