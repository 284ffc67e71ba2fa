package statistics

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/store"
	"minsep/privacy"
)

const perOwner = 3

// table names a bounded table.
const table = "bounded 1"

var ask = privacy.Statistics{Name: "first", Epsilon: 2, Statistics: []privacy.Statistic{
	{Column: "label", Kind: privacy.Counts, Classes: []string{"cat", "dog", "eel"}},
	{Column: "age", Kind: privacy.Mean, Lower: -10, Upper: 30},
	{Column: "age", Kind: privacy.Variance, Lower: -10, Upper: 30},
	{Column: "age", Kind: privacy.Quantiles, Lower: -10, Upper: 30, Ranks: []float64{0, 0.25, 0.75}},
}}

// encoded returns the aggregates of n examples: a third are cats, a third dogs, a third of a class
// that is not asked for; ages are -100 and 100 in turn, which are clamped.
func encoded(t testing.TB, of privacy.Statistics, n int) []byte {
	t.Helper()
	a := must.Get(New(of, perOwner))(t)
	for i := range n {
		label := []string{"cat", "dog", "emu"}[i%3]
		must.Do(t, a.Add("label", math.NaN(), label))
		must.Do(t, a.Add("age", 100*float64(2*(i%2)-1), ""))
	}
	b := must.Get(a.Encode())(t)
	return b
}

func results(t testing.TB, of privacy.Statistics, parts ...[]byte) [][]float64 {
	t.Helper()
	a := must.Get(New(of, perOwner))(t)
	for _, b := range parts {
		must.Do(t, a.Merge(b))
	}
	r := must.Get(a.results())(t)
	return r
}

// TestExact: with next to no noise, statistics of parts that are merged are those of all values,
// clamped.
func TestExact(t *testing.T) {
	of := ask
	of.Epsilon = 1e6
	got := results(t, of, encoded(t, of, 600), encoded(t, of, 0), encoded(t, of, 300))
	if want := []float64{300, 300, 0}; !reflect.DeepEqual(got[0], want) {
		t.Errorf("counts %v, want %v", got[0], want)
	}
	for i, want := range [][]float64{1: {10}, 2: {400}, 3: {-10, -10, 30}} {
		for j, x := range want {
			if math.Abs(got[i][j]-x) > 0.02 {
				t.Errorf("%s: %v, want %v", of.Statistics[i].Kind, got[i], want)
			}
		}
	}
}

// TestNoise: counts and means have Laplace noise of the scale that follows from the number of
// examples of an owner and from the statistic's part of ε. Its mean absolute value is the scale b,
// with a standard deviation of b/√trials: 6.2 of them have a false-reject probability of 1e-9. Noise
// for one example of an owner, or for the whole ε, fails.
func TestNoise(t *testing.T) {
	const trials, n = 3000, 9000
	of := ask
	of.Statistics = ask.Statistics[:2]
	b := encoded(t, of, n)
	var count, mean float64
	for range trials {
		r := results(t, of, b)
		count += math.Abs(r[0][0]-n/3) / trials
		mean += math.Abs(r[1][0]-10) / trials
	}
	epsilon := of.Epsilon / 2
	tolerance := 6.2 / math.Sqrt(trials)
	// The noise of integers is rounded to them, which changes b of 3 by 1/(12b²) of itself.
	if want := perOwner / epsilon; math.Abs(count/want-1) > tolerance+1.0/(12*9) {
		t.Errorf("counts are off by %.4g in the mean, want %.4g", count, want)
	}
	// Half of ε is for the sum about the middle, in which a value counts at most (Upper-Lower)/2;
	// the number of values, with the other half, is off by less than 1 % in the mean.
	if want := 20 * perOwner / (epsilon / 2) / n; math.Abs(mean/want-1) > tolerance+0.01 {
		t.Errorf("means are off by %.4g in the mean, want %.4g", mean, want)
	}
}

// aggregates returns aggregates of nine examples.
func aggregates(t testing.TB) *Aggregates {
	t.Helper()
	a := must.Get(New(ask, perOwner))(t)
	must.Do(t, a.Merge(encoded(t, ask, 9)))
	return a
}

// TestReleasedOnce: a release that is there is returned in place of another one, but to its own request
// only, and refused beside another table.
func TestReleasedOnce(t *testing.T) {
	run := t.TempDir()
	first, err := aggregates(t).Release(t.Context(), run, table)
	if err != nil || len(first.Results) != 4 || first.MaxExamplesPerOwner != perOwner || first.Examples != table {
		t.Fatalf("%+v, %v", first, err)
	}
	second, err := aggregates(t).Release(t.Context(), run, table)
	if err != nil || !reflect.DeepEqual(second, first) {
		t.Errorf("%+v, %v: want the first release", second, err)
	}
	for name, other := range map[string]struct {
		epsilon  float64
		perOwner int
		table    string
	}{
		"another epsilon": {1, perOwner, table},
		"another limit":   {ask.Epsilon, perOwner + 1, table},
		"another table":   {ask.Epsilon, perOwner, "bounded 2"},
	} {
		of := ask
		of.Epsilon = other.epsilon
		a := must.Get(New(of, other.perOwner))(t)
		if r, err := a.Release(t.Context(), run, other.table); r.Results != nil || err == nil || !strings.Contains(err.Error(), "other statistics") {
			t.Errorf("%s: got %+v, %v", name, r, err)
		}
	}
	all, err := All(t.Context(), run)
	if err != nil || len(all) != 1 || !reflect.DeepEqual(all[0], first) {
		t.Errorf("%+v, %v", all, err)
	}
	if none, err := All(t.Context(), t.TempDir()); none != nil || err != nil {
		t.Errorf("%v, %v", none, err)
	}
	index := filepath.Join(run, manifest.BoundedFolder, manifest.IndexName)
	must.Do(t, errors.Join(os.Mkdir(filepath.Dir(index), 0o755), os.WriteFile(index, nil, 0o644)))
	if all, err := All(t.Context(), run); all != nil || err == nil || !strings.Contains(err.Error(), "another bounded table") {
		t.Errorf("beside another table: %+v, %v", all, err)
	}
}

// TestOneDraw: whenever a process that releases is killed, and whenever another one releases
// meanwhile, there is one file at most, and all releases that end well are the one in it. A draw
// under a temporary name fails, since nobody counts it.
func TestOneDraw(t *testing.T) {
	defer func() { store.BeforeChange = nil }()
	for _, killed := range []bool{true, false} {
		for n, more := 0, true; more; n++ {
			run, changes := t.TempDir(), 0
			var ended []privacy.Release
			store.BeforeChange = func(string, string) {
				if changes++; changes != n+1 {
					return
				}
				if killed {
					panic("killed")
				}
				if r, err := aggregates(t).Release(t.Context(), run, table); err == nil {
					ended = append(ended, r)
				}
			}
			func() {
				defer func() { recover() }()
				if r, err := aggregates(t).Release(t.Context(), run, table); err == nil {
					ended = append(ended, r)
				}
			}()
			store.BeforeChange, more = nil, changes > n
			folder := filepath.Join(run, manifest.StatisticsFolder)
			left, _ := os.ReadDir(folder)
			if len(left) > 1 || len(left) == 1 && left[0].Name() != ask.Name+".json" {
				t.Errorf("change %d, killed %v: left %v", n, killed, left)
			}
			r, err := aggregates(t).Release(t.Context(), run, table)
			if err != nil {
				t.Fatalf("change %d, killed %v: again: %v", n, killed, err)
			}
			for _, other := range ended {
				if !reflect.DeepEqual(other, r) {
					t.Errorf("change %d, killed %v: %+v and %+v are both released", n, killed, other, r)
				}
			}
		}
	}
}

// TestCut: a file without its end is neither taken for a release nor left out, and says what to do.
func TestCut(t *testing.T) {
	run := t.TempDir()
	must.Get(aggregates(t).Release(t.Context(), run, table))(t)
	b := must.Get(os.ReadFile(path(run, ask.Name)))(t)
	again := aggregates(t)
	for n := range b {
		must.Do(t, os.WriteFile(path(run, ask.Name), b[:n], 0o644))
		must.Fail(t, "all, cut", "has no end")(All(t.Context(), run))
		must.Fail(t, "a cut release", "has no end")(again.Release(t.Context(), run, table))
	}
}

// TestEdited: a release in which any digit was changed is refused.
func TestEdited(t *testing.T) {
	run := t.TempDir()
	released := must.Get(aggregates(t).Release(t.Context(), run, table))(t)
	b := must.Get(os.ReadFile(path(run, ask.Name)))(t)
	edited := 0
	for i, c := range b {
		if c < '1' || c > '9' || bytes.HasSuffix(b[:i], []byte("minsep-statistics/")) {
			continue
		}
		other := slices.Clone(b)
		other[i] = '1' + (c-'0')%9
		must.Do(t, os.WriteFile(path(run, ask.Name), other, 0o644))
		// A last digit of a number may change nothing.
		if r, err := Read(t.Context(), run, ask.Name); err == nil && !reflect.DeepEqual(r, released) {
			t.Errorf("byte %d: %+v", i, r)
		}
		edited++
	}
	if edited < 80 { // the digest alone has about 36
		t.Errorf("%d digits were edited", edited)
	}
}

// TestRefused: what has no bound, and what else is wrong, is refused.
func TestRefused(t *testing.T) {
	for rule, change := range map[string]func(s *privacy.Statistics){
		"name":                              func(s *privacy.Statistics) { s.Name = "../x" },
		"must be finite and at least 4e-12": func(s *privacy.Statistics) { s.Epsilon = 0 },
		"at least one":                      func(s *privacy.Statistics) { s.Statistics = nil },
		"finite bounds":                     func(s *privacy.Statistics) { s.Statistics[1].Lower, s.Statistics[1].Upper = 0, 0 },
		"+Inf":                              func(s *privacy.Statistics) { s.Statistics[2].Upper = math.Inf(1) },
		"name the classes":                  func(s *privacy.Statistics) { s.Statistics[0].Classes = nil },
		"class once":                        func(s *privacy.Statistics) { s.Statistics[0].Classes = []string{"a", "a"} },
		"finite square":                     func(s *privacy.Statistics) { s.Statistics[2].Upper = 1e200 },
		"0 ranks":                           func(s *privacy.Statistics) { s.Statistics[3].Ranks = nil },
		"from 0 to 1":                       func(s *privacy.Statistics) { s.Statistics[3].Ranks = []float64{1.5} },
		"kind":                              func(s *privacy.Statistics) { s.Statistics[3].Kind = "mode" },
	} {
		of := ask
		of.Statistics = slices.Clone(ask.Statistics)
		change(&of)
		must.Fail(t, "", rule)(New(of, perOwner))
	}
}

// TestEffect: an owner's value moves no sum before noise by more than a value's most, whatever the
// bounds, the other values and their order. Sums of floats fail: they overflow, so that a value decides
// alone, or a value that is left out changes how the following ones are rounded.
func TestEffect(t *testing.T) {
	const perOwner, n = 1, 1 << 12
	for _, bounds := range [][2]float64{{-1, 1}, {-8e307, 8e307}, {0, 5e-324}, {1e16, 1e16 + 2}, {-1, 1e-20}} {
		of := ask
		of.Statistics = []privacy.Statistic{{Column: "age", Kind: privacy.Mean, Lower: bounds[0], Upper: bounds[1]}}
		if bounds[1] < 1e100 {
			of.Statistics = append(of.Statistics, of.Statistics[0])
			of.Statistics[1].Kind = privacy.Variance
		}
		sums := func(values ...float64) (all []int64) {
			a := must.Get(New(of, perOwner))(t)
			add := func(value float64) {
				must.Do(t, a.Add("age", value, ""))
			}
			for _, value := range values {
				add(value)
			}
			for range n {
				add(bounds[1])
			}
			for range n {
				add(bounds[1]/2 + bounds[0]/2 + (bounds[1]-bounds[0])*0x1p-42) // half of a float's last place of the sum, and more
			}
			for _, g := range a.all {
				all = append(all, g.Sums...)
			}
			return all
		}
		without := sums()
		for _, value := range []float64{bounds[0], bounds[1], math.Inf(1), math.Inf(-1), math.MaxFloat64, 0, math.NaN()} {
			for j, with := range sums(value) {
				most := int64(grid)
				if j == 0 || j == 2 {
					most = 1
				}
				if move := with - without[j]; max(move, -move) > most || math.IsNaN(value) && move != 0 {
					t.Errorf("%g of %v: sum %d moves by %d of %d", value, bounds, j, move, most)
				}
			}
		}
	}
}

// TestTooMany: more values than a sum has room for are refused, be they added or merged.
func TestTooMany(t *testing.T) {
	a := aggregates(t)
	mean := &a.all[1].Sums
	*mean = []int64{maxValues - 1, (maxValues - 1) * grid}
	if err := a.Add("age", 1e9, ""); err != nil || (*mean)[1] != 1<<62 {
		t.Fatalf("%v, %v", *mean, err)
	}
	if err := a.Add("age", 1e9, ""); !errors.Is(err, errTooMany) {
		t.Errorf("%v, %v", *mean, err)
	}
	b := must.Get(a.Encode())(t)
	if err := aggregates(t).Merge(b); !errors.Is(err, errTooMany) {
		t.Error(err)
	}
}

// TestText: names and classes that JSON would change are refused before a draw.
func TestText(t *testing.T) {
	for _, s := range []privacy.Statistic{
		{Column: "label", Kind: privacy.Counts, Classes: []string{"cat\xff"}},
		{Column: "age\xff", Kind: privacy.Mean, Lower: 0, Upper: 1},
	} {
		of := privacy.Statistics{Name: "a", Epsilon: 1, Statistics: []privacy.Statistic{s}}
		must.Fail(t, s.Column, "UTF-8")(New(of, 1))
	}
}

// TestBounds: results are within bounds of every size, and quantiles of values next to the upper
// bound are there.
func TestBounds(t *testing.T) {
	for _, bounds := range [][2]float64{{-8e307, 8e307}, {0, 5e-324}, {1e16, 1e16 + 2}, {-1, 1e-20}} {
		of := privacy.Statistics{Name: "a", Epsilon: 1e6, Statistics: []privacy.Statistic{
			{Column: "x", Kind: privacy.Mean, Lower: bounds[0], Upper: bounds[1]},
			{Column: "x", Kind: privacy.Quantiles, Lower: bounds[0], Upper: bounds[1], Ranks: []float64{0.01}}}}
		a := must.Get(New(of, 1))(t)
		for range 5 {
			must.Do(t, a.Add("x", math.Nextafter(bounds[1], bounds[0]/2+bounds[1]/2), ""))
		}
		r := must.Get(a.results())(t)
		for i, list := range r {
			if at := position(of.Statistics[i], list[0]); !(list[0] >= bounds[0] && list[0] <= bounds[1]) || bounds[1]-bounds[0] > 0.5 && bounds[1] < 1e16 && at < 0.99 {
				t.Errorf("%v: %s %g", bounds, of.Statistics[i].Kind, list[0])
			}
		}
	}
}
