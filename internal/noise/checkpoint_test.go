package noise

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"minsep/mechanism"
)

func TestCheckpoint(t *testing.T) {
	const steps, lo, hi, stop = 60, 5, 90, 23
	for name, s := range strategies(steps) {
		r := bind(t, Config{Strategy: s, Coordinates: 100, NoiseMultiplier: 2, ClipNorm: 1})
		whole := make([]float32, steps*(hi-lo))
		if err := generator(t, r, lo, hi).Fill32(whole); err != nil {
			t.Fatal(err)
		}
		g := generator(t, r, lo, hi)
		if err := g.Fill32(make([]float32, stop*(hi-lo))); err != nil {
			t.Fatal(err)
		}
		var saved bytes.Buffer
		if err := g.WriteCheckpoint(&saved); err != nil {
			t.Fatal(err)
		}
		resumed := generator(t, r, lo, hi)
		rest := make([]float32, (steps-stop)*(hi-lo))
		if err := errors.Join(resumed.ReadCheckpoint(bytes.NewReader(saved.Bytes())), resumed.Fill32(rest)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !slices.Equal(rest, whole[stop*(hi-lo):]) {
			t.Errorf("%s: other values after a checkpoint", name)
		}

		refuse := func(what string, g *Generator, b []byte) {
			if err := g.ReadCheckpoint(bytes.NewReader(b)); !errors.Is(err, ErrCheckpoint) {
				t.Errorf("%s: %s: error %v", name, what, err)
			}
		}
		other := bind(t, Config{Strategy: s, Coordinates: 100, NoiseMultiplier: 2.5, ClipNorm: 1})
		refuse("another noise multiplier", generator(t, other, lo, hi), saved.Bytes())
		refuse("other coordinates", generator(t, r, lo, hi+1), saved.Bytes())
		refuse("truncated", generator(t, r, lo, hi), saved.Bytes()[:saved.Len()-1])
		for _, at := range []int{3, 40, saved.Len() - 40, saved.Len() - 1} {
			damaged := bytes.Clone(saved.Bytes())
			damaged[at] ^= 1
			refuse("damaged", generator(t, r, lo, hi), damaged)
		}
	}
}

func TestGeneratorRefusesAnotherKey(t *testing.T) {
	r := bind(t, Config{Strategy: mechanism.Identity(3), Coordinates: 10, NoiseMultiplier: 1, ClipNorm: 1})
	r.RunID[0]++
	if _, err := r.Generator(r.Key(testRoot(t), r.RunID), 0, 10); !errors.Is(err, ErrKey) {
		t.Errorf("another run: error %v", err)
	}
	r.RunID[0]--
	for _, c := range [][2]int64{{-1, 3}, {3, 3}, {4, 3}, {0, 11}} {
		var pe *ParamError
		if _, err := r.Generator(r.Key(testRoot(t), r.RunID), c[0], c[1]); !errors.As(err, &pe) {
			t.Errorf("coordinates %v: error %v", c, err)
		}
	}
}

// FuzzReadCheckpoint: whatever is read, a generator stands at a step of its own afterwards or
// reports an error.
func FuzzReadCheckpoint(f *testing.F) {
	r := bind(f, Config{Strategy: strategies(9)["toeplitz 2"], Coordinates: 20, NoiseMultiplier: 1, ClipNorm: 1})
	g := generator(f, r, 0, 20)
	if err := g.Fill32(make([]float32, 5*20)); err != nil {
		f.Fatal(err)
	}
	var saved bytes.Buffer
	if err := g.WriteCheckpoint(&saved); err != nil {
		f.Fatal(err)
	}
	f.Add(saved.Bytes())
	f.Add([]byte(checkpointMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		g := generator(t, r, 0, 20)
		if err := g.ReadCheckpoint(bytes.NewReader(data)); err != nil {
			if !errors.Is(err, ErrCheckpoint) || g.Step() != 0 {
				t.Errorf("step %d after %v", g.Step(), err)
			}
			return
		}
		if !bytes.HasPrefix(data, saved.Bytes()) {
			t.Error("a checkpoint that was never written is accepted")
		}
	})
}
