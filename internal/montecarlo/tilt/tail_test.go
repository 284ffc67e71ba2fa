package tilt

import (
	"math"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/must"
	"minsep/internal/stattest"
	"minsep/internal/stream"
	"minsep/sampling"
)

// density is that of a tail's projections before it is normalised.
func (t tail) density(x float64) float64 {
	d := math.Exp(-x*x/2) / math.Sqrt(2*math.Pi)
	if !t.randomised {
		d *= 1 - math.Exp(-t.slope*(x-t.from))
	}
	return d
}

// TestTail holds bounds against the integral of the density, and draws against its cells. A draw
// without its rejections is told apart.
func TestTail(t *testing.T) {
	for _, tail := range []tail{{.02, .9, false}, {1.2, .9, false}, {1.2, 40, false}, {4.3, 1.1, false}, {3.3, .01, false}, {1.2, .9, true}, {.3, .9, true}} {
		const cells, width, parts = 30, .05, 200
		prob, total := make([]float64, cells+1), 0.0
		for i := range 20 * cells * parts { // midpoints, up to 30 deviations
			d := tail.density(tail.from+(float64(i)+.5)*width/parts) * width / parts
			total += d
			prob[min(cells, i/parts)] += d
		}
		if bound := tail.bound(); bound < total*(1-1e-6) || bound > total*(1+1e-5) {
			t.Errorf("%+v: bound %v, the integral is %v", tail, bound, total)
		}
		for i := range prob {
			prob[i] /= total
		}
		u := kernel.Uniforms{Bulk: stream.NewBulk(stream.PublicKey("tail", nil))}
		right, wrong := make([]int, cells+1), make([]int, cells+1)
		for sample := range uint64(40000) {
			u.Reset(sample, 0)
			right[min(cells, int((tail.draw(&u)-tail.from)/width))]++
			u.Reset(sample, 0)
			rate := (tail.from + math.Sqrt(tail.from*tail.from+4)) / 2
			z := -math.Log(u.Float64()) / rate
			if !tail.randomised {
				z -= math.Log(u.Float64()) / (rate + tail.slope)
			}
			wrong[min(cells, int(z/width))]++
		}
		if err := stattest.Distribution(right, prob); err != nil {
			t.Errorf("%+v: %v", tail, err)
		}
		if stattest.Distribution(wrong, prob) == nil {
			t.Errorf("%+v: the test accepts draws that reject nothing", tail)
		}
	}
}

// TestPlainBoundIsAtMostOne: no value of H(Q,P) is above 1, nor is the divergence, whatever
// rounding adds, for any number of examples. Values over M then end at 1.
func TestPlainBoundIsAtMostOne(t *testing.T) {
	for _, examples := range []int{1, 3, 5} {
		spec := ownersOf(specOf(sampling.EpochMinSep{Steps: 12, MinSep: 3, EpochSteps: 6}, toeplitz(12, 1, .5, .4), .3), examples)
		p := must.Get(NewProposal(t.Context(), Config{spec, 2, montecarlo.Q}, math.Inf(1)))(t)
		method := Plain
		if p.Method != method || p.Bound != 1 || p.Divergence > 1 {
			t.Errorf("%d examples: %s with M = %v, divergence %v: want %s with 1, at most 1", examples, p.Method, p.Bound, p.Divergence, method)
		}
		v := must.Get(NewVerifier(p, stream.PublicKey("one", nil)))(t)
		values := make([]float64, 200)
		v.Values(values, 0)
		for _, x := range values {
			if !(x >= 0 && x <= 1) {
				t.Fatalf("%d examples: a value of %v", examples, x)
			}
		}
	}
}
