package tilt

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"minsep/internal/montecarlo/internal/law"
	"minsep/internal/montecarlo/internal/law/lawtest"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/montecarlo/internal/tuples"
	"minsep/internal/stream"
)

// TestTablesOfAnyLaw holds tables of tuples, and in blocks, and tuples that are drawn
// from them, against enumeration under laws that no scheme has.
func TestTablesOfAnyLaw(t *testing.T) {
	rng := rand.New(rand.NewPCG(81, 1))
	kinds := map[string]int{}
	for n := range 24 {
		steps, sep, theta := 3+rng.IntN(4), 1+rng.IntN(3), 2+rng.IntN(2)
		c, sigma := toeplitz(steps, 1, .6, .3), .8+rng.Float64()
		if sep < 3 {
			c = toeplitz(steps, []float64{1, .6}[:sep]...)
		}
		l := lawtest.Tide{MinSep: sep, Prob: []float64{.2, .7, 1}[rng.IntN(3)]}
		var list []pattern
		for _, p := range lawtest.Patterns(l, steps) {
			list = append(list, pattern{p.Steps, p.Prob})
		}
		exact, first := 0.0, 0.0 // N_θ, and the part of tuples of participations at the first step
		eachTuple(c, list, sigma, theta, func(tuple []int, w float64) {
			exact += w
			for _, a := range tuple {
				if hits := list[a].hits; len(hits) > 0 && hits[0] == 0 {
					first += w / float64(theta)
				}
			}
		})
		for name, s := range sourcesOf(t, l, sep, theta, likelihood.NewColumns(c), 1/(sigma*sigma)) {
			kinds[name]++
			name := fmt.Sprintf("%s %+v n=%d θ=%d case %d", name, l, steps, theta, n)
			bound := math.Exp(s.logN())
			if exactly := strings.HasPrefix(name, "tuples"); bound < exact || exactly && bound > exact*(1+1e-7) {
				t.Errorf("%s: N = %v, by enumeration %v", name, bound, exact)
			}
			holdTuples(t, name, s, bound, exact, first, theta)
		}
	}
	if len(kinds) < 2 || kinds["blocks"] < 10 {
		t.Errorf("tables %v: not all were tested", kinds)
	}
}

// sourcesOf are the tables of a law that there are.
func sourcesOf(t *testing.T, l law.Law, sep, theta int, columns *likelihood.Columns, factor float64) map[string]*source {
	t.Helper()
	o := tuples.Options{Keep: true, MaxBytes: maxTableBytes, MostLogN: math.Inf(1)}
	all := map[string]*source{}
	for name, block := range map[string]int{"tuples": 1, "blocks": sep} {
		o.Block = block
		s, err := newTableSource(l, columns, factor, theta, o)
		if err == nil {
			all[name] = s
		} else if block == 1 {
			t.Fatal(err)
		}
	}
	return all
}

// holdTuples: weights over the bound have the mean N_θ, all together and with participations at the
// first step.
func holdTuples(t *testing.T, name string, s *source, bound, exact, first float64, theta int) {
	t.Helper()
	const draws = 6000
	walk, u := s.walker(), &uniforms{bulk: stream.NewBulk(stream.PublicKey("law", []byte(name)))}
	var sums, squares [2]float64
	for i := range uint64(draws) {
		u.reset(i)
		hits, weight := walk(nil, u)
		values := [2]float64{weight, 0}
		if len(hits) > 0 && hits[0].Step == 0 {
			values[1] = weight * float64(hits[0].Times) / float64(theta)
		}
		for k, v := range values {
			sums[k] += v / draws
			squares[k] += v * v / draws
		}
	}
	for k, want := range [2]float64{exact, first} {
		deviation := math.Sqrt(max(0, squares[k]-sums[k]*sums[k])/draws) + 1e-9
		if got := sums[k]; math.Abs(got*bound-want) > 5*deviation*bound {
			t.Errorf("%s: part %d has the weight %v ± %v, by enumeration %v", name, k, got*bound, deviation*bound, want)
		}
	}
}
