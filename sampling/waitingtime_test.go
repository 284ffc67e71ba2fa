package sampling

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestThresholdsAreExact compares the thresholds with rational arithmetic, which has no rounding at
// all.
func TestThresholdsAreExact(t *testing.T) {
	two64 := new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), 64))
	floor := func(x *big.Rat) uint64 {
		x = new(big.Rat).Mul(x, two64)
		q := new(big.Int).Quo(x.Num(), x.Denom())
		if !q.IsUint64() { // 2^64 itself
			return math.MaxUint64
		}
		return q.Uint64()
	}
	one := big.NewRat(1, 1)
	for _, p := range []float64{1, 0.5, 0.3, 0.01, 1.0 / 3, 1e-9, 0x1p-53} {
		for _, b := range []int{1, 2, 5, 40} {
			const limit = 60
			exactP := new(big.Rat).SetFloat64(p)
			q := new(big.Rat).Sub(one, exactP)
			pi := new(big.Rat).Mul(big.NewRat(int64(b-1), 1), exactP)
			pi.Inv(pi.Add(pi, one))
			rate := new(big.Rat).Mul(exactP, pi)
			cold, warm := geometric(p, limit), stationary(p, b, limit)
			survive := new(big.Rat).Set(one)     // (1-p)^(t+1)
			warmSurvive := new(big.Rat).Set(one) // 1 - p0 Σ_{j≤t} Pr[gap > j]
			gapSurvive := new(big.Rat).Set(one)
			for step := range limit {
				survive.Mul(survive, q)
				if step >= b {
					gapSurvive.Mul(gapSurvive, q)
				}
				warmSurvive.Sub(warmSurvive, new(big.Rat).Mul(rate, gapSurvive))
				for name, c := range map[string]struct {
					w *waitingTime
					s *big.Rat
				}{"cold": {cold, survive}, "warm": {warm, warmSurvive}} {
					got := uint64(0)
					if step < len(c.w.thresholds) {
						got = c.w.thresholds[step]
					}
					if want := floor(c.s); got != want {
						t.Fatalf("%s, p %v, b %d: threshold %d is %d, want %d", name, p, b, step, got, want)
					}
				}
			}
		}
	}
}

func TestGuideFindsTheWait(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, w := range []*waitingTime{geometric(0.001, 5000), geometric(0.9, 100), geometric(1, 10), stationary(0.02, 64, 3000), geometric(1e-6, 50)} {
		words := []uint64{0, 1, math.MaxUint64}
		for range 2000 {
			words = append(words, rng.Uint64(), rng.Uint64()>>(rng.UintN(64)))
		}
		for _, s := range w.thresholds {
			words = append(words, s, s-1, s+1)
		}
		for _, word := range words {
			want := 0
			for w.thresholds[want] > word {
				want++
			}
			if got := w.wait(word); got != want {
				t.Fatalf("word %#x: wait %d, want %d", word, got, want)
			}
		}
	}
}
