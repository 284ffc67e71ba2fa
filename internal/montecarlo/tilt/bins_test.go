package tilt

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/stattest"
	"minsep/internal/stream"
	"minsep/mechanism"
)

// TestBins holds balls-in-bins against enumeration of all tuples of bins: the normaliser, and the
// distribution of the tuples. C has more bands than the period, and one bin has fewer
// participations than the others.
func TestBins(t *testing.T) {
	const period, sigma = 4, 1.3
	for _, c := range []*mechanism.Strategy{toeplitz(11, 1, .6, .5, .4, .3, .2), varying(11, 11)} {
		var list []pattern
		for bin := range period {
			var hits []int
			for i := bin; i < c.Steps; i += period {
				hits = append(hits, i)
			}
			list = append(list, pattern{hits, 1. / period})
		}
		for order := 1; order <= 3; order++ {
			b, err := newBins(likelihood.NewColumns(c), period, order, 1/(sigma*sigma), nil)
			if err != nil {
				t.Fatal(err)
			}
			total, weights := 0.0, map[string]float64{}
			eachTuple(c, list, sigma, order, func(tuple []int, w float64) {
				total += w
				weights[tupleKey(list, tuple)] += w
			})
			if math.Abs(math.Exp(b.logN)/total-1) > 1e-13 {
				t.Errorf("%s, order %d: N = %v, want %v", c.Kind, order, math.Exp(b.logN), total)
			}
			const draws = 20000
			seen := map[string]int{}
			u := &uniforms{bulk: stream.NewBulk(stream.PublicKey("bins", nil))}
			var hits []kernel.Hit
			for i := range draws {
				u.reset(uint64(i))
				hits = b.draw(hits, u)
				seen[merged(hits)]++
			}
			for _, wrong := range []bool{false, true} {
				var observed []int
				var prob []float64
				for key, w := range weights {
					if wrong && order > 1 { // a twin that draws bins independently and uniformly
						w = 0
						eachTuple(c, list, 1e6, order, func(tuple []int, uniform float64) {
							if tupleKey(list, tuple) == key {
								w += uniform * total
							}
						})
					}
					observed, prob = append(observed, seen[key]), append(prob, w/total)
				}
				err := stattest.Distribution(observed, prob)
				if wrong == (err == nil) && (order > 1 || !wrong) {
					t.Errorf("%s, order %d, wrong twin %v: %v", c.Kind, order, wrong, err)
				}
			}
		}
	}
}

// merged writes hits, several of which may be at one step, as tupleKey does.
func merged(hits []kernel.Hit) string {
	key := ""
	for i := 0; i < len(hits); {
		times, j := 0, i
		for ; j < len(hits) && hits[j].Step == hits[i].Step; j++ {
			times += hits[j].Times
		}
		key += fmt.Sprintf("%d:%d ", hits[i].Step, times)
		i = j
	}
	return key
}

// TestSquare: at sizes around those of a row.
func TestSquare(t *testing.T) {
	rng := rand.New(rand.NewPCG(67, 1))
	for _, n := range []int{1, 2, 7, 8, 9, 16, 19} {
		w, got := make([]float64, n*n), make([]float64, n*n)
		for i := range n {
			for j := range i + 1 {
				w[i*n+j] = rng.Float64()
				w[j*n+i] = w[i*n+j]
			}
		}
		square(n, w, got)
		for i := range n {
			for j := range n {
				want := 0.0
				for k := range n {
					want += w[i*n+k] * w[k*n+j]
				}
				if math.Abs(got[i*n+j]-want) > 1e-14*want {
					t.Errorf("%d: entry %d, %d is %v, want %v", n, i, j, got[i*n+j], want)
				}
			}
		}
	}
}
