package montecarlo

import (
	"context"
	"errors"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"minsep/internal/must"
)

// TestSumIsExact holds sums to integers of any size, whatever the order.
func TestSumIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(rapid.Float64Range(0, 1)).Draw(t, "values")
		split := rapid.IntRange(0, len(values)).Draw(t, "split")
		var forward, a, b Sum
		want := new(big.Int)
		for i, v := range values {
			forward.Add(v)
			if i < split {
				a.Add(v)
			} else {
				b.Add(v)
			}
			units, _ := new(big.Float).Mul(big.NewFloat(v), big.NewFloat(sumUnit)).Int(nil)
			if up := new(big.Float).SetInt(units); up.Cmp(new(big.Float).Mul(big.NewFloat(v), big.NewFloat(sumUnit))) < 0 {
				units.Add(units, big.NewInt(1))
			}
			want.Add(want, units)
		}
		b.Merge(a)
		if b != forward || forward.integer().Cmp(want) != 0 {
			t.Fatalf("%v, merged %v, want %v", forward, b, want)
		}
		text, _ := forward.MarshalText()
		var back Sum
		if err := back.UnmarshalText(text); err != nil || back != forward {
			t.Fatalf("%s read as %v: %v", text, back, err)
		}
		if len(values) > 0 {
			mean, total := forward.Mean(uint64(len(values))), 0.0
			for _, v := range values {
				total += v
			}
			if mean*float64(len(values)) < total*(1-1e-15) || mean*float64(len(values)) > total*(1+1e-12)+1e-15*float64(len(values)) {
				t.Fatalf("mean %g of %g in %d", mean, total, len(values))
			}
		}
	})
	high := Sum{high: 1 << 40}
	high.Merge(Sum{low: math.MaxUint64})
	high.Merge(Sum{low: 1})
	if high != (Sum{high: 1<<40 + 1}) {
		t.Errorf("carry: %v", high)
	}
	var s Sum
	for _, text := range []string{"-1", "", "1.5", "340282366920938463463374607431768211456"} {
		if s.UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q was read as a sum", text)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("NaN was added")
		}
	}()
	s.Add(math.NaN())
}

func TestValue(t *testing.T) {
	if Value(1, math.NaN()) != 1 {
		t.Error("NaN is no infinite loss")
	}
	for _, c := range []struct{ epsilon, loss float64 }{{1, 2}, {1, 1}, {1, 0.999}, {0, 1e-12}, {3, 900}, {2, -5}, {2, math.Inf(1)}} {
		exact := max(0, 1-math.Exp(c.epsilon-c.loss))
		if got := Value(c.epsilon, c.loss); got < exact || got > exact+2*slack || got > 1 {
			t.Errorf("ε = %g, loss %g: %g, want %g", c.epsilon, c.loss, got, exact)
		}
	}
}

// TestSumsOfSamples: sums of a sampler's values are those of its losses, in any parts, and end with
// their context.
func TestSumsOfSamples(t *testing.T) {
	const epsilon, samples = 1.0, 2000
	sampler := mustSampler(t, kinds()["warm"], P, testKey(t))
	losses := make([]float64, samples)
	sampler.Losses(losses, 3)
	var want, got Sum
	for _, loss := range losses {
		want.Add(Value(epsilon, loss))
	}
	for _, part := range [][2]uint64{{1003, 1000}, {3, 1}, {500, 503}, {4, 496}} {
		sum := must.Get(sampler.Sum(t.Context(), epsilon, part[0], part[1]))(t)
		got.Merge(sum)
	}
	if got != want {
		t.Errorf("parts have the sum %v, want %v", got, want)
	}
	// Counts decide where a sum ends, not sample numbers, which may pass the largest integer.
	last := must.Get(sampler.Sum(t.Context(), epsilon, math.MaxUint64-511, 512))(t)
	beyond := must.Get(sampler.Sum(t.Context(), epsilon, math.MaxUint64-511, 512+samples))(t)
	first := must.Get(sampler.Sum(t.Context(), epsilon, 0, samples))(t)
	if last.Merge(first); last != beyond || beyond == (Sum{}) {
		t.Errorf("a sum beyond the last number is %v, want %v", beyond, last)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sampler.Sum(ctx, epsilon, 0, 1<<40); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled sum: %v", err)
	}
}
