package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/sampling"
)

// TestPointsAgainstLogDomain holds every lane to the log-domain ratio at the same y, for laws with
// one turn a step and with many, columns that overlap, and noise so small that the linear scale is
// refused.
func TestPointsAgainstLogDomain(t *testing.T) {
	rng := rand.New(rand.NewPCG(18, 6))
	modes := map[string]int{}
	for _, n := range []int{1, 2, 7, 191, 193, 256, 600} {
		for _, w := range []int{1, 2, 5, 20} {
			if w > n {
				continue
			}
			b := 1 + rng.IntN(2*w)
			p := []float64{0.002, 0.1, 0.7, 1}[rng.IntN(4)]
			laws := map[string]sampling.Law{
				"b-min-sep": sampling.BMinSep{Prob: p, Steps: n, MinSep: max(b, w/2), WarmStart: true}.Law(),
				"epochs":    sampling.EpochMinSep{Steps: n, MinSep: w, EpochSteps: w + rng.IntN(2*w)}.Law(),
				"rotation":  sampling.Rotation{Steps: n, EpochSteps: w + rng.IntN(2*w)}.Law(),
				"bins":      sampling.BallsInBins{Steps: n, Period: b}.Law(),
				"secret":    sampling.CyclicPoisson{Prob: p, Steps: n, MinSep: b + w, SecretPartition: true}.Law(),
				"twice": {Start: []sampling.Start{{Prob: 1}}, Next: func(at sampling.Point) (float64, sampling.Point, sampling.Point) {
					in := sampling.Point{Step: at.Step + 2, State: at.State + 1}
					if at.State == 1 {
						in.Step = sampling.Never
					}
					return p, in, sampling.Point{Step: at.Step + 1, State: at.State}
				}},
			}
			for name, law := range laws {
				sigma := []float64{0.06, 0.1, 0.25, 0.6, 2}[rng.IntN(5)]
				c := likelihood.Toeplitz(n, sqrtColumn(w))
				if rng.IntN(3) == 0 {
					c = general(c)
				}
				ratio := ratioOf(law, c, sigma)
				k := New(c, sigma, ratio)
				in := &Input{Bulk: testBulk(), Number: rng.Uint64(), Hits: randomHits(rng, n, 1+n/(2*w))}
				var out Output
				k.Batch(in, &out)
				modes[mode(k, in)]++
				k.Batch(in, &out)
				name := fmt.Sprintf("%s n=%d w=%d σ=%g b=%d p=%g", name, n, w, sigma, b, p)
				for lane := range Lanes {
					compare(t, name, out.LogRatio[0][lane], likelihood.LogRatio(ratio, c, sigma, k.Outputs(in, lane)))
				}
			}
		}
	}
	t.Log(modes)
	if modes["refused"] < 3 || modes["checked"] < 3 || modes["unchecked"] < 30 {
		t.Errorf("modes %v: not all were tested", modes)
	}
}
