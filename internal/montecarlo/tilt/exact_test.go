package tilt

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/internal/must"
	"minsep/internal/stattest"
	"minsep/internal/stream"
	"minsep/mechanism"
	"minsep/sampling"
)

// twoSteps integrates the divergences of a problem of two steps on a grid: P is the mixture of the
// given means with the given weights.
func twoSteps(means [][]float64, weights []float64, sigma, epsilon float64) (pq, qp float64) {
	const half, points = 7.0, 400
	h := 2 * half * sigma / points
	density := func(x, y float64) float64 {
		return math.Exp(-(x*x+y*y)/(2*sigma*sigma)) / (2 * math.Pi * sigma * sigma)
	}
	gamma := math.Exp(epsilon)
	for i := range points + 1 {
		for j := range points + 1 {
			x, y := 1-half*sigma+float64(i)*h, 1-half*sigma+float64(j)*h // around the middle of the means
			q, p := density(x, y), 0.0
			for k, m := range means {
				p += weights[k] * density(x-m[0], y-m[1])
			}
			pq += max(0, p-gamma*q) * h * h
			qp += max(0, q-gamma*p) * h * h
		}
	}
	return pq, qp
}

// exactCase is a problem of two steps with its divergences.
type exactCase struct {
	Config
	want float64
}

var exactCases = sync.OnceValue(makeExactCases)

func makeExactCases() (cases []exactCase) {
	c := toeplitz(2, 1, .5)
	for _, warm := range []bool{false, true} {
		for _, k := range []int{1, 2} {
			spec := ownersOf(specOf(sampling.BMinSep{Prob: .3, Steps: 2, MinSep: 2, WarmStart: warm}, c, .9), k)
			list := patterns(2, 2, .3, warm)
			var means [][]float64
			var weights []float64
			for _, a := range list {
				if k == 1 {
					means, weights = append(means, image(c, a.hits)), append(weights, a.prob)
					continue
				}
				for _, b := range list {
					x, y := image(c, a.hits), image(c, b.hits)
					means, weights = append(means, []float64{x[0] + y[0], x[1] + y[1]}), append(weights, a.prob*b.prob)
				}
			}
			cases = appendExact(cases, spec, means, weights)
		}
	}
	// Two participations of an example: by the table, not the closed form of at most one.
	twice := specOf(sampling.BMinSep{Prob: .3, Steps: 2, MinSep: 1}, toeplitz(2, 1), .9)
	var means [][]float64
	var weights []float64
	for _, a := range patterns(2, 1, .3, false) {
		means, weights = append(means, image(twice.Strategy, a.hits)), append(weights, a.prob)
	}
	cases = appendExact(cases, twice, means, weights)
	// Epochs: of two steps, of one, and with a second epoch that is cut to a step beside min-sep.
	for _, e := range []epochCase{{toeplitz(2, 1, .5), 2, 2, .9}, {toeplitz(2, 1), 1, 1, 1.1}, {toeplitz(2, 1), 1, 2, .9}, {toeplitz(2, 1, .5), 2, 3, .9}} {
		var means [][]float64
		var weights []float64
		for _, a := range epochPatterns(2, e.sep, e.epoch) {
			means, weights = append(means, image(e.c, a.hits)), append(weights, a.prob)
		}
		cases = appendExact(cases, e.spec(), means, weights)
		two := e.spec()
		two.MaxExamplesPerOwner = 2
		var sums [][]float64
		var products []float64
		for a, x := range means {
			for b, y := range means {
				sums, products = append(sums, []float64{x[0] + y[0], x[1] + y[1]}), append(products, weights[a]*weights[b])
			}
		}
		cases = appendExact(cases, two, sums, products)
	}
	// Rotation: two periods of one step, one of two, and a second one that is cut to a step.
	for _, r := range []rotationCase{{toeplitz(2, 1), 1, 1.1}, {toeplitz(2, 1, .5), 2, .9}, {toeplitz(2, 1, .5), 3, .9}} {
		var means [][]float64
		var weights []float64
		for _, a := range rotationPatterns(2, r.period) {
			means, weights = append(means, image(r.c, a.hits)), append(weights, a.prob)
		}
		cases = appendExact(cases, r.spec(), means, weights)
	}
	// At most once with columns of their own: the general closed form.
	own := specOf(sampling.BMinSep{Prob: .3, Steps: 2, MinSep: 3, WarmStart: true}, &mechanism.Strategy{Kind: mechanism.KindDense, Steps: 2, Columns: [][]float64{{.7, .9}, {1.1}}}, .9)
	means, weights = nil, nil
	for _, a := range patterns(2, 3, .3, true) {
		means, weights = append(means, image(own.Strategy, a.hits)), append(weights, a.prob)
	}
	cases = appendExact(cases, own, means, weights)
	bins := specOf(sampling.BallsInBins{Steps: 2, Period: 2}, toeplitz(2, 1, .5), .9)
	return appendExact(cases, bins, [][]float64{{1, .5}, {0, 1}}, []float64{.5, .5})
}

func appendExact(cases []exactCase, spec montecarlo.Spec, means [][]float64, weights []float64) []exactCase {
	const epsilon = 0.4
	pq, qp := twoSteps(means, weights, spec.NoiseMultiplier, epsilon)
	return append(cases, exactCase{Config{spec, epsilon, montecarlo.P}, pq}, exactCase{Config{spec, epsilon, montecarlo.Q}, qp})
}

func (c exactCase) String() string {
	s := c.Spec
	return fmt.Sprintf("law %.8s k=%d %s", s.Law.Hash(), s.MaxExamplesPerOwner, c.Direction)
}

// meanError tests the mean of values against want.
func meanError(v *Verifier, samples int, want float64) error {
	buffer := make([]float64, samples)
	v.Values(buffer, 0)
	sum, squares := 0.0, 0.0
	for _, x := range buffer {
		sum += x
		squares += (x - want) * (x - want)
	}
	return stattest.Sum(sum, want*float64(samples), squares, v.proposal.Bound)
}

func TestMeanIsTheDivergence(t *testing.T) {
	for _, c := range exactCases() {
		v := testVerifier(t, c.Config)
		if v.proposal.Method == Zero {
			t.Fatalf("%v: the divergence is not zero", c)
		}
		if v.proposal.Divergence < c.want*(1-1e-4) || v.proposal.Bound < v.proposal.Divergence {
			t.Errorf("%v: divergence %v, proven bound %v, largest value %v", c, c.want, v.proposal.Divergence, v.proposal.Bound)
		}
		samples := 20000
		if v.proposal.Draws > 0 && !stattest.Long() {
			samples = 4000
		}
		if err := meanError(v, samples, c.want); err != nil {
			t.Errorf("%v: %v", c, err)
		}
		// Wrong twins: another noise multiplier behind the same proposal; a moment that is a tenth
		// too small.
		if !stattest.Long() && c.Spec.ExamplesPerOwner() > 1 {
			continue
		}
		wrong := *v
		switch c.Direction {
		case montecarlo.P:
			wrong.proposal.Moment.LogN -= 0.1
		case montecarlo.Q:
			wrong.proposal.Epsilon -= 0.05
		}
		wrong.ready = false
		if m := wrong.proposal.Method; m != Plain && meanError(&wrong, samples, c.want) == nil {
			t.Errorf("%v: the test accepts a wrong verifier", c)
		}
	}
}

func TestNoValueAboveTheBound(t *testing.T) {
	draws := 100000
	if stattest.Long() {
		draws = 1e7
	}
	var configs []Config
	for _, c := range exactCases() {
		configs = append(configs, c.Config)
	}
	spec := specOf(sampling.BMinSep{Prob: .1, Steps: 24, MinSep: 4, WarmStart: true}, toeplitz(24, 1, .6, .4, .3), .8)
	for _, direction := range montecarlo.Directions {
		configs = append(configs, Config{spec, 2, direction})
	}
	for _, c := range configs {
		v := testVerifier(t, c)
		most := 0.0
		for batch := range uint64(draws / len(configs) / 8) {
			v.compute(batch)
			for l := range v.values {
				most = max(most, v.value(l))
				if v.values[l] < 0 || v.values[l] > v.proposal.Bound {
					t.Fatalf("%+v: value %v outside [0, %v]", c, v.values[l], v.proposal.Bound)
				}
			}
		}
		if most > v.proposal.Bound {
			t.Errorf("%+v: a value of %v before it was cut to M = %v", c, most, v.proposal.Bound)
		}
		if c.Direction == montecarlo.P && c.Spec.MaxExamplesPerOwner < 2 && most < 0.99*v.proposal.Bound {
			t.Errorf("%+v: M = %v is too large: the greatest of %d values is %v", c, v.proposal.Bound, draws/len(configs), most)
		}
	}
}

func TestValuesDependOnProposalAndKeyAlone(t *testing.T) {
	for _, c := range exactCases() {
		v := testVerifier(t, c.Config)
		whole := make([]float64, 100)
		v.Values(whole, 0)
		part := v.proposal
		part.Config = Config{} // the law is not in the JSON
		text := must.Get(json.Marshal(part))(t)
		var proposal Proposal
		must.Do(t, json.Unmarshal(text, &proposal))
		proposal.Config = c.Config
		again, err := NewVerifier(proposal, stream.PublicKey("test", []byte(fmt.Sprint(c.Epsilon, c.Direction))))
		if err != nil {
			t.Fatal(err)
		}
		for name, w := range map[string]*Verifier{"same": v, "fork": v.Fork(), "from JSON": again} {
			part := make([]float64, 37)
			w.Values(part, 51)
			for i, x := range part {
				if x != whole[51+i] {
					t.Fatalf("%v: %s: sample %d is %v, in another range %v", c, name, 51+i, x, whole[51+i])
				}
			}
		}
		var sums [3]montecarlo.Sum
		for i, x := range whole {
			sums[0].Add(x / v.proposal.Bound)
			if i == 60 {
				sums[2], _ = v.Sum(t.Context(), 0, 61)
				rest, _ := v.Sum(t.Context(), 61, 39)
				sums[2].Merge(rest)
			}
		}
		if sums[1], err = v.Sum(t.Context(), 0, 100); err != nil || sums[0] != sums[1] || sums[0] != sums[2] {
			t.Errorf("%v: sums of 100 values differ: %v, %v", c, sums, err)
		}
		other := must.Get(NewVerifier(proposal, stream.PublicKey("another", nil)))(t)
		values := make([]float64, 100)
		other.Values(values, 0)
		if fmt.Sprint(values) == fmt.Sprint(whole) {
			t.Errorf("%v: two keys give the same values", c)
		}
	}
}

func TestWrongProposalsAreRefused(t *testing.T) {
	spec := specOf(sampling.BMinSep{Prob: .1, Steps: 20, MinSep: 2}, toeplitz(20, 1, .5), 1)
	good := must.Get(NewProposal(t.Context(), Config{spec, 1, montecarlo.P}, math.Inf(1)))(t)
	for name, spoil := range map[string]func(p *Proposal){
		"a smaller moment": func(p *Proposal) { p.Moment.LogN -= 1e-6 },
		"a smaller bound":  func(p *Proposal) { p.Bound *= 0.99 },
		"a smaller order":  func(p *Proposal) { p.Moment.Order = 0 },
		"another method":   func(p *Proposal) { p.Method = Zero },
		"another σ":        func(p *Proposal) { p.Spec.NoiseMultiplier = 0.9 },
		"no slack":         func(p *Proposal) { p.Slack = 0 },
		"no bound":         func(p *Proposal) { p.Bound = 0 },
		"no direction":     func(p *Proposal) { p.Direction = "" },
	} {
		p := good
		spoil(&p)
		if _, err := NewVerifier(p, stream.PublicKey("test", nil)); err == nil {
			t.Errorf("%s: was accepted", name)
		}
	}
	coins := montecarlo.Spec{MultiOwner: &sampling.MultiOwner{Prob: .1, Steps: 20, MinSep: 2}, NoiseMultiplier: 1, Strategy: spec.Strategy}
	for _, direction := range montecarlo.Directions {
		if _, err := NewProposal(t.Context(), Config{coins, 1, direction}, math.Inf(1)); !errors.Is(err, ErrNotTilted) {
			t.Errorf("multi-owner, direction %s: got %v", direction, err)
		}
	}
	tiny := spec // M underflows: the values are small, but not undefined
	tiny.NoiseMultiplier = 200
	for _, direction := range montecarlo.Directions {
		v := testVerifier(t, Config{tiny, 60, direction})
		if sum, err := v.Sum(t.Context(), 0, 16); err != nil || sum.Mean(16)*v.proposal.Bound > 1e-200 {
			t.Errorf("direction %s: mean %v of M = %v, %v", direction, sum.Mean(16), v.proposal.Bound, err)
		}
	}
	crowd := spec
	crowd.MaxExamplesPerOwner = 50
	if _, err := NewProposal(t.Context(), Config{crowd, 1, montecarlo.P}, math.Inf(1)); !errors.Is(err, ErrNotTilted) {
		t.Errorf("50 examples per owner: got %v", err)
	}
	negative := spec
	negative.Strategy = &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 20, Toeplitz: []float64{1, -.5}}
	var fault *ParamError
	if _, err := NewProposal(t.Context(), Config{negative, math.NaN(), "X"}, math.Inf(1)); !errors.As(err, &fault) {
		t.Errorf("got %v, want the faults of the parameters", err)
	}
}
