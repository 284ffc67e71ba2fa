package sampling_test

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"minsep/internal/must"
	"minsep/internal/stattest"
	"minsep/internal/stream"
	"minsep/sampling"
)

func key(purpose string) stream.Key { return stream.PublicKey("sampling tests", []byte(purpose)) }

// wordsAt gives the words of rows at a step, or of their copies.
func wordsAt(src *stream.Source, step int) func(row int64) sampling.Words {
	return func(row int64) sampling.Words { return src.Stream(src.IntAddress(row, uint32(step))) }
}

// draws calls visit with the participations of examples 0, 1, ….
func draws(s interface{ Process() sampling.Process }, purpose string, examples int, visit func(row int, steps []int32)) {
	src, process := stream.NewSource(key(purpose)), s.Process()
	var steps []int32
	for row := range examples {
		steps = process.Draw(steps[:0], wordsAt(src, 0)(int64(row)), int64(row))
		visit(row, steps)
	}
}

// patternDistribution is the probability of every set of steps, as a bit mask, by walking through
// the definition: an example that waits w more steps before it is available, then draws each step.
func patternDistribution(p float64, n, b int, warm bool) []float64 {
	distribution := make([]float64, 1<<n)
	var walk func(step, wait, mask int, prob float64)
	walk = func(step, wait, mask int, prob float64) {
		switch {
		case step == n:
			distribution[mask] += prob
		case wait > 0:
			walk(step+1, wait-1, mask, prob)
		default:
			walk(step+1, 0, mask, prob*(1-p))
			walk(step+1, b-1, mask|1<<step, prob*p)
		}
	}
	if !warm {
		walk(0, 0, 0, 1)
		return distribution
	}
	pi := 1 / (1 + float64(b-1)*p)
	walk(0, 0, 0, pi)
	for s := 1; s < b; s++ {
		walk(0, s, 0, p*pi)
	}
	return distribution
}

// patterns counts the masks that a process draws.
func patterns(s interface{ Process() sampling.Process }, purpose string, n, examples int) []int {
	seen := make([]int, 1<<n)
	draws(s, purpose, examples, func(_ int, steps []int32) {
		mask := 0
		for _, t := range steps {
			mask |= 1 << t
		}
		seen[mask]++
	})
	return seen
}

// cyclicDistribution is the distribution of a uniformly drawn part of the first parts of b.
func cyclicDistribution(p float64, n, b, parts int) []float64 {
	distribution := make([]float64, 1<<n)
	for part := range parts {
		turns := 0
		for t := part; t < n; t += b {
			turns |= 1 << t
		}
		for mask := range distribution {
			if mask&^turns == 0 {
				k := bits.OnesCount(uint(mask))
				distribution[mask] += math.Pow(p, float64(k)) * math.Pow(1-p, float64(bits.OnesCount(uint(turns))-k)) / float64(parts)
			}
		}
	}
	return distribution
}

func TestCyclicPublicPartitionIsTheRow(t *testing.T) {
	s := sampling.CyclicPoisson{Prob: 0.9, Steps: 50, MinSep: 7}
	draws(s, "public", 100, func(row int, steps []int32) {
		for _, step := range steps {
			if int(step)%7 != row%7 {
				t.Fatalf("row %d takes part in step %d", row, step)
			}
		}
	})
}

// TestCopiesAndExamplesAreIndependent counts coincidences in one step of two copies and of two
// neighbouring examples.
func TestCopiesAndExamplesAreIndependent(t *testing.T) {
	const n, examples = 64, 20000
	s := sampling.BMinSep{Prob: 0.1, Steps: n, MinSep: 8, WarmStart: true}
	src := stream.NewSource(key("copies"))
	process := s.Process()
	participations := func(id int64, copy uint32) uint64 {
		mask := uint64(0)
		for _, t := range process.Draw(nil, wordsAt(src, int(copy))(id), 0) {
			mask |= 1 << t
		}
		return mask
	}
	perStep := func(other func(i int) uint64) (together [n]int) {
		for i := range examples {
			both := participations(int64(2*i), 0) & other(i)
			for t := range n {
				together[t] += int(both >> t & 1)
			}
		}
		return together
	}
	both := s.Rate() * s.Rate()
	for name, other := range map[string]func(i int) uint64{
		"copies":     func(i int) uint64 { return participations(int64(2*i), 1) },
		"neighbours": func(i int) uint64 { return participations(int64(2*i+1), 0) },
	} {
		for step, c := range perStep(other) {
			if err := stattest.Count(c, examples, both); err != nil {
				t.Errorf("%s, step %d: %v", name, step, err)
			}
		}
	}
	same := perStep(func(i int) uint64 { return participations(int64(2*i), 0) })
	if stattest.Count(same[0], examples, both) == nil {
		t.Error("two copies with one stream are not found out")
	}
}

// TestPublicMoments: ten rows in four public parts of 3, 3, 2, 2 rows with 3, 2, 2, 2 turns.
func TestPublicMoments(t *testing.T) {
	spec := sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.4, Steps: 9, MinSep: 4}}
	a := sampling.NewAudit(spec, sampling.Audited{Examples: 10})
	a.Checks()
	turns := 3*3 + 3*2 + 2*2 + 2*2.0
	if got := a.Realized(); math.Abs(got.Mean-0.4*turns) > 1e-12 || math.Abs(got.StandardDeviation-math.Sqrt(0.24*turns)) > 1e-12 {
		t.Errorf("%+v", got)
	}
}

// TestCertainMoments: a number of participations that is certain has a variance of exactly 0.
func TestCertainMoments(t *testing.T) {
	for _, s := range []sampling.Scheme{
		sampling.BallsInBins{Steps: 24, Period: 6},
		sampling.EpochMinSep{Steps: 21, MinSep: 3, EpochSteps: 7},
		sampling.Rotation{Steps: 21, EpochSteps: 7},
	} {
		if mean, variance := tableOf(t, s).TotalMoments(5); mean != math.Round(mean) || variance != 0 {
			t.Errorf("%+v: mean %v, variance %v", s, mean, variance)
		}
	}
}

func tableOf(t *testing.T, s sampling.Scheme) *sampling.Table {
	t.Helper()
	table := must.Get(sampling.TableOf(s))(t)
	return table
}

func TestBatchSizes(t *testing.T) {
	s, err := sampling.BMinSep{Steps: 7200, MinSep: 256, WarmStart: true}.WithBatchSize(1793, 14745600)
	if got := s.ExpectedBatchSize(14745600); err != nil || math.Abs(got-1793) > 1e-9 {
		t.Errorf("%v: batch size %v", err, got)
	}
	c, err := sampling.CyclicPoisson{Steps: 100, MinSep: 8}.WithBatchSize(12, 1000)
	if err != nil || math.Abs(c.Prob-0.096) > 1e-15 || math.Abs(c.ExpectedBatchSize(1000)-12) > 1e-12 {
		t.Errorf("%v: %+v", err, c)
	}
	p, err := sampling.Poisson{Steps: 100}.WithBatchSize(12, 1000)
	if err != nil || p.Prob != 0.012 {
		t.Errorf("%v: %+v", err, p)
	}
	full, err := sampling.BMinSep{Steps: 10, MinSep: 3}.WithBatchSize(4, 12)
	if err != nil || full.Prob != 1 {
		t.Errorf("batch size |D|/b: %v: %+v, want prob 1", err, full)
	}
	for name, f := range map[string]func() error{
		"b-min-sep": func() error { _, err := sampling.BMinSep{Steps: 10, MinSep: 4}.WithBatchSize(300, 1000); return err },
		"cyclic": func() error {
			_, err := sampling.CyclicPoisson{Steps: 10, MinSep: 4}.WithBatchSize(300, 1000)
			return err
		},
	} {
		fault, ok := f().(*sampling.InfeasibleError)
		if !ok || fault.Largest != 250 || !strings.Contains(fault.Error(), "250") {
			t.Errorf("%s: got %v, want an InfeasibleError with 250", name, fault)
		}
	}
	if _, err := (sampling.BMinSep{Steps: 10, MinSep: 4}).WithBatchSize(math.NaN(), 0); len(strings.Split(fmt.Sprint(err), "\n")) != 2 {
		t.Errorf("got %v, want both faults", err)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		s      interface{ Validate() error }
		faults int
	}{
		{sampling.BMinSep{Prob: math.NaN(), Steps: 0, MinSep: 0}, 3},
		{sampling.BMinSep{Prob: 1.5, Steps: 1 << 25, MinSep: 1}, 2},
		{sampling.Poisson{Prob: -1, Steps: 5}, 1},
		{sampling.BallsInBins{}, 2},
		{sampling.CyclicPoisson{}, 3},
		{sampling.MultiOwner{}, 3},
		{sampling.EpochMinSep{}, 3},
		{sampling.EpochMinSep{Steps: 5, MinSep: 4, EpochSteps: 3}, 1},
		{sampling.Fixed{MaxParticipations: -1}, 4},
		{sampling.Truncation{}, 1},
		{sampling.Spec{}, 1},
		{sampling.Spec{Poisson: &sampling.Poisson{}, BMinSep: &sampling.BMinSep{}}, 6},
		{sampling.Spec{Poisson: &sampling.Poisson{Prob: 1, Steps: 1}, Truncation: &sampling.Truncation{}}, 1},
		{sampling.Spec{Poisson: &sampling.Poisson{Prob: 1, Steps: 1}, Truncation: &sampling.Truncation{MaxBatchSize: 1}}, 0},
	} {
		got := 0
		if err := c.s.Validate(); err != nil {
			got = len(strings.Split(err.Error(), "\n"))
		}
		if got != c.faults {
			t.Errorf("%+v: %d faults, want %d: %v", c.s, got, c.faults, c.s.Validate())
		}
	}
}

// TestFrozenParticipations: what a key draws never changes. Do not change these numbers.
func TestFrozenParticipations(t *testing.T) {
	var got []string
	for _, s := range []sampling.Independent{
		sampling.BMinSep{Prob: 0.25, Steps: 40, MinSep: 5, WarmStart: true},
		sampling.BMinSep{Prob: 0.25, Steps: 40, MinSep: 5},
		sampling.CyclicPoisson{Prob: 0.5, Steps: 40, MinSep: 5, SecretPartition: true},
		sampling.BallsInBins{Steps: 40, Period: 13},
		sampling.EpochMinSep{Steps: 40, MinSep: 5, EpochSteps: 12},
		sampling.EpochMinSep{Steps: 40, MinSep: 1, EpochSteps: 60},
	} {
		draws(s, "frozen", 2, func(_ int, steps []int32) { got = append(got, fmt.Sprint(steps)) })
	}
	if !slices.Equal(got, frozen) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

var frozen = []string{
	"[5 10 16 21 27 32 37]", "[1 8 19 26 32 39]",
	"[4 9 15 20 26 31 36]", "[0 7 18 25 31 38]",
	"[1 6 11 16 21 26]", "[4 19 24 29 34]",
	"[9 22 35]", "[1 14 27]",
	"[3 13 27 36]", "[10 17 32]",
	"[18]", "[]",
}

// A scheme for a batch size, and a law of one's own: every third day with probability 1/2.
func Example() {
	spec, err := sampling.Params{Scheme: "b-min-sep", Steps: 1000, MinSep: 16, BatchSize: 500}.Spec(sampling.Population{Examples: 10000})
	if err != nil {
		fmt.Println(err)
		return
	}
	law := sampling.Law{
		Start: []sampling.Start{{Prob: 1}},
		Next: func(at sampling.Point) (p float64, in, out sampling.Point) {
			next := sampling.Point{Step: at.Step + 3}
			return 0.5, next, next
		},
	}
	table, err := law.Tabulate(30)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("prob %.4f; a law with at most %d participations, at least %d steps apart\n", spec.BMinSep.Prob, table.MaxParticipations(), table.Separation())
	// Output: prob 0.2000; a law with at most 10 participations, at least 3 steps apart
}
