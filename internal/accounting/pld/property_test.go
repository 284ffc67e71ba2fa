package pld

import (
	"flag"
	"math"
	"os"
	"testing"

	"pgregory.net/rapid"
)

// TestMain lets the properties draw the same cases every time, unless a seed is asked for: some
// draws take half a minute to shrink.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.seed"); f.Value.String() == f.DefValue {
		f.Value.Set("1")
	}
	os.Exit(m.Run())
}

// TestBracketsOverlap: each bracket holds the same true number, so brackets on different grids, and
// with other cuts of the tails, have a point in common; the finer is not much wider.
func TestBracketsOverlap(t *testing.T) {
	if testing.Short() {
		t.Skip("a hundred accountings")
	}
	rapid.Check(t, func(t *rapid.T) {
		e := Event{
			Prob:            math.Exp(rapid.Float64Range(math.Log(1e-4), 0).Draw(t, "log prob")),
			NoiseMultiplier: math.Exp(rapid.Float64Range(math.Log(0.4), math.Log(8)).Draw(t, "log sigma")),
			Sensitivity:     1,
			Examples:        rapid.IntRange(1, 4).Draw(t, "examples"),
		}
		if e.Examples == 1 && rapid.Bool().Draw(t, "truncated") {
			others := rapid.IntRange(1, 300).Draw(t, "others")
			e.Truncation = &Truncation{MaxBatchSize: 1 + int(float64(others)*e.Prob*rapid.Float64Range(0.5, 2).Draw(t, "size")), Others: others}
		}
		steps := []Step{{e, 1 << rapid.IntRange(0, 9).Draw(t, "log count")}}
		delta := math.Pow(10, -rapid.Float64Range(0.3, 15).Draw(t, "-log10 delta"))
		var all, joint Bracket
		for i, o := range []Options{{Grid: 2e-2}, {Grid: 1.3e-2, Tail: 1e-24}, {Grid: 5e-3}} {
			c, err := Compose(steps, o)
			if err != nil {
				t.Skip(err)
			}
			b, err := c.Epsilon(delta)
			if err != nil {
				t.Fatal(err)
			}
			if !(b.Lower <= b.Upper) {
				t.Fatalf("grid %g: %v", o.Grid, b)
			}
			if i == 0 {
				all, joint = b, b
			}
			all = Bracket{min(all.Lower, b.Lower), max(all.Upper, b.Upper)}
			joint = Bracket{max(joint.Lower, b.Lower), min(joint.Upper, b.Upper)}
			if math.IsInf(b.Upper, 1) { // δ is below the mass that may be anywhere: true, and no more to be said
				continue
			}
			d, err := c.Delta(b.Upper)
			if err != nil || b.Upper > 0 && d.Lower > delta*(1+1e-6) {
				t.Fatalf("grid %g: ε(%g) = %v, δ of its upper end %v, %v", o.Grid, delta, b, d, err)
			}
			// For a δ as it is used the upper end is not needlessly large: by a few grid points at
			// most, since ε and δ may each be best under another tilt.
			if smaller := b.Upper - 4*o.Grid; smaller > 0 && 1e-12 < delta && delta < 0.05 {
				if d, err := c.Delta(smaller); err != nil || d.Upper < delta*0.9 {
					t.Fatalf("grid %g: ε(%g) = %v, but δ(%g) is %v, %v", o.Grid, delta, b, smaller, d, err)
				}
			}
		}
		if joint.Lower > joint.Upper {
			t.Fatalf("δ = %g: brackets without a common point: %v within %v", delta, joint, all)
		}
	})
}
