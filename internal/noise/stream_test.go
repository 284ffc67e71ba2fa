package noise

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"minsep/mechanism"
)

func newStream(t testing.TB, r *Recipe, lo, hi int64) *Stream {
	t.Helper()
	s, err := r.Stream(r.Key(testRoot(t), r.RunID), lo, hi)
	if err != nil {
		t.Fatal(err)
	}
	s.Add(r.StepBytes...)
	return s
}

// write32 and write64 make the rows before a step, and return their bytes in little endian.
func write32(s *Stream, end int) (out []byte, err error) {
	row := make([]float32, s.Width())
	for s.Step() < end {
		if err := s.Fill32(row); err != nil {
			return out, err
		}
		for _, v := range row {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
		}
	}
	return out, nil
}

func write64(s *Stream, end int) (out []byte, err error) {
	row := make([]float64, s.Width())
	for s.Step() < end {
		if err := s.Fill64(row); err != nil {
			return out, err
		}
		for _, v := range row {
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(v))
		}
	}
	return out, nil
}

// generated returns the rows of a generator of all coordinates.
func generated(t testing.TB, r *Recipe) []float64 {
	t.Helper()
	all := make([]float64, r.Params.Steps*int(r.Params.Coordinates))
	if err := generator(t, r, 0, r.Params.Coordinates).Fill64(all); err != nil {
		t.Fatal(err)
	}
	return all
}

// encoded is what a stream of the coordinates [lo, hi) writes from a step on, if all is what it
// makes.
func encoded(t testing.TB, all []float64, coordinates, lo, hi, step int, float64s bool) []byte {
	t.Helper()
	var out []byte
	for ; step*coordinates < len(all); step++ {
		for _, v := range all[step*coordinates:][lo:hi] {
			if float64s {
				out = binary.LittleEndian.AppendUint64(out, math.Float64bits(v))
			} else {
				out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(v)))
			}
		}
	}
	return out
}

// TestRowsOfAStream: rows are those of the generator, however few bytes of steps are known ahead and
// wherever tiles must stop, and a row after the last is refused.
func TestRowsOfAStream(t *testing.T) {
	const steps, coordinates = 37, 4700
	rng := rand.New(rand.NewPCG(7, 7))
	for name, strategy := range strategies(steps) {
		r := bind(t, Config{Strategy: strategy, Coordinates: coordinates, NoiseMultiplier: 1.5, ClipNorm: 1})
		all := generated(t, r)
		for i, c := range [][2]int{{0, 1}, {15, 17}, {3, 40}, {17, 16 + 4096}, {0, coordinates}} {
			s, err := r.Stream(r.Key(testRoot(t), r.RunID), int64(c[0]), int64(c[1]))
			if err != nil {
				t.Fatal(err)
			}
			s.Workers = 1 + i
			var out []byte
			for s.Step() < steps {
				if s.Known() == s.Step() {
					if err := s.Fill32(make([]float32, s.Width())); !errors.As(err, new(*ParamError)) {
						t.Fatalf("%s: a row without its bytes: %v", name, err)
					}
					s.Add(r.StepBytes[s.Step()])
				}
				s.Add(r.StepBytes[s.Known():min(steps, s.Known()+rng.IntN(4))]...)
				s.Until = s.Step() + rng.IntN(6)
				part, err := write32(s, s.Step()+1)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, part...)
			}
			if !bytes.Equal(out, encoded(t, all, coordinates, c[0], c[1], 0, false)) {
				t.Errorf("%s: coordinates %v: other bits", name, c)
			}
			if err := s.Fill32(make([]float32, s.Width())); !errors.As(err, new(*ParamError)) {
				t.Errorf("a row after the last: %v", err)
			}
		}
	}
}

// TestStepsHaveWordsOfTheirOwn: with other bytes of one step every coordinate of its row changes,
// and the rows before it do not.
func TestStepsHaveWordsOfTheirOwn(t *testing.T) { eachWords(t, stepsHaveWordsOfTheirOwn) }

func stepsHaveWordsOfTheirOwn(t *testing.T, words Words) {
	const steps, coordinates, changed = 12, 100, 5
	for name, strategy := range strategies(steps) {
		r := bind(t, Config{Strategy: strategy, Coordinates: coordinates, NoiseMultiplier: 1.5, ClipNorm: 1, Words: words})
		before := generated(t, r)
		r.StepBytes[changed][15] ^= 1
		after := generated(t, r)
		if !slices.Equal(before[:changed*coordinates], after[:changed*coordinates]) {
			t.Errorf("%s: rows before the step changed", name)
		}
		for c := range coordinates {
			if before[changed*coordinates+c] == after[changed*coordinates+c] {
				t.Errorf("%s: coordinate %d did not change", name, c)
			}
		}
		r.StepBytes[changed][15] ^= 1
		r.StepBytes[changed], r.StepBytes[changed+1] = r.StepBytes[changed+1], r.StepBytes[changed]
		if slices.Equal(before[changed*coordinates:(changed+1)*coordinates], generated(t, r)[changed*coordinates:(changed+1)*coordinates]) {
			t.Errorf("%s: the row is that of other bytes", name)
		}
	}
}

// TestStreamHasTheBitsOfTheGenerator: every kind, type, range of coordinates, first step and number
// of goroutines.
func TestStreamHasTheBitsOfTheGenerator(t *testing.T) { eachWords(t, streamHasTheBitsOfTheGenerator) }

func streamHasTheBitsOfTheGenerator(t *testing.T, words Words) {
	const steps, coordinates = 37, 4700
	rng := rand.New(rand.NewPCG(5, 5))
	ranges := [][2]int{{0, 1}, {0, 16}, {15, 17}, {16, 48}, {3, 40}, {17, 16 + 4096}, {5, coordinates}, {0, coordinates}}
	for name, strategy := range strategies(steps) {
		r := bind(t, Config{Strategy: strategy, Coordinates: coordinates, NoiseMultiplier: 1.5, ClipNorm: 1, Words: words})
		all := generated(t, r)
		for i, c := range ranges {
			for _, step := range []int{0, 1 + rng.IntN(steps-1), steps - i%2} {
				float64s := (i+step)%3 == 0
				s := newStream(t, r, int64(c[0]), int64(c[1]))
				s.Workers = 1 + rng.IntN(4)
				if err := s.Seek(t.Context(), step, func(int) {}); err != nil {
					t.Fatal(err)
				}
				write := write32
				if float64s {
					write = write64
				}
				out, err := write(s, steps)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(out, encoded(t, all, coordinates, c[0], c[1], step, float64s)) || s.Step() != steps {
					t.Errorf("%s: coordinates %v from step %d (float64 %v, %d goroutines): other bits, or step %d", name, c, step, float64s, s.Workers, s.Step())
				}
			}
		}
	}
}

// TestStreamOfManyPieces has rows of several pieces, made by several goroutines, with and without
// vector instructions.
func TestStreamOfManyPieces(t *testing.T) {
	const steps, coordinates = 6, 2*pieceValues + 33
	all := strategies(steps)
	for _, name := range []string{"toeplitz 5", "inverse 6", "identity", "blt"} {
		r := bind(t, Config{Strategy: all[name], Coordinates: coordinates, NoiseMultiplier: 1.5, ClipNorm: 1})
		s := newStream(t, r, 1, coordinates-1)
		s.Workers = 3
		if err := s.Seek(t.Context(), 2, func(int) {}); err != nil {
			t.Fatal(err)
		}
		out, err := write32(s, steps)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(out, encoded(t, generated(t, r), coordinates, 1, coordinates-1, 2, false)) {
			t.Errorf("%s: other bits", name)
		}
	}
}

// TestStreamStops ends with the fault of the context, and of a value that its type does not hold.
func TestStreamStops(t *testing.T) {
	const steps, coordinates = 40, 5000
	r := bind(t, Config{Strategy: strategies(steps)["toeplitz 5"], Coordinates: coordinates, NoiseMultiplier: 1.5, ClipNorm: 1})
	canceled, end := context.WithCancel(t.Context())
	end()
	if err := newStream(t, r, 0, coordinates).Seek(canceled, 30, func(int) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("going to a step with a context that has ended: %v", err)
	}
	fine := bind(t, Config{Strategy: mechanism.Identity(steps), Coordinates: coordinates, NoiseMultiplier: 1.5, ClipNorm: 1, Grid: 0x1p-40, Float64: true})
	if _, err := write32(newStream(t, fine, 0, coordinates), steps); !errors.Is(err, ErrRange) {
		t.Errorf("a grid that a float32 does not hold: %v", err)
	}
}

// TestStreamRefuses another key, a range that is not within the coordinates, and a step that is
// past.
func TestStreamRefuses(t *testing.T) {
	r := bind(t, Config{Strategy: mechanism.Identity(10), Coordinates: 100, NoiseMultiplier: 1, ClipNorm: 1})
	key := r.Key(testRoot(t), r.RunID)
	if _, err := r.Stream(key.Sub("another"), 0, 1); !errors.Is(err, ErrKey) {
		t.Errorf("another key: %v", err)
	}
	for _, c := range [][2]int64{{0, 101}, {-1, 5}, {5, 5}} {
		if _, err := r.Stream(key, c[0], c[1]); !errors.As(err, new(*ParamError)) {
			t.Errorf("coordinates %v: %v", c, err)
		}
	}
	s := newStream(t, r, 0, 100)
	if err := s.Seek(t.Context(), 5, nil); err != nil {
		t.Fatal(err)
	}
	for _, step := range []int{4, 11} {
		if err := s.Seek(t.Context(), step, nil); !errors.As(err, new(*ParamError)) {
			t.Errorf("step %d: %v", step, err)
		}
	}
}

// TestStreamTellsHowFarItIs counts the steps that a way to a step passes.
func TestStreamTellsHowFarItIs(t *testing.T) {
	r := bind(t, Config{Strategy: strategies(100)["toeplitz 5"], Coordinates: 100, NoiseMultiplier: 1, ClipNorm: 1})
	var at []int
	if err := newStream(t, r, 0, 100).Seek(t.Context(), 50, func(step int) { at = append(at, step) }); err != nil {
		t.Fatal(err)
	}
	if len(at) < 3 || at[len(at)-1] != 50 {
		t.Errorf("steps %v", at)
	}
}

// BenchmarkStream makes rows of 1e6 coordinates on one core: to compare with
// BenchmarkNoise, in CPU time.
func BenchmarkStream(b *testing.B) {
	const steps, coordinates = 128, 1000000
	for _, bands := range []int{2, 16, 32} {
		c := []float64{1}
		for j := 1; j < bands; j++ {
			c = append(c, c[j-1]*(1-0.5/float64(j)))
		}
		b.Run(fmt.Sprintf("bands=%d", bands), func(b *testing.B) {
			r := bind(b, Config{Strategy: &mechanism.Strategy{Kind: mechanism.KindBSR, Steps: steps, Toeplitz: c}, Coordinates: coordinates, NoiseMultiplier: 1, ClipNorm: 1})
			for b.Loop() {
				s := newStream(b, r, 0, coordinates)
				s.Workers = 1
				row := make([]float32, coordinates)
				for range steps {
					if err := s.Fill32(row); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.N)*steps*coordinates/b.Elapsed().Seconds()/1e6, "Mvalues/s")
		})
	}
}
