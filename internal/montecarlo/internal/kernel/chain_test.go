package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/montecarlo/internal/law"
	"minsep/internal/montecarlo/internal/law/lawtest"
	"minsep/internal/montecarlo/internal/likelihood"
)

// TestEpochsAgainstLogDomain holds every lane to the log-domain ratio at the same y, with epochs
// below, at and above the blocks and the run, and noise so small that the linear scale is refused.
func TestEpochsAgainstLogDomain(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 2))
	modes := map[string]int{}
	for _, n := range []int{1, 2, 7, 191, 192, 193, 400, 1000} {
		for _, w := range []int{1, 2, 5, 40} {
			for _, length := range []int{w, w + 1, w + 3, 3 * w, 64, 192, 250, n, n + 1, 3 * n} {
				if w > n || length < w {
					continue
				}
				sigma := []float64{0.06, 0.1, 0.25, 0.6, 2}[rng.IntN(5)]
				c := likelihood.Toeplitz(n, sqrtColumn(w))
				if rng.IntN(3) == 0 {
					c = general(c)
				}
				b := min(length, w+rng.IntN(3))
				var l likelihood.Ratio = likelihood.NewChain(law.NewEpochs(n, b, length), c.SquaredNorms(1/(sigma*sigma)))
				pair := w < 40 && rng.IntN(2) == 0
				if pair {
					l = likelihood.NewEpochPair(b, length, c, 1/(sigma*sigma))
				}
				k := New(c, sigma, l)
				in := &Input{Bulk: testBulk(), Number: rng.Uint64(), Hits: randomHits(rng, n, 1+n/(2*w))}
				var out Output
				k.Batch(in, &out)
				modes[mode(k, in)]++
				if pair && k.recursions[0].fast != nil {
					modes["pair"]++
				}
				k.Batch(in, &out)
				name := fmt.Sprintf("n=%d w=%d σ=%g b=%d T=%d", n, w, sigma, b, length)
				for lane := range Lanes {
					compare(t, name, out.LogRatio[0][lane], likelihood.LogRatio(l, c, sigma, k.Outputs(in, lane)))
				}
			}
		}
	}
	t.Log(modes)
	if modes["pair"] < 50 || modes["refused"] < 5 || modes["checked"] < 5 || modes["unchecked"] < 100 {
		t.Errorf("modes %v: not all were tested", modes)
	}
}

// TestLawsAgainstLogDomain does the same for laws that have no pass of their own.
func TestLawsAgainstLogDomain(t *testing.T) {
	modes := map[string]int{}
	for range 3 {
		againstLogDomain(t, modes, func(n, b int, rng *rand.Rand) law.Law {
			p := []float64{.002, .1, .7}[rng.IntN(3)]
			switch rng.IntN(3) {
			case 0:
				return law.NewMinSep(b, p, rng.IntN(2) == 0)
			case 1:
				return law.NewOnce(n, b, law.Single{First: p / float64(n), Ratio: 1, Never: 1 - p})
			}
			return lawtest.Tide{MinSep: b, Prob: p}
		})
	}
	t.Log(modes)
	if modes["refused"] < 5 || modes["checked"] < 5 || modes["unchecked"] < 50 {
		t.Errorf("modes %v: not all were tested", modes)
	}
}

// againstLogDomain holds every lane to the log-domain ratio at the same y, with min-sep below and
// above the blocks, and noise so small that the linear scale is refused.
func againstLogDomain(t *testing.T, modes map[string]int, of func(n, b int, rng *rand.Rand) law.Law) {
	rng := rand.New(rand.NewPCG(9, uint64(len(modes))))
	for _, n := range []int{1, 2, 7, 191, 192, 193, 400, 1000} {
		for _, w := range []int{1, 2, 5, 40, 250} {
			b := w + rng.IntN(3)
			if w > n {
				continue
			}
			if rng.IntN(4) == 0 { // far above the blocks, up to the whole run
				b = max(b, n-rng.IntN(1+n/4))
			}
			l := of(n, b, rng)
			if l == nil {
				continue
			}
			sigma := []float64{0.06, 0.1, 0.25, 0.6, 2}[rng.IntN(5)]
			c := likelihood.Toeplitz(n, sqrtColumn(w))
			if rng.IntN(3) == 0 {
				c = general(c)
			}
			ratio := likelihood.NewChain(l, c.SquaredNorms(1/(sigma*sigma)))
			k := New(c, sigma, ratio)
			in := &Input{Bulk: testBulk(), Number: rng.Uint64(), Hits: randomHits(rng, n, 1+n/(2*w))}
			var out Output
			k.Batch(in, &out)
			modes[mode(k, in)]++
			k.Batch(in, &out)
			name := fmt.Sprintf("%T n=%d w=%d σ=%g b=%d", l, n, w, sigma, b)
			for lane := range Lanes {
				compare(t, name, out.LogRatio[0][lane], likelihood.LogRatio(ratio, c, sigma, k.Outputs(in, lane)))
			}
		}
	}
}

// mode is how a batch is computed.
func mode(k *Kernel, in *Input) string {
	var out Output
	out.LogRatio = make([]Row, len(k.recursions))
	switch r := k.recursions[0].fast; {
	case r == nil:
		return "log domain"
	case k.walkFast(in, &out, []int{0}, k.reach(in) > r.Limit()) != nil:
		return "refused"
	case k.reach(in) > r.Limit():
		return "checked"
	}
	return "unchecked"
}

// TestEpochPairLooksAtAll: a batch is refused for any value outside of the range that is held, in
// any lane.
func TestEpochPairLooksAtAll(t *testing.T) {
	c := likelihood.Toeplitz(20, sqrtColumn(3))
	r := newEpochPair(likelihood.NewEpochPair(3, 8, c, 1)).(*epochPair)
	rows := []*Row{&r.after[0], &r.waits}
	for i := range r.table {
		rows = append(rows, &r.table[i])
	}
	for i, row := range rows {
		for lane := range Lanes {
			for _, v := range []float64{mostHeld * 1.01, 0.99 / mostHeld, math.NaN(), math.Inf(1), 0} {
				r.Reset()
				if !r.settle() {
					t.Fatal("refused without need")
				}
				if row[lane] = v; r.settle() {
					t.Errorf("%g in lane %d of row %d was not seen", v, lane, i)
				}
			}
		}
	}
}
