package noise

import (
	"bytes"
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"minsep/internal/must"
	"minsep/internal/stream"
	"minsep/mechanism"
)

func TestRecipeRoundTrip(t *testing.T) {
	for name, s := range strategies(20) {
		r := bind(t, Config{Strategy: s, Coordinates: 1000, NoiseMultiplier: 1.1, ClipNorm: .3, Words: []Words{"", AES128, ChaCha12}[len(name)%3]})
		var b bytes.Buffer
		must.Do(t, r.Write(&b))
		back, err := Read(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(r, back); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if bytes.Contains(b.Bytes(), []byte("hidden")) {
			t.Errorf("%s: the file holds a key's name", name)
		}
	}
}

// TestReadRefuses changes one thing of a recipe at a time.
func TestReadRefuses(t *testing.T) {
	r := bind(t, Config{Strategy: strategies(20)["toeplitz 2"], Coordinates: 1000, NoiseMultiplier: 1, ClipNorm: 1})
	var b bytes.Buffer
	must.Do(t, r.Write(&b))
	text := b.String()
	for _, change := range [][2]string{
		{`"format": "minsep-noise-recipe/4"`, `"format": "minsep-noise-recipe/2"`},
		{`"steps": 20`, `"steps": 21`},
		{`"coordinates": 1000`, `"coordinates": 1001`},
		{`"noise_multiplier": "0x1p+00"`, `"noise_multiplier": "0x1p+01"`},
		{`"noise_multiplier": "0x1p+00"`, `"noise_multiplier": "NaN"`},
		{`"noise_multiplier": "0x1p+00"`, `"noise_multiplier": "-0x1p+00"`},
		{`"clip_norm": "0x1p+00"`, `"clip_norm": 1`},
		{`"grid": "0x`, `"grid": "-0x`},
		{`"gain": [`, `"gain": ["0x1p+00",`},
		{`"gain": [`, `"filter": [],"gain": [`},
		{`"sensitivity": "0x1`, `"sensitivity": "0x0`},
		{`"version": 1`, `"version": 2`},
		{`"key_file"`, `"keyfile"`},
		{`"examples": "not known"`, `"examples": "numbered 3"`},
		{`"examples": "not known"`, `"examples": ""`},
		{`"sampler": "not known"`, `"sampler": "{}"`},
		{`"derivation": [`, `"derivation": ["other",`},
		{`"words": "aes-128"`, `"words": "chacha12"`},
		{`"words": "aes-128"`, `"words": "chacha20"`},
		{`"words": "aes-128"`, `"words": ""`},
		{`"step_bytes": [`, `"step_bytes": ["00000000000000000000000000000000",`},
		{`"step_bytes": [`, `"step_bytes": ["00"],"earlier": [`},
	} {
		changed := strings.Replace(text, change[0], change[1], 1)
		if changed == text {
			t.Errorf("%q is not in the recipe", change[0])
		}
		if _, err := Read(strings.NewReader(changed)); err == nil {
			t.Errorf("%q in place of %q is accepted", change[1], change[0])
		}
	}
	for _, s := range []string{"", "{}", text[:len(text)/2], text + "{}"} {
		if _, err := Read(strings.NewReader(s)); err == nil {
			t.Errorf("a recipe of %d bytes is accepted", len(s))
		}
	}
}

func TestNewRecipeReportsEveryFault(t *testing.T) {
	_, err := NewRecipe(Config{NoiseMultiplier: math.NaN(), ClipNorm: -1, Coordinates: 0, Grid: 3, Words: "rot13"})
	if err == nil || len(strings.Split(err.Error(), "\n")) != 6 {
		t.Errorf("got %v, want 6 faults", err)
	}
}

// TestUnstableInverse: C⁻¹ of 1, 1.2 grows by 1.2 a step.
func TestUnstableInverse(t *testing.T) {
	s := &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 100, Toeplitz: []float64{1, 1.2}}
	_, err := NewRecipe(Config{Strategy: s, Coordinates: 10, NoiseMultiplier: 1, ClipNorm: 1})
	var growth *GrowthError
	if !errors.As(err, &growth) || growth.Step != 99 || growth.Growth < 1e7 {
		t.Errorf("error %v", err)
	}
	s.Steps = 10
	if _, err := NewRecipe(Config{Strategy: s, Coordinates: 10, NoiseMultiplier: 1, ClipNorm: 1}); err != nil {
		t.Errorf("10 steps: %v", err)
	}
}

// TestNoSharedWords: two training runs under one root key share no word, and no normal, whatever of
// run, σ, ζ, strategy, coordinates, grid, examples and sampler they differ in; two steps, and two
// coordinates, of one training run share none either.
func TestNoSharedWords(t *testing.T) {
	const steps, width = 8, 512
	base := Config{Strategy: mechanism.Identity(steps), Coordinates: width, NoiseMultiplier: 1, ClipNorm: 1}
	changes := []func(*Config){
		func(*Config) {},
		func(c *Config) { c.NoiseMultiplier = 1.01 },
		func(c *Config) { c.ClipNorm = 2 },
		func(c *Config) { c.Coordinates++ },
		func(c *Config) { c.Grid = 0x1p-15 },
		func(c *Config) { c.Words = ChaCha12 },
		func(c *Config) { c.Strategy = mechanism.Identity(steps + 1) },
		func(c *Config) { c.Strategy = strategies(steps)["toeplitz 2"] },
		func(c *Config) { c.Training.Examples = "numbered 32" },
		func(c *Config) { c.Training.Examples = "numbered 64" },
		func(c *Config) { c.Training.Sampler = `{"poisson":{"prob":0.1,"steps":8}}` },
		func(c *Config) { c.Training.Sampler = `{"poisson":{"prob":0.2,"steps":8}}` },
	}
	seen := make(map[uint64]bool)
	collect := func(r *Recipe, run stream.RunID) (repeated int) {
		key := r.Key(testRoot(t), run)
		for _, purpose := range []string{"normals", "tails"} {
			words := make([]uint64, width)
			for step := range steps {
				bulk := r.Params.Words.source(key.Salted([]byte{byte(step)}, purpose))
				bulk.Words(words, uint64(step), 0)
				for _, w := range words {
					if seen[w] {
						repeated++
					}
					seen[w] = true
				}
			}
		}
		return repeated
	}
	for i, change := range changes {
		c := base
		change(&c)
		r := must.Get(NewRecipe(c))(t)
		for run := range byte(2) { // 2^17 words of 64 bits meet by chance with probability 2^-31
			if n := collect(r, stream.RunID{run}); n > 0 {
				t.Errorf("configuration %d, run %d: %d words were there before", i, run, n)
			}
		}
		if n := collect(r, stream.RunID{0}); n != 2*steps*width {
			t.Errorf("configuration %d: of the same run only %d words are the same", i, n)
		}
	}
}

var longNumber = regexp.MustCompile(`[0-9]{7}|[0-9][eE]`)

func FuzzRead(f *testing.F) {
	r := must.Get(NewRecipe(Config{Strategy: strategies(3)["toeplitz 2"], Coordinates: 10, NoiseMultiplier: 1, ClipNorm: 1}))(f)
	var b bytes.Buffer
	must.Do(f, r.Write(&b))
	f.Add(b.Bytes())
	f.Add([]byte(`{"format":"minsep-noise-recipe/4","noising":{},"strategy":{"version":1,"kind":"identity","steps":1,"toeplitz":[1]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if longNumber.Match(data) {
			t.Skip("a strategy of so many steps takes too much memory to fuzz")
		}
		r, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		var b bytes.Buffer
		must.Do(t, r.Write(&b))
		if _, err := Read(&b); err != nil {
			t.Fatalf("a recipe that was read is refused once written: %v", err)
		}
	})
}
