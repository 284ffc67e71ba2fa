package noise

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"minsep/internal/must"
	"minsep/internal/stream"
)

var update = flag.Bool("update", false, "write testdata/vectors.json anew: only when noise is meant to change")

// vector is some noise of a recipe. integration/python/noise_recipe.py makes the same.
type vector struct {
	Name      string  `json:"name"`
	RootKey   string  `json:"root_key"` // of the test, no secret
	Recipe    *Recipe `json:"recipe"`
	FirstStep int     `json:"first_step"`
	Steps     int     `json:"steps"`
	Lo        int64   `json:"lo"`
	Hi        int64   `json:"hi"`
	Unrounded Coefs   `json:"unrounded"` // [steps, hi-lo]
	Rounded   Coefs   `json:"rounded"`
}

func (v *vector) fill(t *testing.T) {
	root := testRoot(t)
	for _, unrounded := range []bool{true, false} {
		g := generator(t, v.Recipe, v.Lo, v.Hi)
		must.Do(t, g.Seek(t.Context(), v.FirstStep, nil))
		dst := make([]float64, v.Steps*g.Width())
		var err error
		if unrounded {
			v.Unrounded, err = dst, g.FillUnrounded(dst)
		} else {
			v.Rounded, err = dst, g.Fill64(dst)
		}
		must.Do(t, err)
	}
	var b [stream.RootSize]byte
	for i := range b { // as in testRoot
		b[i] = byte(i + 1)
	}
	if r, err := stream.ParseRoot(b[:]); err != nil || r.Key(stream.RunID{}, [32]byte{}, "").Commitment() != root.Key(stream.RunID{}, [32]byte{}, "").Commitment() {
		t.Fatal("not the key of testRoot")
	}
	v.RootKey = hex.EncodeToString(b[:])
}

// shortPair finds a step and a pair, from one on, whose radius needs its tail.
func shortPair(t *testing.T, r *Recipe, from int64) (step int, pair int64) {
	key := r.Key(testRoot(t), r.RunID)
	words := make([]uint64, 1<<16)
	for first := from; first < r.Params.Coordinates/2; first += int64(len(words) / 2) {
		for step := range r.Params.Steps {
			source := r.Params.Words.source(key.Salted(r.StepBytes[step][:], "normals"))
			source.Words(words, uint64(step), uint64(first))
			for i := 0; i < len(words); i += 2 {
				if words[i] < r.Params.Words.arithmetic().shortWord() {
					return step, first + int64(i/2)
				}
			}
		}
	}
	t.Fatal("no short word")
	return 0, 0
}

// Noise is frozen: a training run that was started must be able to go on with another version. Do
// not change these values.
func TestFrozenVectors(t *testing.T) {
	const steps = 12
	names := []string{"identity", "toeplitz 5", "columns", "normalised", "inverse 6", "blt"}
	var got []vector
	for _, name := range names {
		c := Config{Strategy: strategies(steps)[name], Coordinates: 1 << 20, NoiseMultiplier: 0.9, ClipNorm: 1.7}
		v := vector{Name: name, Recipe: bind(t, c), Steps: steps, Lo: 4099, Hi: 4104}
		v.fill(t)
		got = append(got, v)
	}
	for i, grid := range []Grid{0, NoGrid} {
		c := Config{Strategy: strategies(steps)["toeplitz 2"], Coordinates: 1 << 20, NoiseMultiplier: 0.9, ClipNorm: 1.7, Grid: grid, Float64: true}
		v := vector{Name: []string{"float64 grid", "no grid"}[i], Recipe: bind(t, c), Steps: 2, Lo: 4099, Hi: 4104}
		v.fill(t)
		got = append(got, v)
	}
	v := vector{Name: "tail", Recipe: got[0].Recipe, Steps: 1}
	step, pair := shortPair(t, v.Recipe, 0)
	v.FirstStep, v.Lo, v.Hi = step, 2*pair, 2*pair+2
	v.fill(t)
	got = append(got, v)

	for _, name := range names {
		c := Config{Strategy: strategies(steps)[name], Coordinates: 1 << 40, NoiseMultiplier: 0.9, ClipNorm: 1.7, Words: ChaCha12}
		v := vector{Name: "chacha12 " + name, Recipe: bind(t, c), Steps: steps, Lo: 1<<36 - 3, Hi: 1<<36 + 7} // where the number of a block has more than 32 bits
		v.fill(t)
		got = append(got, v)
		if name == names[0] {
			tail := vector{Name: "chacha12 tail", Recipe: v.Recipe, Steps: 1}
			step, pair := shortPair(t, v.Recipe, 0)
			tail.FirstStep, tail.Lo, tail.Hi = step, 2*pair, 2*pair+2
			tail.fill(t)
			got = append(got, tail)
		}
	}

	text := must.Get(json.MarshalIndent(got, "", " "))(t)
	text = append(text, '\n')
	const path = "testdata/vectors.json"
	if *update {
		must.Do(t, os.WriteFile(path, text, 0o644))
	}
	want := must.Get(os.ReadFile(path))(t)
	if !bytes.Equal(text, want) {
		t.Errorf("noise is not what %s holds", path)
	}
}
