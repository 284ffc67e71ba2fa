package sampling_test

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"minsep/internal/stattest"
	"minsep/sampling"
	"minsep/sampling/balanced"
	"minsep/sampling/stream"
)

func newBalanced(t testing.TB, steps, minSep int, participations float64) sampling.BalancedMinSep {
	t.Helper()
	s, err := sampling.NewBalancedMinSep(steps, minSep, participations)
	if err == nil {
		err = s.Validate()
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func balancedSpec(t testing.TB, steps, minSep int, participations float64) sampling.Spec {
	s := newBalanced(t, steps, minSep, participations)
	return sampling.Spec{BalancedMinSep: &s}
}

// balancedDistribution is the probability of every set of steps by the hazards, shifted by some
// steps, with a gap.
func balancedDistribution(s sampling.BalancedMinSep, shift, gap int) []float64 {
	l, _ := balanced.New(s.Steps, s.MinSep, s.Participations)
	distribution := make([]float64, 1<<s.Steps)
	var walk func(step, left, mask int, prob float64)
	walk = func(step, left, mask int, prob float64) {
		if prob == 0 {
			return
		}
		if step >= s.Steps {
			distribution[mask] += prob
			return
		}
		h := l.Hazard(left, min(step+shift, s.Steps-1))
		walk(step+1, left, mask, prob*(1-h))
		walk(step+gap, max(0, left-1), mask|1<<step, prob*h)
	}
	most, less := l.Starts()
	walk(0, l.Most, 0, most)
	walk(0, l.Most-1, 0, less)
	return distribution
}

// TestBalancedDistribution tests the joint distribution of all steps of one example against
// enumeration; distributions with a fault are rejected.
func TestBalancedDistribution(t *testing.T) {
	const n, examples = 9, 200000
	for _, c := range []struct {
		b int
		k float64
	}{{3, 2}, {2, 3}, {2, 2.5}, {1, 4}, {4, 2}, {3, 1}, {3, 0.6}, {20, 1}} {
		s := newBalanced(t, n, c.b, c.k)
		name := fmt.Sprint("balanced ", c)
		seen := patterns(s, name, n, examples)
		if err := stattest.Distribution(seen, balancedDistribution(s, 0, c.b)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		twins := map[string][]float64{"hazards off by one step": balancedDistribution(s, 1, c.b), "one more": balancedDistribution(newBalanced(t, n, 1, c.k+1), 0, 1)}
		if c.b > 1 && c.k > 1 {
			twins["a gap one step shorter"] = balancedDistribution(s, 0, c.b-1)
		}
		for twin, distribution := range twins {
			if stattest.Distribution(seen, distribution) == nil {
				t.Errorf("%s: cannot be told from %s", name, twin)
			}
		}
	}
	// Once is any step, and sometimes once is at most once: b-min-sep with min-sep n.
	for _, k := range []float64{1, 0.6} {
		p := k / (n - k*(n-1)) // p/(1+(n-1)p) = k/n
		if err := stattest.Distribution(patterns(newBalanced(t, n, 3, k), "once", n, examples), patternDistribution(p, n, n, true)); err != nil {
			t.Errorf("%v times: %v", k, err)
		}
	}
}

// TestBalancedIsKept at a length where nothing can be enumerated: gaps, times, the number of
// participants of every step, and coincidences of two copies and of neighbours.
func TestBalancedIsKept(t *testing.T) {
	const n, b, examples = 330, 32, 30000
	for _, k := range []float64{6, 4.25} {
		s := newBalanced(t, n, b, k)
		counts, more := make([]int, n), 0
		draws(s, "balanced", examples, func(_ int, steps []int32) {
			if i := sampling.MinSepViolation(steps, b, false); i >= 0 || len(steps) != int(k) && len(steps) != int(math.Ceil(k)) {
				t.Fatalf("steps %v", steps)
			}
			more += len(steps) - int(k)
			for _, step := range steps {
				counts[step]++
			}
		})
		if err := stattest.Count(more, examples, k-math.Floor(k)); err != nil {
			t.Errorf("%v: once more: %v", k, err)
		}
		for step, c := range counts {
			if err := stattest.Count(c, examples, k/n); err != nil {
				t.Errorf("%v: step %d: %v", k, step, err)
			}
		}
		if stattest.Count(counts[0]+counts[n-1], 2*examples, 1.25*k/n) == nil {
			t.Error("cannot be told from 25 % more at the ends")
		}
	}
}

// TestBalancedCopiesAreIndependent counts coincidences in one step of two copies and of two
// neighbouring examples.
func TestBalancedCopiesAreIndependent(t *testing.T) {
	const n, examples, k = 60, 60000, 3.0
	s := newBalanced(t, n, 8, k)
	src := stream.NewSource(key("balanced copies"))
	sampler := s.Process().Sampler(src)
	mask := func(id int64, copy uint32) (m uint64) {
		for _, step := range sampler.Append(nil, src.IntAddress(id, copy), 0) {
			m |= 1 << step
		}
		return m
	}
	together := func(other func(i int) uint64) (sum int) {
		for i := range examples {
			sum += bits.OnesCount64(mask(int64(2*i), 0) & other(i) & (1<<8 - 1)) // at most one in 8 steps
		}
		return sum
	}
	const both = 8 * (k / n) * (k / n)
	for name, other := range map[string]func(i int) uint64{
		"copies":     func(i int) uint64 { return mask(int64(2*i), 1) },
		"neighbours": func(i int) uint64 { return mask(int64(2*i+1), 0) },
	} {
		if err := stattest.Count(together(other), examples, both); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if stattest.Count(together(func(i int) uint64 { return mask(int64(2*i), 0) }), examples, both) == nil {
		t.Error("two copies with one stream are not found out")
	}
}

// TestBalancedNumbers: moments, the participations of a batch size, and what is refused.
func TestBalancedNumbers(t *testing.T) {
	if m, v := newBalanced(t, 9, 2, 2.25).TotalMoments(40); m != 90 || v != 7.5 {
		t.Errorf("mean %v, variance %v", m, v)
	}
	of := func(batch float64, examples int64) (sampling.Spec, error) {
		return sampling.Params{Scheme: "balanced-min-sep", Steps: 1000, MinSep: 16, BatchSize: batch}.Spec(sampling.Population{Examples: examples})
	}
	for batch, want := range map[float64]float64{200: 4, 4.9: 0.098, 210: 4.2, 1100.0 / 3: 22.0 / 3} {
		if s, err := of(batch, 50000); err != nil || math.Abs(s.BalancedMinSep.Participations-want) > 1e-13*want {
			t.Errorf("batches of %v: %+v, %v", batch, s.BalancedMinSep, err)
		}
	}
	if s, _ := of(0.3, 100); s.BalancedMinSep.Participations != 3 { // .3·1000/100 is not 3 in float64 unless it is rounded
		t.Errorf("%+v", s.BalancedMinSep)
	}
	var infeasible *sampling.InfeasibleError
	if _, err := of(50, 800); !errors.As(err, &infeasible) || infeasible.Largest != 45 {
		t.Errorf("got %v, want an InfeasibleError with 45", err)
	}
	if _, err := of(45, 800); err != nil {
		t.Errorf("the largest feasible size: %v", err)
	}
	s := newBalanced(t, 20, 3, 2)
	for name, change := range map[string]func(s *sampling.BalancedMinSep){
		"hazards": func(s *sampling.BalancedMinSep) { s.Hazards = strings.Repeat("0", 64) },
		"min-sep": func(s *sampling.BalancedMinSep) { s.MinSep = 4 },
		"steps":   func(s *sampling.BalancedMinSep) { s.Steps = 21 },
		"times":   func(s *sampling.BalancedMinSep) { s.Participations = 1.5 },
	} {
		other := s
		change(&other)
		if err := other.Validate(); err == nil || !strings.Contains(err.Error(), "must be the digest of the hazards") {
			t.Errorf("%s changed: %v", name, err)
		}
	}
}

// TestFrozenBalanced: what a key draws never changes. Do not change these numbers.
func TestFrozenBalanced(t *testing.T) {
	var got []string
	for _, s := range []sampling.BalancedMinSep{newBalanced(t, 40, 5, 3), newBalanced(t, 40, 9, 2.5), newBalanced(t, 40, 1, 0.5)} {
		draws(s, "frozen balanced", 2, func(_ int, steps []int32) { got = append(got, fmt.Sprint(steps)) })
	}
	if want := []string{"[11 17 33]", "[15 25 32]", "[9 19 34]", "[20 34]", "[30]", "[]"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestAuditOfBalanced: an example that takes part too often or too rarely is found out.
func TestAuditOfBalanced(t *testing.T) {
	spec := func(k float64) sampling.Spec { return balancedSpec(t, 5, 1, k) }
	of := sampling.Audited{Examples: 3}
	for _, c := range []struct {
		name            string
		k               float64
		batches         [][]int64
		broken, whenCut bool
	}{
		{"sound", 2, [][]int64{{0, 1}, {1}, {2}, {0}, {2}}, false, false},
		{"missing once", 2, [][]int64{{0, 1}, {1}, {2}, {}, {2}}, true, false},
		{"missing", 2, [][]int64{{0, 1}, {1}, {}, {0}, {}}, true, false},
		{"too often", 2, [][]int64{{0, 1}, {1}, {2}, {0, 2}, {2}}, true, true},
		{"sound, once or twice", 1.5, [][]int64{{0, 1}, {1}, {2}, {}, {2}}, false, false},
		{"never", 1.5, [][]int64{{0, 1}, {1}, {}, {}, {}}, true, false},
		{"sound, at most once", 0.5, [][]int64{{0}, {}, {}, {}, {}}, false, false},
		{"twice", 0.5, [][]int64{{0}, {0}, {}, {}, {}}, true, true},
	} {
		whole := spec(c.k)
		cut := whole
		cut.Truncation = &sampling.Truncation{MaxBatchSize: 9}
		if got := slices.Contains(audit(whole, of, c.batches), "times of examples"); got != c.broken {
			t.Errorf("%s: broken %v", c.name, got)
		}
		if got := slices.Contains(audit(cut, of, c.batches), "times of examples"); got != c.whenCut {
			t.Errorf("%s, cut: broken %v", c.name, got)
		}
	}
	copies := sampling.Audited{Examples: 3, Copies: []uint32{2, 1, 0}}
	if broken := audit(spec(2), copies, [][]int64{{0, 0}, {1}, {0}, {0, 1}, {}}); slices.Contains(broken, "times of examples") {
		t.Errorf("copies: %v", broken)
	}
	if broken := audit(spec(2), copies, [][]int64{{0, 0}, {1}, {0}, {1}, {}}); !slices.Contains(broken, "times of examples") {
		t.Errorf("a copy that is missing once: %v", broken)
	}
}
