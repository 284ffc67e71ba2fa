package noise

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"minsep/internal/must"
	"minsep/mechanism"
)

// streamed is what a generator makes from its step to another one.
func streamed(t *testing.T, s *Generator, end int) []byte {
	t.Helper()
	s.Until = end
	out, err := write32(s, end)
	if err != nil || s.Step() != end {
		t.Fatalf("at step %d in place of %d: %v", s.Step(), end, err)
	}
	return out
}

// TestCheckpoint: of every kind, with pauses, from several steps, checkpoints on the way and
// steps after them, a generator that goes on from a checkpoint has the bits of one that was never stopped.
func TestCheckpoint(t *testing.T) {
	const steps, coordinates, lo, hi = 60, 4700, 5, 4690
	rng := rand.New(rand.NewPCG(6, 6))
	for name, strategy := range strategies(steps) {
		r := bind(t, Config{Strategy: strategy, Coordinates: coordinates, NoiseMultiplier: 1.5, ClipNorm: 1})
		all := generated(t, r)
		want := func(from, to int) []byte {
			rows := encoded(all, coordinates, lo, hi, from)
			return rows[:4*(hi-lo)*(to-from)]
		}
		for range 4 {
			from := rng.IntN(3) * rng.IntN(20)
			stop := from + rng.IntN(steps-from)
			later := stop + rng.IntN(steps-stop)
			s := generator(t, r, lo, hi)
			s.Workers = 1 + rng.IntN(3)
			must.Do(t, s.Seek(t.Context(), from, func(int) {}))
			if stop > from && !bytes.Equal(streamed(t, s, stop), want(from, stop)) {
				t.Errorf("%s: other bits of steps %d to %d", name, from, stop)
			}
			var saved bytes.Buffer
			must.Do(t, s.WriteCheckpoint(&saved))
			if !bytes.Equal(streamed(t, s, steps), want(stop, steps)) {
				t.Errorf("%s: from step %d: other bits after a pause at step %d", name, from, stop)
			}
			resumed := generator(t, r, lo, hi)
			if err := resumed.ReadCheckpoint(bytes.NewReader(saved.Bytes())); err != nil || resumed.Step() != stop {
				t.Fatalf("%s: at step %d in place of %d: %v", name, resumed.Step(), stop, err)
			}
			must.Do(t, resumed.Seek(t.Context(), later, func(int) {}))
			if !bytes.Equal(streamed(t, resumed, steps), want(later, steps)) {
				t.Errorf("%s: a checkpoint of step %d, from step %d on: other bits", name, stop, later)
			}
		}
	}
}

// TestCheckpointIsRefused where it is of other noise, or is damaged anywhere.
func TestCheckpointIsRefused(t *testing.T) {
	const steps, coordinates = 30, 100
	for _, name := range []string{"toeplitz 5", "blt"} {
		config := Config{Strategy: strategies(steps)[name], Coordinates: coordinates, NoiseMultiplier: 2, ClipNorm: 1}
		r := bind(t, config)
		s := generator(t, r, 3, 90)
		streamed(t, s, 12)
		var saved bytes.Buffer
		must.Do(t, s.WriteCheckpoint(&saved))
		refuse := func(what string, s *Generator, b []byte) {
			t.Helper()
			if err := s.ReadCheckpoint(bytes.NewReader(b)); !errors.Is(err, ErrCheckpoint) {
				t.Errorf("%s: %s: error %v", name, what, err)
			}
		}
		config.NoiseMultiplier = 2.5
		refuse("another noise multiplier", generator(t, bind(t, config), 3, 90), saved.Bytes())
		refuse("other coordinates", generator(t, r, 2, 90), saved.Bytes())
		refuse("with a byte more", generator(t, r, 3, 90), append(saved.Bytes(), 0))
		refuse("twice", generator(t, r, 3, 90), append(saved.Bytes(), saved.Bytes()...))
		for at := 0; at < saved.Len(); at += 1 + saved.Len()/300 {
			damaged := bytes.Clone(saved.Bytes())
			damaged[at] ^= 1
			refuse("damaged", generator(t, r, 3, 90), damaged)
			refuse("truncated", generator(t, r, 3, 90), saved.Bytes()[:at])
		}
	}
}

// TestCheckpointAhead: rows that were made with bytes that a resumed training draws again are
// in no checkpoint, and a checkpoint of other bytes is refused.
func TestCheckpointAhead(t *testing.T) {
	const steps, coordinates = 60, 100
	r := bind(t, Config{Strategy: strategies(steps)["toeplitz 5"], Coordinates: coordinates, NoiseMultiplier: 1, ClipNorm: 1})
	s := generator(t, r, 0, coordinates)
	must.Get(write32(s, 10))(t)
	must.Fail(t, "rows that are ahead", "draws other bytes")(s.WriteCheckpoint(io.Discard))
	streamed(t, s, 20)
	var saved bytes.Buffer
	must.Do(t, s.WriteCheckpoint(&saved))
	for at, want := range map[int]error{0: ErrCheckpoint, 19: ErrCheckpoint, 20: nil} {
		again := bind(t, Config{Strategy: r.Strategy, Coordinates: coordinates, NoiseMultiplier: 1, ClipNorm: 1})
		again.StepBytes[at][0] ^= 1
		if err := generator(t, again, 0, coordinates).ReadCheckpoint(bytes.NewReader(saved.Bytes())); !errors.Is(err, want) {
			t.Errorf("other bytes of step %d: %v", at, err)
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
	g.Until = 5
	must.Do(f, g.Fill32(make([]float32, 5*20)))
	var saved bytes.Buffer
	must.Do(f, g.WriteCheckpoint(&saved))
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
