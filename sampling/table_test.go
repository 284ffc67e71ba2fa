package sampling_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"testing"

	"minsep/internal/must"
	"minsep/internal/stattest"
	"minsep/internal/stream"
	"minsep/sampling"
)

// next is how a law, or its table, goes on from a point.
type next func(at sampling.Point) (p float64, in, out sampling.Point)

// enumerate adds the probabilities of all participation patterns from a point on, by their steps as
// bits.
func enumerate(all []float64, f next, at sampling.Point, pattern int, prob float64) {
	if 1<<min(at.Step, 30) >= len(all) {
		all[pattern] += prob
		return
	}
	p, in, out := f(at)
	if p > 0 {
		enumerate(all, f, in, pattern|1<<at.Step, prob*p)
	}
	if p < 1 {
		enumerate(all, f, out, pattern, prob*(1-p))
	}
}

func lawPatterns(l sampling.Law, n int) []float64 {
	all := make([]float64, 1<<n)
	for _, s := range l.Start {
		enumerate(all, l.Next, s.Point, 0, s.Prob)
	}
	return all
}

func tablePatterns(t *sampling.Table) []float64 {
	all := make([]float64, 1<<t.Steps)
	for _, s := range t.Starts {
		enumerate(all, t.Next, sampling.Point{Step: s.Step, State: s.State}, 0, s.Prob())
	}
	return all
}

// weekly is at most twice, at least a week apart, and never on the first day.
func weekly(p float64) sampling.Law {
	return sampling.Law{
		Start: []sampling.Start{{Point: sampling.Point{Step: 1}, Prob: 1}},
		Next: func(at sampling.Point) (float64, sampling.Point, sampling.Point) {
			in := sampling.Point{Step: at.Step + 7, State: at.State + 1}
			if at.State == 1 {
				in.Step = sampling.Never
			}
			return p, in, sampling.Point{Step: at.Step + 1, State: at.State}
		},
	}
}

// circle is a walk on a circle of three states, of which one may take part: points of probability 0.
func circle(p float64) sampling.Law {
	return sampling.Law{
		Start: []sampling.Start{{Prob: 0.25}, {Point: sampling.Point{State: 1}, Prob: 0.75}},
		Next: func(at sampling.Point) (float64, sampling.Point, sampling.Point) {
			q := p
			if at.State > 0 {
				q = 0
			}
			return q, sampling.Point{Step: at.Step + 1, State: 2}, sampling.Point{Step: at.Step + 1, State: (at.State + 2) % 3}
		},
	}
}

// lawful is a scheme of examples that are independent, with its law.
type lawful interface {
	sampling.Independent
	Law() sampling.Law
}

// smallScheme is a scheme of few steps, with the distribution of its definition.
type smallScheme struct {
	lawful
	patterns []float64
}

// smallSchemes have n steps; with corners.
func smallSchemes(rng *rand.Rand, n int) map[string]smallScheme {
	b := 1 + rng.IntN(4)
	T := b + rng.IntN(4)
	p := []float64{1, 0.3, 0.7, 1e-9}[rng.IntN(4)]
	return map[string]smallScheme{
		"warm":     {sampling.BMinSep{Prob: p, Steps: n, MinSep: b, WarmStart: true}, patternDistribution(p, n, b, true)},
		"cold":     {sampling.BMinSep{Prob: p, Steps: n, MinSep: b}, patternDistribution(p, n, b, false)},
		"wide":     {sampling.BMinSep{Prob: p, Steps: n, MinSep: 2 * n, WarmStart: true}, patternDistribution(p, n, 2*n, true)},
		"poisson":  {sampling.Poisson{Prob: p, Steps: n}, patternDistribution(p, n, 1, false)},
		"epochs":   {sampling.EpochMinSep{Steps: n, MinSep: b, EpochSteps: T}, epochDistribution(n, b, T)},
		"long":     {sampling.EpochMinSep{Steps: n, MinSep: b, EpochSteps: 2*n + b}, epochDistribution(n, b, 2*n+b)},
		"rotation": {sampling.Rotation{Steps: n, EpochSteps: T}, epochDistribution(n, 1, T)},
		"bins":     {sampling.BallsInBins{Steps: n, Period: T}, patternDistribution(1, n, T, true)},
		"secret":   {sampling.CyclicPoisson{Prob: p, Steps: n, MinSep: b, SecretPartition: true}, cyclicDistribution(p, n, b, b)},
		"public":   {sampling.CyclicPoisson{Prob: p, Steps: n, MinSep: b}, cyclicDistribution(p, n, b, 1)},
	}
}

func comparePatterns(t *testing.T, name string, got, want []float64) {
	t.Helper()
	for pattern, p := range want {
		if math.Abs(got[pattern]-p) > 2e-15 {
			t.Errorf("%s: steps %b have the probability %v, want %v", name, pattern, got[pattern], p)
		}
	}
}

// TestTablesAreTheirLaws: a law has the patterns of its definition, a table has those of its law, and
// so has what is read back.
func TestTablesAreTheirLaws(t *testing.T) {
	rng := rand.New(rand.NewPCG(18, 1))
	for range 40 {
		n := 1 + rng.IntN(9)
		laws := map[string]sampling.Law{"weekly": weekly(0.2), "circle": circle(0.4)}
		for name, s := range smallSchemes(rng, n) {
			laws[name] = s.Law()
			comparePatterns(t, fmt.Sprintf("the law of %+v", s.lawful), lawPatterns(s.Law(), n), s.patterns)
		}
		for name, l := range laws {
			table, err := l.Tabulate(n)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			comparePatterns(t, fmt.Sprintf("%s of %d steps", name, n), tablePatterns(table), lawPatterns(l, n))
			data := must.Get(json.Marshal(table))(t)
			var read sampling.Table
			must.Do(t, json.Unmarshal(data, &read))
			if err := read.Validate(); err != nil || read.Hash() != table.Hash() || !reflect.DeepEqual(&read, table) {
				t.Errorf("%s: the table that is read is another one, or %v", name, err)
			}
			holdTraits(t, fmt.Sprintf("%s of %d steps", name, n), table)
		}
	}
}

// holdTraits compares what a table says of its patterns with all patterns.
func holdTraits(t *testing.T, name string, table *sampling.Table) {
	t.Helper()
	apart, most := table.Steps, 0
	rates, mean, square := make([]float64, table.Steps), 0.0, 0.0
	all := tablePatterns(table)
	for pattern, p := range all {
		times := bits.OnesCount(uint(pattern))
		mean, square = mean+p*float64(times), square+p*float64(times*times)
		last := table.Steps
		for i := range rates {
			if pattern>>i&1 == 1 {
				rates[i] += p
				if p > 0 && i > last {
					apart = min(apart, i-last)
				}
				last = i
			}
		}
		if p > 0 {
			most = max(most, times)
		}
	}
	// An example that must wait for a point may be unable to take part there.
	if got := table.Separation(); got > apart || most > 1 && got != apart {
		t.Errorf("%s: separation %d, by all patterns %d", name, got, apart)
	}
	if got := table.MaxParticipations(); got != most {
		t.Errorf("%s: at most %d participations, by all patterns %d", name, got, most)
	}
	comparePatterns(t, name+", rates", table.Rates(), rates)
	gotMean, gotVariance := table.TotalMoments(10)
	if math.Abs(gotMean-10*mean) > 1e-12 || math.Abs(gotVariance-10*(square-mean*mean)) > 1e-12 || math.Abs(table.Never()-all[0]) > 1e-14 {
		t.Errorf("%s: mean %v, variance %v, none with %v; by all patterns %v, %v and %v", name, gotMean, gotVariance, table.Never(), 10*mean, 10*(square-mean*mean), all[0])
	}
}

// TestDraws: what schemes and tables draw has the distribution of the definition, and not one that is
// a little wrong.
func TestDraws(t *testing.T) {
	const n, examples = 7, 100_000
	rng := rand.New(rand.NewPCG(18, 2))
	for range 3 {
		laws := map[string]sampling.Law{"weekly": weekly(0.2), "weekly, often": weekly(0.9), "circle": circle(0.4)}
		for name, s := range smallSchemes(rng, n) {
			laws[name] = s.Law()
			want := s.patterns
			if c, ok := s.lawful.(sampling.CyclicPoisson); ok { // the law of public parts is that of the first
				want = cyclicDistribution(c.Prob, n, c.MinSep, c.MinSep)
			}
			if err := stattest.Distribution(patterns(s, name, n, examples), want); err != nil {
				t.Errorf("%+v: %v", s.lawful, err)
			}
		}
		for name, l := range laws {
			table := must.Get(l.Tabulate(n))(t)
			if err := stattest.Distribution(patterns(table, name+" tabulated", n, examples), lawPatterns(l, n)); err != nil {
				t.Errorf("%s, its table: %v", name, err)
			}
		}
	}
	seen := patterns(sampling.BMinSep{Prob: 0.3, Steps: n, MinSep: 3, WarmStart: true}, "twins", n, examples)
	for name, wrong := range map[string][]float64{"cold": patternDistribution(0.3, n, 3, false), "min-sep 4": patternDistribution(0.3, n, 4, true), "prob .31": patternDistribution(0.31, n, 3, true)} {
		if stattest.Distribution(seen, wrong) == nil {
			t.Errorf("cannot be told from %s", name)
		}
	}
}

// TestLongTables: waits of thousands of steps, through many segments.
func TestLongTables(t *testing.T) {
	const steps, draws = 5000, 20000
	table := must.Get(sampling.BMinSep{Prob: 0.002, Steps: steps, MinSep: 100}.Law().Tabulate(steps))(t)
	source := stream.NewSource(stream.PublicKey("table", []byte("long")))
	process := table.Process()
	var first, second []float64
	for i := range int64(draws) {
		list := process.Draw(nil, wordsAt(source, 0)(i), 0)
		if len(list) > 1 {
			first, second = append(first, float64(list[0])), append(second, float64(list[1]-list[0]-100))
		}
	}
	for k, waits := range [][]float64{first, second} {
		for _, bound := range []float64{200, 700, 1500} {
			count := 0.0
			for _, w := range waits {
				if w < bound {
					count++
				}
			}
			// The condition that there is a second participation changes this by less than .004.
			want := 1 - math.Pow(0.998, bound)
			if got := count / float64(len(waits)); math.Abs(got-want) > 0.004+5*math.Sqrt(want*(1-want)/draws) {
				t.Errorf("wait %d is below %v with probability %v, want %v", k, bound, got, want)
			}
		}
	}
}

// TestTableSizes: steps that are alike share a row, and laws without end are refused.
func TestTableSizes(t *testing.T) {
	for name, c := range map[string]struct {
		law         sampling.Law
		steps, rows int
	}{
		"b-min-sep": {sampling.BMinSep{Prob: 0.1, Steps: 5000, MinSep: 16, WarmStart: true}.Law(), 5000, 1},
		"epochs":    {sampling.EpochMinSep{Steps: 5000, MinSep: 16, EpochSteps: 125}.Law(), 5000, 125},
		"rotation":  {sampling.Rotation{Steps: 5000, EpochSteps: 250}.Law(), 5000, 250},
		"bins":      {sampling.BallsInBins{Steps: 5000, Period: 50}.Law(), 5000, 1},
		"weekly":    {weekly(0.2), 100, 3}, // the first day, a week with one state, and later days with two
	} {
		table := must.Get(c.law.Tabulate(c.steps))(t)
		if len(table.Rows) != c.rows {
			t.Errorf("%s: %d different steps, want %d", name, len(table.Rows), c.rows)
		}
	}
	tree := sampling.Law{Start: []sampling.Start{{Prob: 1}}, Next: func(at sampling.Point) (float64, sampling.Point, sampling.Point) {
		return 0.5, sampling.Point{Step: at.Step + 1, State: 2 * at.State}, sampling.Point{Step: at.Step + 1, State: 2*at.State + 1}
	}}
	must.Fail(t, "a law of 2^60 states", "must be at most 1048576")(tree.Tabulate(60))
}

// TestLawsRefused: what a law may not say.
func TestLawsRefused(t *testing.T) {
	at := sampling.Point{Step: 3}
	starts := func(p ...float64) (list []sampling.Start) {
		for _, x := range p {
			list = append(list, sampling.Start{Prob: x})
		}
		return list
	}
	one := func(p float64, in sampling.Point) next {
		return func(sampling.Point) (float64, sampling.Point, sampling.Point) {
			return p, in, sampling.Point{Step: sampling.Never}
		}
	}
	for name, l := range map[string]sampling.Law{
		"no starts":            {Next: one(0.5, at)},
		"no Next":              {Start: starts(1)},
		"starts below 1":       {Start: starts(0.5, 0.4), Next: one(0.5, at)},
		"a negative start":     {Start: starts(1.5, -0.5), Next: one(0.5, at)},
		"a start before all":   {Start: []sampling.Start{{Point: sampling.Point{Step: -1}, Prob: 1}}, Next: one(0.5, at)},
		"a probability of 1.1": {Start: starts(1), Next: one(1.1, at)},
		"no probability":       {Start: starts(1), Next: one(math.NaN(), at)},
		"standing still":       {Start: starts(1), Next: one(0.5, sampling.Point{Step: 0})},
	} {
		if _, err := l.Tabulate(3); err == nil {
			t.Errorf("%s: there is a table", name)
		}
	}
	must.Fail(t, "a table of no steps", "must be from 1 to")(weekly(0.2).Tabulate(0))
}

// TestTablesRefused: a table that is not what a law makes is refused, and every integer counts for
// the hash.
func TestTablesRefused(t *testing.T) {
	for name, harm := range map[string]func(t *sampling.Table){
		"no steps":        func(t *sampling.Table) { t.Steps = 0 },
		"more steps":      func(t *sampling.Table) { t.Steps++ },
		"a class less":    func(t *sampling.Table) { t.Classes = t.Classes[1:] },
		"endless classes": func(t *sampling.Table) { t.Classes[0].Count = math.MaxInt },
		"a row of none":   func(t *sampling.Table) { t.Classes[0].Row = len(t.Rows) },
		"a threshold":     func(t *sampling.Table) { t.Rows[1][0].Threshold = 1<<63 + 1 },
		"no threshold":    func(t *sampling.Table) { t.Rows[1][0].Threshold = 0 },
		"a step back":     func(t *sampling.Table) { t.Rows[1][0].In.Wait = -1 },
		"a state of none": func(t *sampling.Table) { t.Rows[1][0].In.State = 77 },
		"no start":        func(t *sampling.Table) { t.Starts = nil },
		"half a start":    func(t *sampling.Table) { t.Starts[0].Weight /= 2 },
		"a start of none": func(t *sampling.Table) { t.Starts[0].State = 77 },
		"an early start":  func(t *sampling.Table) { t.Starts[0].Step = -1 },
	} {
		table := must.Get(weekly(0.2).Tabulate(20))(t)
		before := table.Hash()
		harm(table)
		if table.Validate() == nil {
			t.Errorf("%s: the table is valid", name)
		}
		if table.Hash() == before {
			t.Errorf("%s: the hash is the same", name)
		}
	}
}
