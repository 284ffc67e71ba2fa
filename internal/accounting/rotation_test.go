package accounting

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/internal/stream"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestRotationOfOwners draws outputs of whole mechanisms: owners of one to three examples, some in
// one pool only, some in every one, take part by the sampler, and the others' coins are their own.
// δ of the outputs of a period of three steps, twice, is not above the claim.
func TestRotationOfOwners(t *testing.T) {
	const steps, epoch, samples, sigma, epsilon = 6, 3, 80_000, 0.8, 1.
	s := sampling.Rotation{Steps: steps, EpochSteps: epoch}
	run := Run{Sampler: sampling.Spec{Rotation: &s}, Strategy: mechanism.Identity(steps), MaxExamplesPerOwner: 1}
	claimed, _, err := run.Prove(sigma, epsilon)
	if err != nil {
		t.Fatal(err)
	}
	for name, pools := range map[string][][]uint32{ // by example of the owner: its pools of two, disjoint
		"one example in both":       {{0, 1}},
		"two examples, one in each": {{0}, {1}},
		"an example in one":         {{1}},
	} {
		src := stream.NewSource(stream.PublicKey(name, nil))
		sampler, rng := s.Process().Sampler(src), rand.New(rand.NewPCG(3, 4))
		var sum, squares float64
		for i := range int64(samples) {
			y := make([]float64, steps)
			for t := range y {
				y[t] = sigma * rng.NormFloat64()
			}
			for e, in := range pools {
				for _, step := range s.In(sampler.Append(nil, src.IntAddress(i, uint32(e)), i), in, 2) {
					y[step]++
				}
			}
			// P/Q of the owner's own distribution: an example in one pool misses the other.
			f := 1.
			for period := range 2 {
				here := false
				for _, in := range pools {
					for _, p := range in {
						here = here || int(p) == period
					}
				}
				if !here {
					continue
				}
				mean := 0.
				for _, v := range y[period*epoch : (period+1)*epoch] {
					mean += math.Exp((v-0.5)/sigma/sigma) / epoch
				}
				f *= mean
			}
			v := max(0, 1-math.Exp(epsilon)/f)
			sum, squares = sum+v, squares+v*v
		}
		mean := sum / samples
		sd := math.Sqrt((squares/samples - mean*mean) / samples)
		exact := name != "an example in one"
		if mean > claimed.Upper+5*sd || exact && math.Abs(mean-claimed.Upper) > 5*sd+1e-3*mean || !exact && mean > claimed.Upper/1.3 {
			t.Errorf("%s: δ = %.5f ± %.5f, claimed %.5f", name, mean, sd, claimed.Upper)
		}
	}
}

// TestRotationIsEpochMinSep: without a least distance an epoch is a period, whoever takes part.
func TestRotationIsEpochMinSep(t *testing.T) {
	for _, steps := range []int{12, 14} {
		epochs := Run{Sampler: sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: steps, MinSep: 1, EpochSteps: 4}}, Strategy: mechanism.Identity(steps), MaxExamplesPerOwner: 1}
		rotation := epochs
		rotation.Sampler = sampling.Spec{Rotation: &sampling.Rotation{Steps: steps, EpochSteps: 4}}
		pq, qp, err := epochs.Prove(0.7, 2)
		if err != nil {
			t.Fatal(err)
		}
		samePQ, sameQP, err := rotation.Prove(0.7, 2)
		if err != nil || samePQ != pq || sameQP != qp || pq.Upper <= 0 || qp.Upper <= 0 {
			t.Errorf("%d steps: %+v, %+v and %+v, %+v: %v", steps, pq, qp, samePQ, sameQP, err)
		}
		for _, r := range []*Run{&epochs, &rotation} { // the others of a pool take part as the others of an epoch do
			r.Examples, r.Sampler.Truncation = 400, &sampling.Truncation{MaxBatchSize: 150}
		}
		for _, d := range []montecarlo.Direction{montecarlo.P, montecarlo.Q} {
			want, err := epochs.TruncationCost(d, 2)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := rotation.TruncationCost(d, 2); err != nil || got != want || got.Cost <= 0 {
				t.Errorf("%d steps: truncation costs %+v and %+v: %v", steps, want, got, err)
			}
		}
	}
}

func TestRotationRefuses(t *testing.T) {
	s := sampling.Spec{Rotation: &sampling.Rotation{Steps: 12, EpochSteps: 4}}
	for want, r := range map[string]Run{
		"has 5 bands, epoch-steps is 4": {Sampler: s, Strategy: banded(12, 5), MaxExamplesPerOwner: 1},
		"negative entry":                {Sampler: s, Strategy: &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 12, Toeplitz: []float64{1, -.5}}, MaxExamplesPerOwner: 1},
		"leave out max per":             {Sampler: s, Strategy: mechanism.Identity(12), MaxExamplesPerOwner: 2},
	} {
		if _, err := r.Method(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
