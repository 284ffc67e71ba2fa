package sampling_test

import (
	"errors"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"minsep/internal/must"
	"minsep/internal/stattest"
	"minsep/internal/stream"
	"minsep/sampling"
)

// breaks says which check of s the batches break for the owners, or "".
func breaks(s sampling.Fixed, rows []int32, owners [][]int32) string {
	if len(rows) != s.BatchSize*s.Steps {
		return "batch sizes"
	}
	last, times := map[int32]int{}, map[int32]int{}
	for slot, e := range rows {
		t := slot / s.BatchSize
		for _, u := range owners[e] {
			if before, ok := last[u]; ok && t-before < s.MinSep {
				return "min-sep"
			}
			last[u] = t
			times[u]++
			if s.MaxParticipations > 0 && times[u] > s.MaxParticipations {
				return "max participations"
			}
		}
	}
	return ""
}

func flat(owners [][]int32) *sampling.Owners {
	o := &sampling.Owners{}
	for _, us := range owners {
		o.Of = append(o.Of, us...)
		o.Ends = append(o.Ends, len(o.Of))
	}
	return o
}

func TestFixedKeepsItsPromises(t *testing.T) {
	formed, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		s := sampling.Fixed{
			BatchSize: rapid.IntRange(1, 12).Draw(t, "batch"), Steps: rapid.IntRange(1, 40).Draw(t, "steps"),
			MinSep: rapid.IntRange(1, 10).Draw(t, "min-sep"), MaxParticipations: rapid.IntRange(0, 6).Draw(t, "k"),
		}
		examples := rapid.IntRange(1, 80).Draw(t, "examples")
		priority := make([]uint64, examples)
		own := make([][]int32, examples)
		for e := range own {
			priority[e], own[e] = rng.Uint64(), []int32{int32(e)}
		}
		owners, given := own, (*sampling.Owners)(nil)
		if rapid.Bool().Draw(t, "shared") {
			owners = randomOwners(rng, examples, examples, 3)
			given = flat(owners)
		}
		rows, err := s.Form(priority, given)
		var fault *sampling.InfeasibleError
		switch {
		case err == nil:
			formed++
			if what := breaks(s, rows, owners); what != "" {
				t.Fatalf("%+v, %d examples: breaks %s", s, examples, what)
			}
		case !errors.As(err, &fault) || fault.Largest >= float64(s.BatchSize):
			t.Fatalf("%+v: %v", s, err)
		case fault.Largest > 0:
			refused++
			s.BatchSize = int(fault.Largest)
			if rows, err := s.Form(priority, given); err != nil || breaks(s, rows, owners) != "" {
				t.Fatalf("%+v: the size that was said to be feasible is not: %v", s, err)
			}
		}
	})
	if !testing.Short() && (formed < 5 || refused < 5) { // -short draws a fifth of the cases
		t.Errorf("formed %d, refused %d: one of them was hardly tested", formed, refused)
	}
}

// TestFixedIsTight: every size up to the largest is formed, and the next is not.
func TestFixedIsTight(t *testing.T) {
	priority := make([]uint64, 100)
	for b := 1; b <= 101; b++ {
		s := sampling.Fixed{BatchSize: b, Steps: 10, MinSep: 5, MaxParticipations: 1}
		if _, err := s.Form(priority, nil); (err == nil) != (b <= 10) {
			t.Errorf("k = 1, batch size %d: %v", b, err)
		}
		s.MaxParticipations = 0
		if _, err := s.Form(priority, nil); (err == nil) != (b <= 20) {
			t.Errorf("any k, batch size %d: %v", b, err)
		}
		s.Steps = 1
		if _, err := s.Form(priority, nil); (err == nil) != (b <= 100) {
			t.Errorf("one step, batch size %d: %v", b, err)
		}
	}
}

// TestCutIsUniform counts which subset of a batch stays. The twin keeps what comes first.
func TestCutIsUniform(t *testing.T) {
	const size, most, steps = 6, 3, 60000
	truncation, src := sampling.Truncation{MaxBatchSize: most}, stream.NewSource(key("cut"))
	subsets := 0
	distribution := make([]float64, 1<<size)
	for mask := range distribution {
		if bits.OnesCount(uint(mask)) == most {
			subsets++
			distribution[mask] = 1
		}
	}
	for mask := range distribution {
		distribution[mask] /= float64(subsets)
	}
	seen, first := make([]int, 1<<size), make([]int, 1<<size)
	inverse := map[int64]int{3: 0, 4: 1, 17: 2, 18: 3, 40: 4, 41: 5}
	for step := range steps {
		kept := sampling.Cut(truncation, []int64{3, 4, 17, 18, 40, 41}, wordsAt(src, step))
		if !slices.IsSorted(kept) {
			t.Fatalf("step %d: %v", step, kept)
		}
		mask := 0
		for _, r := range kept {
			mask |= 1 << inverse[r]
		}
		seen[mask]++
		first[0b111]++
	}
	if err := stattest.Distribution(seen, distribution); err != nil {
		t.Error(err)
	}
	if stattest.Distribution(first, distribution) == nil {
		t.Error("keeping what comes first is not found out")
	}
}

// TestFixedInfeasible: a batch size that the examples cannot give is refused where their number is
// known, before batches are formed, and the largest that they can give is not.
func TestFixedInfeasible(t *testing.T) {
	p := sampling.Params{Scheme: "fixed", Steps: 100, MinSep: 8, BatchSize: 126}
	must.Fail(t, "126 of 1000 examples", "must be at most 125, the largest feasible")(p.Spec(sampling.Population{Examples: 1000}))
	if _, err := p.Spec(sampling.Population{}); err != nil {
		t.Errorf("of examples that are not known: %v", err)
	}
	p.BatchSize = 125
	if _, err := p.Spec(sampling.Population{Examples: 1000}); err != nil {
		t.Errorf("125 of 1000 examples: %v", err)
	}
	if _, err := p.Spec(sampling.Population{Examples: math.MaxInt64}); err != nil {
		t.Errorf("125 of 2^63-1 examples: %v", err)
	}
	for _, minSep := range []int{1, 2, math.MaxInt64} {
		p.Steps, p.MinSep = math.MaxInt64, minSep
		must.Fail(t, "2^63-1 steps", "steps 9223372036854775807: must be from 1 to 16777216")(p.Spec(sampling.Population{Examples: 1000}))
	}
}
