package pld

import (
	"flag"
	"math"
	"os"
	"testing"

	"pgregory.net/rapid"

	"minsep/internal/stattest"
)

// TestMain lets the properties draw the same 25 cases every time, unless others are asked for: some
// draws take half a minute to shrink.
func TestMain(m *testing.M) {
	flag.Parse()
	for name, value := range map[string]string{"rapid.seed": "1", "rapid.checks": "25"} {
		if f := flag.Lookup(name); f.Value.String() == f.DefValue && !stattest.Long() {
			f.Value.Set(value)
		}
	}
	os.Exit(m.Run())
}

// TestRandomEvents: the bound of one random event is the closed form or a little more. That of many
// falls if the grid is divided, and both inversions agree.
func TestRandomEvents(t *testing.T) {
	if testing.Short() {
		t.Skip("many accountings")
	}
	rapid.Check(t, func(t *rapid.T) {
		e := Release{
			Prob:            math.Exp(rapid.Float64Range(math.Log(1e-4), 0).Draw(t, "log prob")),
			NoiseMultiplier: math.Exp(rapid.Float64Range(math.Log(0.4), math.Log(8)).Draw(t, "log sigma")),
			Sensitivity:     1,
			Examples:        rapid.IntRange(1, 4).Draw(t, "examples"),
		}
		if e.Examples == 1 && rapid.Bool().Draw(t, "truncated") {
			others := rapid.IntRange(1, 300).Draw(t, "others")
			e.Truncation = &Truncation{MaxBatchSize: 1 + int(float64(others)*e.Prob*rapid.Float64Range(0.5, 2).Draw(t, "size")), Others: others}
		}
		epsilon := rapid.Float64Range(0, 3).Draw(t, "epsilon")
		one, err := Compose([]Step{{e, 1}}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		parts, most := exactParts(e), 1.05
		if e.Truncation != nil { // numbers of other examples are grouped
			most = 1.3
		}
		for i, l := range []Loss{one.PQ, one.QP} {
			want := oracle1(parts, []func(pair) pair{same, pair.mirrored}[i], epsilon)
			got, err := l.Delta(epsilon)
			if err != nil || got < want*(1-1e-8)-1e-15 || got > most*want+1e-9 {
				t.Fatalf("%+v, direction %d: δ(%g) = %.10g, want %.10g, %v", e, i, epsilon, got, want, err)
			}
		}
		const grid = 5e-3
		steps := []Step{{e, 1 << rapid.IntRange(0, 9).Draw(t, "log count")}}
		delta := math.Pow(10, -rapid.Float64Range(0.3, 12).Draw(t, "-log10 delta"))
		bound := func(o Options) float64 {
			c, err := Compose(steps, o)
			if err != nil {
				t.Fatal(err)
			}
			epsilon, err := c.Epsilon(delta)
			if err != nil {
				t.Fatal(err)
			}
			return epsilon
		}
		fine, coarse := bound(Options{Grid: grid}), bound(Options{Grid: 4 * grid})
		if fine > coarse*(1+1e-6)+1e-9 {
			t.Fatalf("ε(%g) = %g, and %g on a coarser grid", delta, fine, coarse)
		}
		if math.IsInf(fine, 1) {
			return
		}
		if d := deltaOf(t, steps, Options{Grid: grid}, fine); d > delta*(1+0.1) {
			t.Fatalf("ε(%g) = %g, where δ is %g", delta, fine, d)
		}
		// The bound is not needlessly large: by a few grid points at most, since ε and δ may each be
		// best under another tilt.
		if smaller := fine - 4*grid; smaller > 0 && delta < 0.05 {
			if d := deltaOf(t, steps, Options{Grid: grid}, smaller); d < delta*0.9 {
				t.Fatalf("ε(%g) = %g, but δ(%g) is %g", delta, fine, smaller, d)
			}
		}
	})
}
