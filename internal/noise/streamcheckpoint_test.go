package noise

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// streamed is what a stream writes from its step to another one.
func streamed(t *testing.T, s *Stream, end int) []byte {
	t.Helper()
	s.Until = end
	out, err := write32(s, end)
	if err != nil || s.Step() != end {
		t.Fatalf("at step %d in place of %d: %v", s.Step(), end, err)
	}
	return out
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

// TestStreamCheckpointAhead: rows that were made with bytes that a resumed training draws again are
// in no checkpoint, and a checkpoint of other bytes is refused.
func TestStreamCheckpointAhead(t *testing.T) {
	const steps, coordinates = 60, 100
	r := bind(t, Config{Strategy: strategies(steps)["toeplitz 5"], Coordinates: coordinates, NoiseMultiplier: 1, ClipNorm: 1})
	s := newStream(t, r, 0, coordinates)
	if _, err := write32(s, 10); err != nil {
		t.Fatal(err)
	}
	if err := s.WriteCheckpoint(io.Discard); err == nil || !strings.Contains(err.Error(), "draws other bytes") {
		t.Errorf("rows that are ahead: %v", err)
	}
	streamed(t, s, 20)
	var saved bytes.Buffer
	if err := s.WriteCheckpoint(&saved); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[int]error{0: ErrCheckpoint, 19: ErrCheckpoint, 20: nil} {
		again := bind(t, Config{Strategy: r.Strategy, Coordinates: coordinates, NoiseMultiplier: 1, ClipNorm: 1})
		again.StepBytes[at][0] ^= 1
		if err := newStream(t, again, 0, coordinates).ReadCheckpoint(bytes.NewReader(saved.Bytes())); !errors.Is(err, want) {
			t.Errorf("other bytes of step %d: %v", at, err)
		}
	}
}
