package noise

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// streamed is what a stream writes from its step to another one.
func streamed(t *testing.T, s *Stream, end int) []byte {
	t.Helper()
	var out bytes.Buffer
	s.End = end
	if err := s.Write32(t.Context(), &out); err != nil || s.Step() != end {
		t.Fatalf("at step %d in place of %d: %v", s.Step(), end, err)
	}
	return out.Bytes()
}

// TestStreamCheckpoint: of every kind, with pauses, from several steps, checkpoints on the way and
// steps after them, a stream that goes on from a checkpoint has the bits of the generator.
func TestStreamCheckpoint(t *testing.T) {
	const steps, coordinates, lo, hi = 60, 4700, 5, 4690
	rng := rand.New(rand.NewPCG(6, 6))
	for name, strategy := range strategies(steps) {
		r := bind(t, Config{Strategy: strategy, Coordinates: coordinates, NoiseMultiplier: 1.5, ClipNorm: 1})
		all := generated(t, r)
		want := func(from, to int) []byte {
			rows := encoded(t, all, coordinates, lo, hi, from, false)
			return rows[:4*(hi-lo)*(to-from)]
		}
		for range 4 {
			from := rng.IntN(3) * rng.IntN(20)
			stop := from + rng.IntN(steps-from)
			later := stop + rng.IntN(steps-stop)
			s := newStream(t, r, lo, hi)
			s.Workers = 1 + rng.IntN(3)
			if err := s.Seek(t.Context(), from, func(int) {}); err != nil {
				t.Fatal(err)
			}
			if stop > from && !bytes.Equal(streamed(t, s, stop), want(from, stop)) {
				t.Errorf("%s: other bits of steps %d to %d", name, from, stop)
			}
			var saved bytes.Buffer
			if err := s.WriteCheckpoint(&saved); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(streamed(t, s, steps), want(stop, steps)) {
				t.Errorf("%s: from step %d: other bits after a pause at step %d", name, from, stop)
			}
			resumed := newStream(t, r, lo, hi)
			if err := resumed.ReadCheckpoint(bytes.NewReader(saved.Bytes())); err != nil || resumed.Step() != stop {
				t.Fatalf("%s: at step %d in place of %d: %v", name, resumed.Step(), stop, err)
			}
			if err := resumed.Seek(t.Context(), later, func(int) {}); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(streamed(t, resumed, steps), want(later, steps)) {
				t.Errorf("%s: a checkpoint of step %d, from step %d on: other bits", name, stop, later)
			}
		}
	}
}

// TestStreamCheckpointIsRefused where it is of other noise, or is damaged anywhere.
func TestStreamCheckpointIsRefused(t *testing.T) {
	const steps, coordinates = 30, 100
	for _, name := range []string{"toeplitz 5", "blt"} {
		config := Config{Strategy: strategies(steps)[name], Coordinates: coordinates, NoiseMultiplier: 2, ClipNorm: 1}
		r := bind(t, config)
		s := newStream(t, r, 3, 90)
		streamed(t, s, 12)
		var saved bytes.Buffer
		if err := s.WriteCheckpoint(&saved); err != nil {
			t.Fatal(err)
		}
		refuse := func(what string, s *Stream, b []byte) {
			t.Helper()
			if err := s.ReadCheckpoint(bytes.NewReader(b)); !errors.Is(err, ErrCheckpoint) {
				t.Errorf("%s: %s: error %v", name, what, err)
			}
		}
		config.NoiseMultiplier = 2.5
		refuse("another noise multiplier", newStream(t, bind(t, config), 3, 90), saved.Bytes())
		refuse("other coordinates", newStream(t, r, 2, 90), saved.Bytes())
		g := generator(t, r, 3, 90)
		var other bytes.Buffer
		if err := g.WriteCheckpoint(&other); err != nil {
			t.Fatal(err)
		}
		refuse("of a generator", newStream(t, r, 3, 90), other.Bytes())
		refuse("with a byte more", newStream(t, r, 3, 90), append(saved.Bytes(), 0))
		refuse("twice", newStream(t, r, 3, 90), append(saved.Bytes(), saved.Bytes()...))
		for at := 0; at < saved.Len(); at += 1 + saved.Len()/300 {
			damaged := bytes.Clone(saved.Bytes())
			damaged[at] ^= 1
			refuse("damaged", newStream(t, r, 3, 90), damaged)
			refuse("truncated", newStream(t, r, 3, 90), saved.Bytes()[:at])
		}
	}
}

// TestStreamEnds refuses an end that is past, or after the last step.
func TestStreamEnds(t *testing.T) {
	r := bind(t, Config{Strategy: strategies(10)["toeplitz 5"], Coordinates: 100, NoiseMultiplier: 1, ClipNorm: 1})
	for _, end := range []int{-1, 2, 11} {
		s := newStream(t, r, 0, 100)
		streamed(t, s, 3)
		s.End = end
		if err := s.Write32(t.Context(), &bytes.Buffer{}); !errors.As(err, new(*ParamError)) {
			t.Errorf("end %d: %v", end, err)
		}
	}
}
