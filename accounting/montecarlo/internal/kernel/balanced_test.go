package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"minsep/accounting/montecarlo/internal/likelihood"
	"minsep/sampling/balanced"
)

// TestClassesAgainstLogDomain holds every lane to the log-domain ratio at the same y, with min-sep
// below and above the blocks, and noise so small that the linear scale is refused.
func TestClassesAgainstLogDomain(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 3))
	modes := map[string]int{}
	for _, n := range []int{1, 2, 7, 191, 192, 193, 400, 1000} {
		for _, w := range []int{1, 2, 5, 40, 250} {
			for _, k := range []float64{0.5, 1, 1.25, 2, 3, 7} {
				b := w + rng.IntN(3)
				p, err := balanced.New(n, b, k)
				if w > n || err != nil {
					continue
				}
				sigma := []float64{0.06, 0.1, 0.25, 0.6, 2}[rng.IntN(5)]
				c := likelihood.Toeplitz(n, sqrtColumn(w))
				if rng.IntN(3) == 0 {
					c = general(c)
				}
				l := likelihood.NewClasses(p, c.SquaredNorms(1/(sigma*sigma)))
				kernel := New(c, sigma, l)
				in := &Input{Bulk: testBulk(), Number: rng.Uint64(), Hits: randomHits(rng, n, 1+n/(2*w))}
				var out Output
				kernel.Batch(in, &out)
				switch r := kernel.recursions[0].fast; {
				case r == nil:
					modes["log domain"]++
				case kernel.walkFast(in, &out, []int{0}, kernel.reach(in) > r.Limit()) != nil:
					modes["refused"]++
				case kernel.reach(in) > r.Limit():
					modes["checked"]++
				default:
					modes["unchecked"]++
				}
				kernel.Batch(in, &out)
				name := fmt.Sprintf("n=%d w=%d σ=%g b=%d k=%v", n, w, sigma, b, k)
				for lane := range Lanes {
					compare(t, name, out.LogRatio[0][lane], likelihood.LogRatio(l, c, sigma, kernel.Outputs(in, lane)))
				}
			}
		}
	}
	t.Log(modes)
	if modes["refused"] < 5 || modes["checked"] < 2 || modes["unchecked"] < 50 {
		t.Errorf("modes %v: not all were tested", modes)
	}
}
