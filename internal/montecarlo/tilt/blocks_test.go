package tilt

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/must"
	"minsep/internal/stream"
	"minsep/sampling"
)

// TestTablesOfOthersAreRefused: a proposal that was made with other tables can be read,
// but no tuples are drawn by it.
func TestTablesOfOthersAreRefused(t *testing.T) {
	spec, _, _ := ownerOfTwoSteps(2, .3, .9, true, .4)
	p := blockProposal(t, Config{spec, .4, montecarlo.P}, 4, 1, 0)
	for tables, accepted := range map[int]bool{0: false, 1: false, tupleTables: true, tupleTables + 1: false} {
		p.Moment.Tables = tables
		if err := p.Validate(); err != nil {
			t.Errorf("tables %d: %v", tables, err)
		}
		if _, err := NewVerifier(p, stream.PublicKey("test", nil)); (err == nil) != accepted {
			t.Errorf("tables %d: %v", tables, err)
		}
	}
}

// blockProposal is a proposal in blocks for an owner of two steps, whatever NewProposal would
// choose.
func blockProposal(t *testing.T, c Config, order, size, draws int) Proposal {
	t.Helper()
	s := must.Get(newBlockSource(t.Context(), newLawFamily(c.Spec), c.Spec, likelihood.NewColumns(c.Spec.Strategy), order, size, false, math.Inf(1)))(t)
	p := Proposal{Config: c, Method: Tilted, Moment: Moment{Order: order, LogN: s.logN(), Block: size, Tables: tupleTables}, Draws: draws}
	p.Slack = lossError(c.Epsilon) + 2*s.walkError
	p.Bound = p.Moment.bound(c.Epsilon, max(1, c.Spec.MaxExamplesPerOwner)) * (1 + 2*p.Slack)
	p.Divergence = min(1, p.Bound)
	return p
}

// ownerOfTwoSteps has the exact divergences of an owner of k examples by quadrature.
func ownerOfTwoSteps(k int, prob, sigma float64, warm bool, epsilon float64) (spec montecarlo.Spec, pq, qp float64) {
	c := toeplitz(2, 1, .5)
	spec = ownersOf(specOf(sampling.BMinSep{Prob: prob, Steps: 2, MinSep: 2, WarmStart: warm}, c, sigma), k)
	list := patterns(2, 2, prob, warm)
	var means [][]float64
	var weights []float64
	var add func(left int, mean []float64, weight float64)
	add = func(left int, mean []float64, weight float64) {
		if left == 0 {
			means, weights = append(means, mean), append(weights, weight)
			return
		}
		for _, a := range list {
			x := image(c, a.hits)
			add(left-1, []float64{mean[0] + x[0], mean[1] + x[1]}, weight*a.prob)
		}
	}
	add(k, []float64{0, 0}, 1)
	pq, qp = twoSteps(means, weights, sigma, epsilon)
	return spec, pq, qp
}

// TestMeanInBlocksIsTheDivergence: with exact ratios means of values are the divergence, and with
// randomised ones little above it.
func TestMeanInBlocksIsTheDivergence(t *testing.T) {
	for _, k := range []int{1, 2, 3} {
		for _, warm := range []bool{false, true} {
			spec, want, _ := ownerOfTwoSteps(k, .3, .9, warm, .4)
			for size := 1; size <= 2; size++ {
				for _, draws := range []int{0, 20} {
					if k == 1 && draws > 0 || k == 3 && draws == 0 {
						continue
					}
					proposal := blockProposal(t, Config{spec, .4, montecarlo.P}, 2*k, size, draws)
					v, err := NewVerifier(proposal, stream.PublicKey("test", []byte(fmt.Sprint(k, warm, size, draws))))
					if err != nil {
						t.Fatal(err)
					}
					if proposal.Divergence < want {
						t.Errorf("k=%d warm=%v size=%d: %v is proven, the divergence is %v", k, warm, size, proposal.Divergence, want)
					}
					samples := 12000
					err = meanError(v, samples, want)
					if draws == 0 && err != nil {
						t.Errorf("k=%d warm=%v size=%d: %v", k, warm, size, err)
					}
					if draws > 0 {
						if err != nil && !above(v, samples, want) {
							t.Errorf("k=%d warm=%v size=%d draws=%d: %v", k, warm, size, draws, err)
						}
					}
				}
			}
		}
	}
}

// above says that a mean is above want, by at most 5 %.
func above(v *Verifier, samples int, want float64) bool {
	buffer := make([]float64, samples)
	v.Values(buffer, 0)
	sum := 0.0
	for _, x := range buffer {
		sum += x
	}
	mean := sum / float64(samples)
	return mean > want && mean < 1.05*want
}

// TestOwnersOfManyHaveProposals: five and eight examples per owner have values with M far below 1,
// where exact tables of orders above five are too large.
func TestOwnersOfManyHaveProposals(t *testing.T) {
	c := benchCase(t, 200, 16, 128./50000, 1.1, 6)
	c.Spec.MaxExamplesPerOwner = 5
	proposal := must.Get(NewProposal(t.Context(), c, math.Inf(1)))(t)
	if proposal.Bound > .01 || proposal.Moment.Block == 0 || proposal.Draws != ownerDraws(5) {
		t.Errorf("proposal %+v: M is too large", proposal)
	}
	if s, err := familyOf(c.Spec).source(t.Context(), c.Spec, likelihood.NewColumns(c.Spec.Strategy), proposal.Moment.Order, 0); !errors.Is(err, ErrTable) {
		t.Errorf("order %d has an exact table: %v, %v", proposal.Moment.Order, s, err)
	}
	v := must.Get(NewVerifier(proposal, stream.PublicKey("test", nil)))(t)
	values := make([]float64, 64)
	v.Values(values, 0)
	again := make([]float64, 16)
	v.Fork().Values(again, 40)
	if !slices.Equal(again, values[40:56]) {
		t.Error("a fork has other values")
	}
}

// TestLimitedWorkServesOwners: those who limit the work of tables have an M for owners that is not
// far above that of all orders.
func TestLimitedWorkServesOwners(t *testing.T) {
	for _, k := range []int{3} {
		c := benchCase(t, 200, 16, 128./50000, .3+.16*float64(k), 8)
		c.Spec.MaxExamplesPerOwner = k
		all := must.Get(NewProposal(t.Context(), c, math.Inf(1)))(t)
		some := must.Get(NewProposal(t.Context(), c, 3e6))(t)
		if some.Bound > 10*all.Bound {
			t.Errorf("k=%d: M = %g with limited work, %g without: %v, %v", k, some.Bound, all.Bound, some.Moment, all.Moment)
		}
	}
}

// TestOneExampleInBlocks: at a min-sep whose exact tables end at order 2, and a small ε, blocks
// have a hundredth of the M, and the same divergence.
func TestOneExampleInBlocks(t *testing.T) {
	c := benchCase(t, 800, 240, .001, 1.2, 1)
	proposal := must.Get(NewProposal(t.Context(), c, math.Inf(1)))(t)
	if proposal.Moment.Block == 0 || proposal.Moment.Order < 4 || proposal.Draws != 0 {
		t.Fatalf("proposal %+v: not in blocks", proposal)
	}
	s := must.Get(familyOf(c.Spec).source(t.Context(), c.Spec, likelihood.NewColumns(c.Spec.Strategy), 2, math.Inf(1)))(t)
	pairs := Moment{Order: 2, LogN: s.logN(), Tables: s.version}
	exact := Proposal{Config: c, Method: Tilted, Moment: pairs, Bound: pairs.bound(c.Epsilon, 1) * (1 + 1e-6), Divergence: 1, Slack: 1e-7}
	if proposal.Bound > exact.Bound/30 {
		t.Errorf("M = %g in blocks, %g with pairs", proposal.Bound, exact.Bound)
	}
	mean := func(p Proposal) (mean, variance float64) {
		v := must.Get(NewVerifier(p, stream.PublicKey("test", nil)))(t)
		values := make([]float64, 6000)
		v.Values(values, 0)
		for _, x := range values {
			mean, variance = mean+x/6000, variance+x*x/6000
		}
		return mean, (variance - mean*mean) / 6000
	}
	blocks, variance := mean(proposal)
	want, other := mean(exact)
	if diff := math.Abs(blocks - want); diff > reject9*math.Sqrt(variance+other) || math.Sqrt(variance) > .1*blocks {
		t.Errorf("mean %g ± %g in blocks, %g ± %g with pairs", blocks, math.Sqrt(variance), want, math.Sqrt(other))
	}
	t.Logf("%+v: M %g, %g; mean %g ± %g, %g ± %g", proposal.Moment, proposal.Bound, exact.Bound, blocks, math.Sqrt(variance), want, math.Sqrt(other))
}
