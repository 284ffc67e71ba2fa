package noise

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"minsep/internal/must"
	"minsep/internal/stattest"
	"minsep/internal/stream"
	"minsep/mechanism"
)

func bind(t testing.TB, c Config) *Recipe {
	t.Helper()
	r := must.Get(NewRecipe(c))(t)
	r.Bind(testRoot(t), stream.RunID{7}, "root.key")
	for step := range min(c.Strategy.Steps, 1<<14) { // the bytes of a test are no secret
		var b StepBytes
		binary.BigEndian.PutUint32(b[:], uint32(step+1)*0x9e3779b9)
		r.StepBytes = append(r.StepBytes, b)
	}
	return r
}

func generator(t testing.TB, r *Recipe, lo, hi int64) *Generator {
	t.Helper()
	g := must.Get(r.Generator(r.Key(testRoot(t), r.RunID), lo, hi))(t)
	g.Add(r.StepBytes...)
	return g
}

// TestMemory: rows that no machine holds are refused before memory is taken, with the way out, and a part
// of them is made.
func TestMemory(t *testing.T) {
	for name, s := range strategies(12) {
		r := bind(t, Config{Strategy: s, Coordinates: MaxCoordinates, NoiseMultiplier: 1, ClipNorm: 1})
		key := r.Key(testRoot(t), r.RunID)
		must.Fail(t, name, "--shard i/n")(r.Generator(key, 0, MaxCoordinates))
		generator(t, r, 0, MaxCoordinates>>30)
	}
}

func identityGenerator(t testing.TB, n int64, words Words) *Generator {
	r := bind(t, Config{Strategy: mechanism.Identity(1 << 20), Coordinates: n, NoiseMultiplier: 1, ClipNorm: 1, Words: words})
	return generator(t, r, 0, n)
}

// eachWords runs a test with the words of each kind.
func eachWords(t *testing.T, f func(t *testing.T, words Words)) {
	for _, words := range []Words{AES128, ChaCha12} {
		t.Run(string(words), func(t *testing.T) { f(t, words) })
	}
}

// strategies has one strategy of every way of making noise.
func strategies(steps int) map[string]*mechanism.Strategy {
	toeplitz := func(bands int) []float64 {
		c := make([]float64, bands)
		c[0] = 1.25
		for j := 1; j < bands; j++ {
			c[j] = c[j-1] * (1 - 0.5/float64(j)) * 0.97
		}
		return c
	}
	rng := rand.New(rand.NewPCG(9, 9))
	columns := func(bands int) [][]float64 {
		all := make([][]float64, steps)
		for i := range all {
			c := slices.Clone(toeplitz(min(bands, steps-i)))
			for j := range c {
				c[j] *= 0.8 + float64(0.4*rng.Float64()) // no product is fused with a sum, on any processor
			}
			all[i] = c
		}
		return all
	}
	diagonal := columns(1)
	return map[string]*mechanism.Strategy{
		"identity":          mechanism.Identity(steps),
		"toeplitz 2":        {Kind: mechanism.KindToeplitz, Steps: steps, Toeplitz: toeplitz(2)},
		"toeplitz 5":        {Kind: mechanism.KindToeplitz, Steps: steps, Toeplitz: toeplitz(5)},
		"toeplitz all":      {Kind: mechanism.KindToeplitz, Steps: steps, Toeplitz: toeplitz(steps)},
		"normalised":        {Kind: mechanism.KindToeplitz, Steps: steps, Toeplitz: toeplitz(4), Normalized: true},
		"columns":           {Kind: mechanism.KindBanded, Steps: steps, Columns: columns(7)},
		"columns, diagonal": {Kind: mechanism.KindBanded, Steps: steps, Columns: diagonal},
		"dense":             {Kind: mechanism.KindDense, Steps: steps, Columns: columns(steps)},
		"inverse 2":         {Kind: mechanism.KindLambdaCGD, Steps: steps, InverseToeplitz: []float64{1, -0.9}},
		"inverse 6":         {Kind: mechanism.KindBandInv, Steps: steps, InverseToeplitz: []float64{1, -0.5, -0.125, -0.0625, -0.04, -0.03}, Normalized: true},
		"blt":               {Kind: mechanism.KindBLT, Steps: steps, BLT: &mechanism.BLT{Scales: []float64{.2, .15, .1, .05}, Decays: []float64{.99, .9, .6, .1}}},
		"blt of none":       {Kind: mechanism.KindBLT, Steps: steps, BLT: &mechanism.BLT{Scales: []float64{}, Decays: []float64{}}},
	}
}

// TestRowsAreTheInverseTimesNormals compares every kind with the strategy's own solver applied to
// the normals of independent steps.
func TestRowsAreTheInverseTimesNormals(t *testing.T) { eachWords(t, rowsAreTheInverseTimesNormals) }

func rowsAreTheInverseTimesNormals(t *testing.T, words Words) {
	const steps, width = 50, 37
	const scale = 1.5 * 0.25
	for name, s := range strategies(steps) {
		t.Run(name, func(t *testing.T) {
			r := bind(t, Config{Strategy: s, Coordinates: width, NoiseMultiplier: 1.5, ClipNorm: .25, Words: words})
			got := make([]float64, steps*width)
			must.Do(t, generator(t, r, 0, width).FillUnrounded(got))
			z := normalsOf(t, r, steps, width)
			column := make([]float64, steps)
			for c := range width {
				for i := range steps {
					column[i] = z[i*width+c]
				}
				for i, want := range s.Solve(column) {
					if v := got[i*width+c]; math.Abs(v-scale*want) > 1e-13 {
						t.Fatalf("step %d, coordinate %d: %v, want %v", i, c, v, scale*want)
					}
				}
			}
		})
	}
}

// normalsOf makes the normals of a recipe without the generator's tiles.
func normalsOf(t testing.TB, r *Recipe, steps, width int) []float64 {
	key, a := r.Key(testRoot(t), r.RunID), r.Params.Words.arithmetic()
	z := make([]float64, steps*(width+1))
	for i := range steps {
		main, tails := r.Params.Words.source(key.Salted(r.StepBytes[i][:], "normals")), r.Params.Words.source(key.Salted(r.StepBytes[i][:], "tails"))
		var w [2]uint64
		for c := 0; c < width; c += 2 {
			main.Words(w[:], uint64(i), uint64(c/2))
			rad := a.tailRadius(tails, w[0], uint64(i), uint64(c/2))
			if w[0] >= a.shortWord() {
				rad = a.radius(float64(w[0]), 64)
			}
			cs, sn := a.circle(w[1])
			z[i*width+c] = rad * cs
			if c+1 < width {
				z[i*width+c+1] = rad * sn
			}
		}
	}
	return z[:steps*width]
}

// TestSeek goes to steps on the way, and back if the noise is restartable; and tells how far it is.
func TestSeek(t *testing.T) { eachWords(t, seek) }

func seek(t *testing.T, words Words) {
	const steps, width = 40, 4700
	rng := rand.New(rand.NewPCG(5, 5))
	for name, s := range strategies(steps) {
		r := bind(t, Config{Strategy: s, Coordinates: width, NoiseMultiplier: 2, ClipNorm: 1, Words: words})
		whole := generated(t, r)
		for range 3 {
			step := 1 + rng.IntN(steps)
			g := generator(t, r, 0, width)
			g.Workers = 1 + rng.IntN(4)
			reached := 0
			must.Do(t, g.Seek(t.Context(), step, func(at int) { reached = at }))
			rest := make([]float64, (steps-step)*width)
			if err := g.Fill64(rest); err != nil || !slices.Equal(rest, whole[step*width:]) || g.Step() != steps {
				t.Errorf("%s: other values from step %d on (%v)", name, step, err)
			}
			if !g.Restartable() && reached != step {
				t.Errorf("%s: at step %d of %d", name, reached, step)
			}
			if err := g.Seek(t.Context(), 0, nil); (err == nil) != g.Restartable() {
				t.Errorf("%s: back to step 0: %v", name, err)
			}
		}
		g := generator(t, r, 0, width)
		for _, step := range []int{-1, steps + 1} {
			if err := g.Seek(t.Context(), step, nil); !errors.As(err, new(*ParamError)) {
				t.Errorf("%s: step %d: %v", name, step, err)
			}
		}
		if err := g.Fill32(make([]float32, (steps+1)*width)); !errors.As(err, new(*ParamError)) {
			t.Errorf("%s: more rows than there are: %v", name, err)
		}
	}
}

// TestCovariance estimates the covariance of all pairs of steps over many coordinates. With T = L⁻¹
// y, L the Cholesky factor of the claimed covariance C⁻¹C⁻ᵀ, that is T = C y, all entries of T are
// iid N(0,1): their sum of squares is χ², and products of different steps have mean 0. A wrong twin
// takes a neighbouring strategy for the right one.
func TestCovariance(t *testing.T) { eachWords(t, covariance) }

func covariance(t *testing.T, words Words) {
	const steps, width = 12, 60000
	for name, s := range strategies(steps) {
		r := bind(t, Config{Strategy: s, Coordinates: width, NoiseMultiplier: 1, ClipNorm: 1, Words: words})
		y := make([]float64, steps*width)
		must.Do(t, generator(t, r, 0, width).Fill64(y))
		if err := whiteness(s, y, steps, width); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		twin := &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: steps, Toeplitz: s.FirstColumn(nil)}
		if s.Columns != nil {
			twin.Toeplitz = s.Column(nil, 0)
		}
		if len(twin.Toeplitz) < 2 {
			twin.Toeplitz = append(twin.Toeplitz, 0)
		}
		twin.Toeplitz[1] += 0.06
		if whiteness(twin, y, steps, width) == nil {
			t.Errorf("%s: the covariance of another strategy is accepted", name)
		}
	}
}

// chi2Bound returns t such that a χ² of k degrees is further than t from k with probability at most
// 1e-9 (Laurent and Massart 2000, Lemma 1: 2 sqrt(k x) + 2x with x = ln(2/1e-9)).
func chi2Bound(k float64) float64 {
	x := math.Log(2 / stattest.FalseReject)
	return 2*math.Sqrt(k*x) + 2*x
}

// whiteness tests C y against iid N(0,1): the sum of squares of each step, and for all pairs of
// steps the χ² of the squared correlations, each with false-reject probability 1e-9.
func whiteness(s *mechanism.Strategy, y []float64, steps, width int) error {
	white := make([][]float64, steps)
	for i := range white {
		white[i] = make([]float64, width)
	}
	column := make([]float64, steps)
	for c := range width {
		for i := range steps {
			column[i] = y[i*width+c]
		}
		for i, v := range s.Multiply(column) {
			white[i][c] = v
		}
	}
	norm := make([]float64, steps)
	for i, row := range white {
		for _, v := range row {
			norm[i] += v * v
		}
		if off := math.Abs(norm[i] - float64(width)); off > chi2Bound(float64(width)) {
			return fmt.Errorf("step %d: sum of squares %.1f of %d normals", i, norm[i], width)
		}
	}
	// Given row i, ⟨row i, row j⟩/|row i| is N(0,1) for every j > i, and these are independent for
	// one i.
	for i := range steps {
		sum := 0.0
		for j := i + 1; j < steps; j++ {
			dot := 0.0
			for c, v := range white[i] {
				dot += v * white[j][c]
			}
			sum += dot * dot / norm[i]
		}
		if k := float64(steps - 1 - i); math.Abs(sum-k) > chi2Bound(k) {
			return fmt.Errorf("step %d: χ² %.1f of its correlations with the %g later steps", i, sum, k)
		}
	}
	return nil
}

func TestMoments(t *testing.T) { eachWords(t, moments) }

func moments(t *testing.T, words Words) {
	steps, width := 40, 100000
	switch {
	case stattest.Long(): // 1e9 normals, a minute or so
		steps = 10000
	case testing.Short():
		steps = 8
	}
	g := identityGenerator(t, int64(width), words)
	right := func(step int, z []float64) {
		must.Do(t, errors.Join(g.Seek(t.Context(), step, nil), g.FillUnrounded(z)))
	}
	for _, err := range momentsOf(steps, width, right) {
		t.Error(err)
	}
	twins := map[string]func(float64) float64{
		"deviation 1 % too large": func(v float64) float64 { return 1.01 * v },
		"tail cut at 4":           func(v float64) float64 { return max(-4, min(4, v)) },
		"mean 0.01":               func(v float64) float64 { return v + 0.01 },
	}
	for name, wrong := range twins {
		errs := momentsOf(steps, width, func(step int, z []float64) {
			right(step, z)
			for i := range z {
				z[i] = wrong(z[i])
			}
		})
		if len(errs) == 0 {
			t.Errorf("%s: accepted", name)
		}
	}
}
