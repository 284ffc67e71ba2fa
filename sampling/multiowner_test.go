package sampling_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"minsep/internal/stattest"
	"minsep/internal/stream"
	"minsep/sampling"
)

// randomOwners gives each of the examples one to most owners of numOwners.
func randomOwners(rng *rand.Rand, examples, numOwners, most int) [][]int32 {
	owners := make([][]int32, examples)
	for e := range owners {
		for range 1 + rng.IntN(most) {
			if u := int32(rng.IntN(numOwners)); !slices.Contains(owners[e], u) {
				owners[e] = append(owners[e], u)
			}
		}
	}
	return owners
}

func neighbors(owners [][]int32, e, f int) bool {
	return slices.ContainsFunc(owners[e], func(u int32) bool { return slices.Contains(owners[f], u) })
}

func neighborhoods(owners [][]int32) sampling.Neighborhoods {
	h := sampling.Neighborhoods{}
	for e := range owners {
		size := 0
		for f := range owners {
			if neighbors(owners, e, f) {
				size++
			}
		}
		h[size]++
	}
	return h
}

// byDefinition is Algorithm 3, word for word: sets, and every pair of examples.
func byDefinition(coins, owners [][]int32, b, n int) [][]int32 {
	out := make([][]int32, len(coins))
	blocking := map[[2]int]bool{} // (step, example) in S
	for i := 1 - b; i < n; i++ {
		for e := range coins {
			if !slices.Contains(coins[e], int32(i)) {
				continue
			}
			blocked := false
			for f := range coins {
				for j := i - b + 1; j < i; j++ {
					blocked = blocked || neighbors(owners, e, f) && blocking[[2]int{j, f}]
				}
			}
			if !blocked && i >= 0 {
				out[e] = append(out[e], int32(i))
			}
		}
		for e := range coins {
			if slices.Contains(coins[e], int32(i)) {
				blocking[[2]int{i, e}] = true
			}
		}
	}
	return out
}

func coins(s interface{ Coins() sampling.Process }, purpose string, examples int) [][]int32 {
	src := stream.NewSource(key(purpose))
	process := s.Coins()
	out := make([][]int32, examples)
	for e := range out {
		out[e] = process.Draw(nil, wordsAt(src, 0)(int64(e)), int64(e))
	}
	return out
}

func TestExcludeFollowsTheDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for round := range 60 {
		s := sampling.MultiOwner{Prob: 0.02 + 0.3*rng.Float64(), Steps: 20, MinSep: 1 + rng.IntN(6)}
		owners := randomOwners(rng, 15, 12, 3)
		c := coins(s, fmt.Sprint(round), len(owners))
		got, want := s.Exclude(c, owners), byDefinition(c, owners, s.MinSep, s.Steps)
		if !slices.EqualFunc(got, want, slices.Equal[[]int32]) {
			t.Fatalf("%+v:\n%v, want\n%v", s, got, want)
		}
	}
}

// TestMultiOwnerBatchSize tests E|B_i| = Σ p (1-p)^{(b-1)|N(e)|} at the first and last step and in
// total over many trainings; a start without the earlier coins is found out.
func TestMultiOwnerBatchSize(t *testing.T) {
	const trainings = 1500
	owners := randomOwners(rand.New(rand.NewPCG(7, 8)), 60, 50, 3)
	s := sampling.MultiOwner{Prob: 0.05, Steps: 12, MinSep: 5}
	h := neighborhoods(owners)
	first, last, coldFirst := 0.0, 0.0, 0.0
	for i := range trainings {
		c := coins(s, fmt.Sprint("E", i), len(owners))
		for _, steps := range s.Exclude(c, owners) {
			if slices.Contains(steps, 0) {
				first++
			}
			if slices.Contains(steps, int32(s.Steps-1)) {
				last++
			}
		}
		for e := range c {
			c[e] = slices.DeleteFunc(c[e], func(t int32) bool { return t < 0 })
		}
		for _, steps := range s.Exclude(c, owners) {
			if slices.Contains(steps, 0) {
				coldFirst++
			}
		}
	}
	mean := trainings * s.ExpectedBatchSize(h)
	// A batch has at most 60 examples. Two of them are both in it with probability at most p², and
	// are independent unless their neighbourhoods meet.
	batchVariance := trainings * (s.ExpectedBatchSize(h) + correlated(owners)*s.Prob*s.Prob)
	for name, got := range map[string]float64{"first": first, "last": last} {
		if err := stattest.Sum(got, mean, batchVariance, 60); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if stattest.Sum(coldFirst, mean, batchVariance, 60) == nil {
		t.Error("a cold start is not found out")
	}
}

// correlated counts the pairs of examples whose neighbourhoods meet: all that can be correlated.
func correlated(owners [][]int32) float64 {
	n := 0.0
	for e := range owners {
		for f := range owners {
			for g := range owners {
				if neighbors(owners, e, g) && neighbors(owners, f, g) {
					n++
					break
				}
			}
		}
	}
	return n
}

// TestMultiOwnerProb looks for the smallest probability by brute force on a fine grid.
func TestMultiOwnerProb(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	hoods := []sampling.Neighborhoods{
		{1: 1000}, {1: 100, 50: 100000}, {1: 1000, 3000: 100000}, {2: 7, 3: 5, 9: 1000, 200: 5000}, {20000: 1},
	}
	for range 4 {
		h := sampling.Neighborhoods{}
		for range 1 + rng.IntN(20) {
			h[1+rng.IntN(1<<rng.IntN(12))] += rng.Int64N(1 << rng.IntN(20))
		}
		h[1]++
		hoods = append(hoods, h)
	}
	for _, h := range hoods {
		for _, b := range []int{1, 2, 32} {
			s := sampling.MultiOwner{Steps: 10, MinSep: b}
			value := func(p float64) float64 { s.Prob = p; return s.ExpectedBatchSize(h) }
			most, at := 0.0, 0.0
			var grid []float64
			for x := -18.0; x < 0; x += 0.002 {
				grid = append(grid, math.Exp(x))
			}
			for _, p := range grid {
				if v := value(p); v > most {
					most, at = v, p
				}
			}
			if b == 1 {
				most, at = value(1), 1
			}
			for _, part := range []float64{0.01, 0.5, 0.99, 0.9999} {
				got, err := sampling.MultiOwner{Steps: 10, MinSep: b}.WithBatchSize(part*most, h)
				if err != nil {
					t.Fatalf("%v, b %d, %v of the largest: %v", h, b, part, err)
				}
				if v := value(got.Prob); math.Abs(v-part*most) > 1e-9*most {
					t.Errorf("%v, b %d: prob %v gives %v, want %v", h, b, got.Prob, v, part*most)
				}
				if got.Prob > at*(1+1e-12) {
					t.Errorf("%v, b %d: prob %v is beyond the maximum at %v", h, b, got.Prob, at)
				}
				for _, p := range grid {
					if p < got.Prob*(1-1e-12) && value(p) > part*most*(1+1e-12) {
						t.Fatalf("%v, b %d: prob %v, but %v gives as much", h, b, got.Prob, p)
					}
				}
			}
			var fault *sampling.InfeasibleError
			_, err := sampling.MultiOwner{Steps: 10, MinSep: b}.WithBatchSize(1.001*most, h)
			if !errors.As(err, &fault) || fault.Largest < most*(1-1e-4) || fault.Largest > most*1.0001 {
				t.Errorf("%v, b %d: got %v, want the largest %v", h, b, err, most)
			}
		}
	}
}
