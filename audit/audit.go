package audit

import (
	"fmt"
	"math"
	"math/rand/v2"

	"minsep/accounting"
	"minsep/internal/param"
)

// Mechanism is the target of an attack: the mechanism of a certificate, and who is told from
// nobody.
type Mechanism struct {
	Run             accounting.Run // sampler and strategy
	NoiseMultiplier float64        // σ, above 0, in units of the clip norm
	Epsilon, Delta  float64        // the claim
	Examples        int            // of the canary, 1 to Run.MaxExamplesPerOwner; 0 for all that the claim protects
}

// Of returns the mechanism of a certificate.
func Of(c *accounting.Certificate) Mechanism {
	return Mechanism{Run: c.Run, NoiseMultiplier: c.NoiseMultiplier, Epsilon: c.Epsilon, Delta: c.Delta}
}

// Limits of an audit.
const (
	maxPatterns = 200_000   // of participations, summed for each observation
	maxNodes    = 4_000_000 // steps times min-sep, of the recursion
)

// Attack scores observations of one mechanism. It is not safe for concurrent use.
type Attack struct {
	mechanism Mechanism
	process   *process
	columns   [][]float64
	patterns  []pattern // nil where the recursion serves
	ratio     ratio
	examples  int
	power     float64 // the log ratio is this times the log ratio of one example
	adapted   *adapted
	// Exact says that scores are the logarithms of the true likelihood ratio. Otherwise they
	// order observations about as it does: a weaker attack, with bounds that hold all the same.
	Exact bool
	// Cut says that the batches have a maximum size, which the scores do not know.
	Cut bool
}

// NewAttack prepares an attack. Its errors are *param.Error where there is none for the
// mechanism.
func NewAttack(m Mechanism) (*Attack, error) {
	c := param.Checker{Package: "audit"}
	c.Add(m.Run.Validate())
	c.Positive("noise multiplier", m.NoiseMultiplier)
	c.Require(m.Epsilon >= 0 && !math.IsInf(m.Epsilon, 1), "epsilon", m.Epsilon, "must be finite and at least 0")
	c.Require(m.Delta >= 0 && m.Delta < 1, "delta", m.Delta, "must be at least 0 and below 1")
	most := max(1, m.Run.MaxExamplesPerOwner)
	c.Require(m.Examples >= 0 && m.Examples <= most, "canary examples", m.Examples, fmt.Sprintf("must be from 1 to %d, the most that the claim protects together", most))
	if err := c.Err(); err != nil {
		return nil, err
	}
	proc, err := newProcess(m.Run.Sampler)
	if err != nil {
		return nil, err
	}
	a := &Attack{mechanism: m, process: proc, columns: matrix(m.Run.Strategy), examples: m.Examples, power: 1, Exact: true, Cut: m.Run.Sampler.Truncation != nil}
	if a.examples == 0 {
		a.examples = most
	}
	scheme := m.Run.Sampler.Scheme()
	if a.examples > 1 || bands(a.columns) > scheme.Separation() {
		if a.patterns = proc.patterns(a.examples, maxPatterns); a.patterns == nil {
			a.Exact, a.power = false, float64(a.examples)
		}
	}
	if nodes := scheme.NumSteps() * min(scheme.Separation(), scheme.NumSteps()); a.patterns == nil && nodes > maxNodes {
		return nil, &param.Error{Package: "audit", Param: "steps times min-sep", Value: nodes, Rule: fmt.Sprintf("must be at most %d to be audited", maxNodes)}
	}
	a.ratio = a.newRatio(a.columns, m.NoiseMultiplier)
	return a, nil
}

// newRatio is the likelihood ratio for a C, given by columns, and a noise multiplier.
func (a *Attack) newRatio(columns [][]float64, sigma float64) ratio {
	if a.patterns != nil {
		return newSumRatio(a.patterns, columns, sigma)
	}
	return newChainRatio(a.process, columns, sigma)
}

// bands is how many entries the longest column has.
func bands(columns [][]float64) (most int) {
	for _, c := range columns {
		most = max(most, len(c))
	}
	return most
}

// Steps is the number of steps, which each observation has.
func (a *Attack) Steps() int { return len(a.columns) }

// Sample is a summary of observations: their scores, and counts by step.
type Sample struct {
	LogRatios []float64 // ln f(y), or its substitute
	adapted   []float64 // the same by the adapted attack, where there is one
	squares   []float64 // Σ y_t²
	products  []float64 // Σ y_t y_{t+1}
	small     []int     // observations with |y_t| at most smallest·σ, by step
	same      []int     // observations in which y_t and y_{t-1} have one sign, by step
}

// smallest is the median of |z|.
const smallest = 0.6744897501960817

// Merge adds the observations of another sample.
func (s *Sample) Merge(o *Sample) {
	s.LogRatios = append(s.LogRatios, o.LogRatios...)
	s.adapted = append(s.adapted, o.adapted...)
	s.squares = append(s.squares, o.squares...)
	s.products = append(s.products, o.products...)
	if s.small == nil {
		s.small, s.same = make([]int, len(o.small)), make([]int, len(o.same))
	}
	for t := range o.small {
		s.small[t] += o.small[t]
		s.same[t] += o.same[t]
	}
}

// Add adds an observation to a sample: the released sums of one coordinate, one a step, in
// units of the clip norm, less all that the adversary knows, which is everybody else's part.
func (a *Attack) Add(s *Sample, sums []float64) {
	y := multiply(a.columns, sums)
	if a.adapted != nil {
		s.adapted = append(s.adapted, a.adapted.log(y))
	}
	a.addOutput(s, y)
}

// addOutput adds y = C x + σ z.
func (a *Attack) addOutput(s *Sample, y []float64) {
	if s.small == nil {
		s.small, s.same = make([]int, len(y)), make([]int, len(y))
	}
	squares, products := 0.0, 0.0
	for t, v := range y {
		squares += v * v
		if math.Abs(v) <= smallest*a.mechanism.NoiseMultiplier {
			s.small[t]++
		}
		if t > 0 {
			products += v * y[t-1]
			if v*y[t-1] > 0 {
				s.same[t]++
			}
		}
	}
	s.LogRatios = append(s.LogRatios, a.power*a.ratio.log(y))
	s.squares = append(s.squares, squares)
	s.products = append(s.products, products)
}

// simulate adds an observation that the mechanism itself gives, without keys, batches and noise
// of the product.
func (a *Attack) simulate(s *Sample, with bool, rng *rand.Rand) {
	x := make([]float64, a.Steps())
	if with {
		for range a.examples {
			a.process.draw(x, rng)
		}
	}
	y := multiply(a.columns, x)
	for t := range y {
		y[t] += a.mechanism.NoiseMultiplier * rng.NormFloat64()
	}
	a.addOutput(s, y)
}

// Judgement is the outcome of an audit.
type Judgement struct {
	Bound
	Adapted     float64      // lower confidence bound of ε by the adapted attack, 0 without one
	OneRun      float64      // lower bound of ε by [OneRun]; 0 if it shows nothing
	Differences []Difference // scores that do not follow the mechanism's distribution
	Compared    bool         // the scores were compared with their distribution
	Swapped     bool         // those without the canary look as if they had it, and the others as if not
}

// Verdicts of an audit.
const (
	Exceeds = "EXCEEDS" // less private than the certificate says
	Differs = "DIFFERS" // not the mechanism of the certificate
	Within  = "within"  // nothing was found
)

// Verdict is one of the verdicts.
func (j Judgement) Verdict(epsilon float64) string {
	switch {
	case j.Epsilon > epsilon:
		return Exceeds
	case len(j.Differences) > 0:
		return Differs
	}
	return Within
}

// Sizes of the sample that observations are compared with.
const (
	leastReference = 20_000
	mostReference  = 200_000
)

// Judge judges observations with and without the canary, each independent of the others. Where
// the true likelihood ratio is known and batches are not cut, it compares them with as many
// simulated observations, drawn from rng.
func (a *Attack) Judge(with, without *Sample, rng *rand.Rand) Judgement {
	m := a.mechanism
	j := Judgement{Bound: NewBound(with.LogRatios, without.LogRatios, m.Epsilon, m.Delta)}
	if a.adapted != nil {
		j.Adapted = a.adapted.bound(with.adapted, without.adapted, m.Delta)
		j.Epsilon = max(j.Epsilon, j.Adapted)
	}
	j.OneRun = OneRun(with.LogRatios, without.LogRatios, oneRunGuesses(len(with.LogRatios)+len(without.LogRatios)), m.Delta)
	j.Swapped = swapped(with.LogRatios, without.LogRatios)
	if !a.Exact || a.Cut {
		return j
	}
	j.Compared = true
	for _, side := range []struct {
		name     string
		is       bool
		observed *Sample
	}{{"with the canary", true, with}, {"without the canary", false, without}} {
		reference := &Sample{}
		for range max(leastReference, min(mostReference, len(side.observed.LogRatios))) {
			a.simulate(reference, side.is, rng)
		}
		for _, d := range compare(side.observed, reference) {
			d.Score += " " + side.name
			j.Differences = append(j.Differences, d)
		}
	}
	return j
}

// swapped reports whether log likelihood ratios say that the two samples stand for each other: the
// sample without the canary has more of those above 0 than the one with it, by more than chance
// makes it with probability FalseAlarm.
func swapped(with, without []float64) bool {
	above := func(v float64) bool { return v > 0 }
	d := compareCounts("", "", count(with, above), len(with), count(without, above), len(without))
	return float64(d.Count) < d.Expected && d.LogP+math.Ln2 < math.Log(FalseAlarm)
}

// oneRunGuesses is on how many of m canaries [OneRun] guesses: the tenth that is the surest.
func oneRunGuesses(m int) int { return max(2, m/10) }
