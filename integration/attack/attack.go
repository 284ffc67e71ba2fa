package attack

import (
	"fmt"
	"math"
	"math/rand/v2"

	"minsep/internal/accounting"
	"minsep/internal/param"
)

// Mechanism is the target of an attack: the certified mechanism, and the canary whose presence is
// to be detected.
type Mechanism struct {
	Run             accounting.Run // sampler and strategy
	NoiseMultiplier float64        // σ, above 0, in units of the clip norm
	Epsilon, Delta  float64        // the claim
	Examples        int            // that the canary owns: 1 to Run.MaxExamplesPerOwner, or 0 for that maximum
}

// Of returns the mechanism of a certificate.
func Of(c *accounting.Certificate) Mechanism {
	return Mechanism{Run: c.Run, NoiseMultiplier: c.NoiseMultiplier, Epsilon: c.Epsilon, Delta: c.Delta}
}

// Limits of an attack.
const (
	maxPatterns = 200_000   // participation patterns that are summed for each observation
	maxNodes    = 4_000_000 // steps times min-sep, for the recursion over states
)

// Attack scores observations of one mechanism. It keeps buffers, so it is not safe for concurrent
// use.
type Attack struct {
	mechanism Mechanism
	// process is the law of one example's participations.
	process *process
	// columns is C by columns, each from its diagonal entry down.
	columns  [][]float64
	patterns []pattern // all participation patterns of the canary; nil where the recursion serves
	ratio    ratio
	// examples is the number of the canary's examples, at least 1.
	examples int
	power    float64 // scores are this times the log ratio of one example
	adapted  *adapted
	// Exact says that scores are the logarithms of the true likelihood ratio. Otherwise they order
	// observations only roughly as it does: the attack is weaker, and its bounds still hold.
	Exact bool
	// Cut says that batches have a maximum size, which the scores ignore.
	Cut bool
}

// NewAttack prepares an attack. A mechanism without an audit, or out of range, is a *param.Error.
func NewAttack(m Mechanism) (*Attack, error) {
	c := param.Checker{}
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
		return nil, &param.Error{Param: "steps times min-sep", Value: nodes, Rule: fmt.Sprintf("must be at most %d to be audited", maxNodes)}
	}
	a.ratio = a.newRatio(a.columns, m.NoiseMultiplier)
	return a, nil
}

// newRatio returns the likelihood ratio for a C, given by its columns, and a noise multiplier.
func (a *Attack) newRatio(columns [][]float64, sigma float64) ratio {
	if a.patterns != nil {
		return newSumRatio(a.patterns, columns, sigma)
	}
	return newChainRatio(a.process, columns, sigma)
}

// bands is the number of entries of the longest column.
func bands(columns [][]float64) (most int) {
	for _, c := range columns {
		most = max(most, len(c))
	}
	return most
}

// Steps is the number of steps, the length of each observation.
func (a *Attack) Steps() int { return len(a.columns) }

// Sample summarizes observations by their scores, and by counts for each step. Its zero value is an
// empty sample.
type Sample struct {
	LogRatios []float64 // ln f(y), or its substitute where the attack is not Exact
	adapted   []float64 // scores of the adapted attack, where there is one
	squares   []float64 // Σ y_t²
	products  []float64 // Σ y_t y_{t+1}
	small     []int     // observations with |y_t| at most smallest·σ, by step
	same      []int     // observations in which y_t and y_{t-1} have one sign, by step
}

// smallest is the median of |z| for a standard normal z: half of pure noise lies within it.
const smallest = 0.6744897501960817

// Add adds an observation: the released sums of one coordinate, one a step, in units of the clip
// norm. The adversary knows everybody else's part; it must be subtracted.
func (a *Attack) Add(s *Sample, sums []float64) {
	y := multiply(a.columns, sums)
	if a.adapted != nil {
		s.adapted = append(s.adapted, a.adapted.log(y))
	}
	a.addOutput(s, y)
}

// addOutput adds the observation y = C x + σ z.
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

// simulate adds an observation of the ideal mechanism, made without the keys, batches and noise of
// the product.
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

// Judgement is the result of an attack.
type Judgement struct {
	// Bound's Epsilon also takes in Adapted.
	Bound
	Adapted     float64      // lower confidence bound of ε by the adapted attack, 0 without one
	Differences []Difference // scores that do not have the mechanism's distribution
	Compared    bool         // whether scores were compared with that distribution
}

// Verdicts of an attack.
const (
	Exceeds = "EXCEEDS" // shown to be less private than the certificate says
	Differs = "DIFFERS" // shown not to be the mechanism of the certificate
	Within  = "within"  // nothing was found, which proves nothing
)

// Verdict is the verdict for a certificate of epsilon.
func (j Judgement) Verdict(epsilon float64) string {
	switch {
	case j.Epsilon > epsilon:
		return Exceeds
	case len(j.Differences) > 0:
		return Differs
	}
	return Within
}

// Sizes of the simulated sample with which observations are compared.
const (
	leastReference = 20_000
	mostReference  = 200_000
)

// Judge judges observations with and without the canary; all must be independent. Where scores are
// exact and batches are not cut, it also compares them with simulated observations, as many as
// there are but within the limits above. rng draws these.
func (a *Attack) Judge(with, without *Sample, rng *rand.Rand) Judgement {
	m := a.mechanism
	j := Judgement{Bound: NewBound(with.LogRatios, without.LogRatios, m.Epsilon, m.Delta)}
	if a.adapted != nil {
		j.Adapted = a.adapted.bound(with.adapted, without.adapted, m.Delta)
		j.Epsilon = max(j.Epsilon, j.Adapted)
	}
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
