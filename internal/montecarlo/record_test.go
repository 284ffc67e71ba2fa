package montecarlo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
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

// TestHistogramRoundsUpward: δ from the histogram is at least the mean value, and at most that of
// losses a bucket larger.
func TestHistogramRoundsUpward(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		losses := rapid.SliceOfN(rapid.Float64Range(-5, 140), 1, 50).Draw(t, "losses")
		epsilon := rapid.Float64Range(0, 20).Draw(t, "epsilon")
		var h Histogram
		low, high := 0.0, 0.0
		for _, loss := range losses {
			h.Add(loss)
			low += Value(epsilon, loss) / float64(len(losses))
			high += Value(epsilon, loss+1.001*BucketWidth) / float64(len(losses))
		}
		if got, _ := h.Delta(epsilon); got < low-1e-12 || got > high+1e-12 {
			t.Fatalf("δ(%g) = %g, between %g and %g expected", epsilon, got, low, high)
		}
		text, err := json.Marshal(h)
		var back Histogram
		if err != nil || json.Unmarshal(text, &back) != nil || !bytes.Equal(text, must(json.Marshal(back))) {
			t.Fatalf("%s does not come back", text)
		}
	})
	var h Histogram
	for _, text := range []string{`[[3,1],[2,1]]`, `[[2,1],[2,1]]`, `[[131073,1]]`, `[[-1,1]]`, `{}`} {
		if json.Unmarshal([]byte(text), &h) == nil {
			t.Errorf("%s was read as a histogram", text)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestRecordsMergeToTheSameBytes: any cut, any number of goroutines.
func TestRecordsMergeToTheSameBytes(t *testing.T) {
	s := kinds()["warm"]
	sampler := mustSampler(t, s, P, testKey(t))
	epsilons := []float64{0.5, 1, 3}
	record := func(first, count uint64, workers int) *Record {
		r, err := sampler.Record(context.Background(), first, count, epsilons, workers)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	whole := record(3, 2000, 1)
	want := string(must(json.Marshal(whole)))
	if got := string(must(json.Marshal(record(3, 2000, 3)))); got != want {
		t.Error("three goroutines give other bytes")
	}
	parts := record(1003, 1000, 2)
	for _, r := range []*Record{record(3, 1, 1), record(500, 503, 2), record(4, 496, 1)} {
		text := must(json.Marshal(r))
		var read Record
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatal(err)
		}
		if err := parts.Merge(&read); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(must(json.Marshal(parts))); got != want {
		t.Errorf("parts in another order give\n%s, want\n%s", got, want)
	}
	// The losses have these sums.
	losses := make([]float64, 2000)
	sampler.Losses(losses, 3)
	for i, epsilon := range epsilons {
		sum := 0.0
		for _, loss := range losses {
			sum += Value(epsilon, loss)
		}
		if got := whole.Sums[i].Mean(whole.Count); math.Abs(got-sum/2000) > 1e-14 {
			t.Errorf("ε = %g: mean %g, want %g", epsilon, got, sum/2000)
		}
	}
}

func TestRecordsThatDoNotMix(t *testing.T) {
	r := NewRecord([]float64{1, 2})
	other := NewRecord([]float64{1, 2})
	other.KernelID = "another"
	if err := r.Merge(other); err == nil {
		t.Error("records of two kernels were mixed")
	}
	for _, epsilons := range [][]float64{{1}, {1, 3}} {
		if err := r.Merge(NewRecord(epsilons)); err == nil {
			t.Errorf("ε %v were mixed with 1, 2", epsilons)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := mustSampler(t, kinds()["warm"], Q, testKey(t)).Record(ctx, 0, 1<<40, nil, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled record: %v", err)
	}
}

func FuzzRecord(f *testing.F) {
	r := NewRecord([]float64{1, 2})
	r.Add([]float64{0.5, 1.5, 200, -3})
	f.Add(must(json.Marshal(r)))
	f.Fuzz(func(t *testing.T, data []byte) {
		var read, again Record
		if json.Unmarshal(data, &read) != nil {
			return
		}
		text := must(json.Marshal(read))
		if err := json.Unmarshal(text, &again); err != nil || !bytes.Equal(must(json.Marshal(again)), text) {
			t.Errorf("%s does not come back: %v", text, err)
		}
	})
}
