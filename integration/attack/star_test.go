package attack

import (
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/stream"
	"minsep/sampling"
)

// The star: owner u owns example 0, which shares one other owner with each of the examples 1 to
// starLeaves. Example 0 is attacked, two steps at min-sep 2, C the identity. The adversary
// knows the coins of all other examples, and sees the sum of their gradients in a coordinate of
// its own. Under Algorithm 3 of arXiv 2602.09338 example 0 blocks the leaves, so that their
// participations betray its coins, and its amplification by sampling is lost.
const (
	starLeaves  = 40
	starProb    = 0.05
	starSigma   = 0.7
	starEpsilon = 2
)

// starLaw is what example 0 and the leaves do, given all coins: leaf[t][i] is the coin of leaf
// i+1 at step t-1.
func starLaw(own [3]bool, leaf [3][starLeaves]bool, blocking bool) (x, leaves [2]float64) {
	for t := 1; t <= 2; t++ {
		blocked := own[t-1]
		for i := range starLeaves {
			blocked = blocked || blocking && leaf[t-1][i]
			if leaf[t][i] && !leaf[t-1][i] && !(blocking && own[t-1]) {
				leaves[t-1]++
			}
		}
		if own[t] && !blocked {
			x[t-1] = 1
		}
	}
	return x, leaves
}

// starDelta estimates H(P, Q) from trainings of a star by the adversary's likelihood ratio,
// with its standard error. The coins are the product's, and so is who is blocked.
func starDelta(t *testing.T, blocking bool, runs int) (estimate, standardError float64) {
	scheme := sampling.MultiOwner{Prob: starProb, Steps: 2, MinSep: 2}
	process := scheme.Coins()
	owners := [][]int32{{0}} // of example 0: u, and the owner that it shares with each leaf
	for leaf := range int32(starLeaves) {
		owners[0] = append(owners[0], leaf+1)
		owners = append(owners, []int32{leaf + 1})
	}
	if !blocking { // nobody shares an owner
		owners[0] = owners[0][:1]
	}
	rng, gamma, root := rand.New(rand.NewPCG(3, 4)), math.Exp(starEpsilon), seeded("star")
	src := stream.NewSource(root.Key(stream.RunID{1}, [32]byte{}, "formation").Sub("participations"))
	sum, squares := 0.0, 0.0
	coins := make([][]int32, starLeaves+1)
	for run := range runs {
		var own [3]bool
		var leaf [3][starLeaves]bool
		for e := range coins {
			coins[e] = process.Draw(coins[e][:0], src.Stream(src.IntAddress(int64(run*(starLeaves+1)+e), 0)), int64(e))
			for _, step := range coins[e] {
				if e == 0 {
					own[step+1] = true
				} else {
					leaf[step+1][e-1] = true
				}
			}
		}
		var x, leaves [2]float64
		for e, steps := range scheme.Exclude(coins, owners) {
			for _, step := range steps {
				if e == 0 {
					x[step]++
				} else {
					leaves[step]++
				}
			}
		}
		if wantX, wantLeaves := starLaw(own, leaf, blocking); x != wantX || leaves != wantLeaves {
			t.Fatalf("coins %v: took part %v and %v, want %v and %v", coins, x, leaves, wantX, wantLeaves)
		}
		y := [4]float64{x[0], x[1], leaves[0], leaves[1]}
		for i := range y {
			y[i] += starSigma * rng.NormFloat64()
		}
		p, q := 0.0, 0.0
		for c := range 8 {
			weight := 1.0
			var own [3]bool
			for i := range own {
				if own[i] = c>>i&1 == 1; own[i] {
					weight *= starProb
				} else {
					weight *= 1 - starProb
				}
			}
			x, leaves := starLaw(own, leaf, blocking)
			density := func(m0, m1 float64) float64 {
				return math.Exp(-(square(y[0]-m0) + square(y[1]-m1) + square(y[2]-leaves[0]) + square(y[3]-leaves[1])) / (2 * starSigma * starSigma))
			}
			p += weight * density(x[0], x[1])
			q += weight * density(0, 0)
		}
		v := max(0, 1-gamma*q/p)
		sum += v
		squares += v * v
	}
	mean := sum / float64(runs)
	return mean, math.Sqrt((squares/float64(runs) - mean*mean) / float64(runs))
}

func square(v float64) float64 { return v * v }

// publishedDelta is H(P, Q) of example 0 alone with coins that begin a step before the
// first (arXiv 2602.09338, Theorem 6.1), by the midpoint rule.
func publishedDelta() float64 {
	q := 1 - starProb
	weights := map[[2]float64]float64{{1, 0}: q * starProb, {0, 1}: q*q*starProb + starProb*q*starProb}
	weights[[2]float64{0, 0}] = 1 - weights[[2]float64{1, 0}] - weights[[2]float64{0, 1}]
	const step = 0.01
	total, gamma := 0.0, math.Exp(starEpsilon)
	for a := -4.0 + step/2; a < 5; a += step {
		for b := -4.0 + step/2; b < 5; b += step {
			density := func(m [2]float64) float64 {
				return math.Exp(-(square(a-m[0])+square(b-m[1]))/(2*starSigma*starSigma)) / (2 * math.Pi * starSigma * starSigma)
			}
			p := 0.0
			for m, w := range weights {
				p += w * density(m)
			}
			total += max(0, p-gamma*density([2]float64{})) * step * step
		}
	}
	return total
}

// TestStar: Algorithm 3 exceeds its published accounting on a star; examples that are sampled
// independently of each other do not.
func TestStar(t *testing.T) {
	runs := 200_000
	if long() {
		runs = 2_000_000
	}
	published := publishedDelta()
	blocked, blockedError := starDelta(t, true, runs)
	alone, aloneError := starDelta(t, false, runs)
	t.Logf("published δ %.3g; on the star %.3g ± %.2g; without shared owners %.3g ± %.2g", published, blocked, blockedError, alone, aloneError)
	if blocked-6*blockedError < published {
		t.Errorf("δ is about %.3g ± %.2g on the star, and %.3g is published", blocked, blockedError, published)
	}
	if alone-6*aloneError > published || alone+6*aloneError < published {
		t.Errorf("δ is about %.3g ± %.2g without shared owners, not %.3g", alone, aloneError, published)
	}
}
