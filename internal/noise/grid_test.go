package noise

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"minsep/internal/must"
	"minsep/mechanism"
)

func TestGrid(t *testing.T) {
	s := mechanism.Identity(4)
	for _, c := range []struct {
		multiplier, clip float64
		grid             Grid
		float64          bool
		want             Grid   // 0: refused
		rule             string // of the refusal
	}{
		{1, 1, 0, false, 0x1p-19, ""}, // the power of two above 1, in the sense of math.Frexp, is 2
		{0.99, 1, 0, false, 0x1p-20, ""},
		{0.99, 1, 0x1p-20, false, 0x1p-20, ""},
		{0.99, 1, 0x1p-10, false, 0x1p-10, ""},
		{0.99, 1, 0x1p-21, false, 0, "grid 4.76837158203125e-07: must be between 9.5367431640625e-07, for which a float32, with dtype float32, holds"},
		{0.99, 1, 1, false, 0, "grid 1: must be between"},
		{0.99, 1, 0x1.8p-10, false, 0, "must be a power of two"},
		{0.99, 1, NoGrid, false, NoGrid, ""},
		{0.99, 1, -2, false, 0, "must be a power of two"},
		{0.99, 1, 0, true, 0x1p-40, ""},
		{0.99, 1, 0x1p-20, true, 0x1p-20, ""},
		{0.99, 1, 0x1p-46, true, 0x1p-46, ""},
		{0.99, 1, 0x1p-47, true, 0, "for which a float64 holds 16 deviations"},
		{0.99, 1, NoGrid, true, NoGrid, ""},
		{0x1p-96, 1, 0, true, 0x1p-135, ""},
		{0x1p96, 1, 0, false, 0x1p77, ""},
		{0x1p-97, 1, 0, false, 0, "noise multiplier 6.310887241768095e-30: times the clip norm, 1, must be 2^-96 to 2^96"},
		{0x1p97, 1, 0, false, 0, "noise multiplier 1.5845632502852868e+29: times the clip norm"},
		{1e308, 1, 0, false, 0, "noise multiplier 1e+308: times the clip norm, 1, must be"},
		{1e308, 0x1p80, NoGrid, false, 0, "noise multiplier 1e+308: times the clip norm, 1.2089258196146292e+24, must be"},
		{0x1p-20, 0x1p-80, 0, true, 0, "noise multiplier 9.5367431640625e-07: times the clip norm"},
		{0x1p-16, 0x1p-80, 0, true, 0x1p-135, ""},
		{1, 1e-300, 0, false, 0, "clip norm 1e-300: must be 2^-80 to 2^80"},
		{1e308, 1e308, NoGrid, false, 0, "clip norm 1e+308: must be"},
		{1, math.NaN(), 0, false, 0, "clip norm NaN: must be"},
	} {
		r, err := NewRecipe(Config{Strategy: s, Coordinates: 100, NoiseMultiplier: c.multiplier, ClipNorm: c.clip, Grid: c.grid, Float64: c.float64})
		switch {
		case err != nil && (c.want != 0 || !strings.Contains(err.Error(), c.rule) || strings.Contains(err.Error(), "unstable")):
			t.Errorf("%+v: %v", c, err)
		case err == nil && r.Grid() != c.want:
			t.Errorf("%+v: grid %v", c, r.Grid())
		}
	}
}

func TestGridText(t *testing.T) {
	for text, want := range map[string]Grid{"none": NoGrid, "0.5": 0.5, "0x1p-30": 0x1p-30, "1e-3": 1e-3} {
		var g Grid
		if err := g.Set(text); err != nil || g != want {
			t.Errorf("%s: %v (%v)", text, g, err)
		}
		var back Grid
		if b, err := json.Marshal(g); err != nil || json.Unmarshal(b, &back) != nil || back != want {
			t.Errorf("%s: %s comes back as %v (%v)", text, b, back, err)
		}
		if back = 0; back.Set(g.String()) != nil || back != want {
			t.Errorf("%s: %s comes back as %v", text, g, back)
		}
	}
	for _, text := range []string{"", "0", "-1", "-0.5", "NaN", "Inf", "None", "NONE", "0,5"} {
		g := Grid(7)
		if err := g.Set(text); err == nil || g != 7 {
			t.Errorf("%q is accepted as %v (%v)", text, g, err)
		}
	}
	for _, text := range []string{`""`, `0`, `-1`, `"0.5"`, `none`, `"None"`, `true`, `[]`} {
		g := Grid(7)
		if err := json.Unmarshal([]byte(text), &g); err == nil || g != 7 {
			t.Errorf("JSON %s is accepted as %v (%v)", text, g, err)
		}
	}
}

// TestRoundingCommutes: the argument of the package comment, on computed values. Adding the noise
// to multiples of the grid is the same as rounding the sum of the unrounded noise and those
// multiples, to the bit, in both types.
func TestRoundingCommutes(t *testing.T) {
	const steps, width = 4, 4001
	for _, wide := range []bool{false, true} {
		r := bind(t, Config{Strategy: strategies(steps)["toeplitz 2"], Coordinates: width, NoiseMultiplier: 3, ClipNorm: .1, Float64: wide})
		exact, rounded := make([]float64, steps*width), make([]float64, steps*width)
		must.Do(t, errors.Join(generator(t, r, 0, width).FillUnrounded(exact), generator(t, r, 0, width).Fill64(rounded)))
		grid := float64(r.Params.Grid)
		ties := 0
		for i, v := range rounded {
			if v != math.RoundToEven(exact[i]/grid)*grid || math.Signbit(v) && v == 0 {
				t.Fatalf("value %v for %v on the grid %v", v, exact[i], grid)
			}
			// The sums are exact: |x| is at most 2^7 g, and the unrounded value is moved by whole
			// multiples.
			if low := exact[i]/grid - math.Floor(exact[i]/grid); low == 0.5 {
				ties++
				continue
			}
			for _, x := range []float64{1, -3, 77} {
				if moved := exact[i]/grid + x; moved-x == exact[i]/grid && math.RoundToEven(moved) != v/grid+x {
					t.Fatalf("value %v: rounding does not commute with adding %v multiples of %v", exact[i], x, grid)
				}
			}
		}
		if ties > 4 { // one in 2^29 values, or in 2^9 where the grid is near the last bit
			t.Errorf("%d of %d values are ties", ties, len(rounded))
		}
	}
}

// TestGridOfBothTypes: on one grid float32 and float64 have the same values, on the grid of float64
// a float32 is refused, and without a grid the float32 are those next to the float64.
func TestGridOfBothTypes(t *testing.T) {
	const steps, width = 6, 333
	for name, c := range map[string]struct {
		config Config
		err32  error
		same   bool
	}{
		"float32": {Config{}, nil, true},
		"float64": {Config{Float64: true}, ErrRange, false},
		"given":   {Config{Grid: 0x1p-12, Float64: true}, nil, true},
		"no grid": {Config{Grid: NoGrid}, nil, false},
	} {
		c.config.Strategy, c.config.Coordinates, c.config.NoiseMultiplier, c.config.ClipNorm = strategies(steps)["blt"], width, 1.7, 1
		r := bind(t, c.config)
		single, double, exact := make([]float32, steps*width), make([]float64, steps*width), make([]float64, steps*width)
		if err := generator(t, r, 0, width).Fill32(single); !errors.Is(err, c.err32) {
			t.Errorf("%s: float32: %v, want %v", name, err, c.err32)
		}
		if err := errors.Join(generator(t, r, 0, width).Fill64(double), generator(t, r, 0, width).FillUnrounded(exact)); err != nil {
			t.Errorf("%s: float64: %v", name, err)
		}
		if c.err32 != nil {
			continue
		}
		differ := 0
		for i, v := range double {
			if single[i] != float32(v) || c.config.Grid == NoGrid && v != exact[i] {
				t.Fatalf("%s: value %d: float32 %v, float64 %v, unrounded %v", name, i, single[i], v, exact[i])
			}
			if float64(single[i]) != v {
				differ++
			}
		}
		if c.same != (differ == 0) {
			t.Errorf("%s: %d of %d float32 differ from the float64", name, differ, len(double))
		}
	}
}

// TestTinyDiagonal: a strategy whose noise is beyond all bounds has no recipe, although the two
// vectors by which a strategy is validated do not show it.
func TestTinyDiagonal(t *testing.T) {
	for _, diagonal := range []float64{1e-30, 1e-160, 1e-310} {
		shown := 0
		for _, cancels := range []float64{1, -1} {
			s := &mechanism.Strategy{Kind: mechanism.KindOwn, Steps: 3, Columns: [][]float64{{1}, {1, cancels}, {diagonal}}}
			if s.Validate() != nil {
				shown++
			}
			if _, err := NewRecipe(Config{Strategy: s, Coordinates: 1, NoiseMultiplier: 1, ClipNorm: 1}); err == nil {
				t.Errorf("a diagonal of %g has a recipe", diagonal)
			}
		}
		if diagonal < 1e-100 && shown != 1 {
			t.Errorf("%d of 2 are refused as strategies", shown)
		}
	}
}
