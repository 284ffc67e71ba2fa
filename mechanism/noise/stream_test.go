package noise

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"minsep/mechanism"
)

func newStream(t testing.TB, r *Recipe, lo, hi int64) *Stream {
	t.Helper()
	s, err := r.Stream(r.Key(testRoot(t), r.RunID), lo, hi)
	if err != nil {
		t.Fatal(err)
	}
	return s
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

// TestRowsOfAStream: rows that are filled one by one, in turn with some that are written, are those
// of the generator.
func TestRowsOfAStream(t *testing.T) {
	const steps, coordinates = 37, 4700
	for name, strategy := range strategies(steps) {
		r := bind(t, Config{Strategy: strategy, Coordinates: coordinates, NoiseMultiplier: 1.5, ClipNorm: 1})
		all := generated(t, r)
		for i, c := range [][2]int{{0, 1}, {15, 17}, {3, 40}, {17, 16 + 4096}, {0, coordinates}} {
			s := newStream(t, r, int64(c[0]), int64(c[1]))
			s.Workers = 1 + i
			var out bytes.Buffer
			for s.Step() < steps {
				switch s.Step() % 4 {
				case 0: // two rows
					s.End = min(s.Step()+2, steps)
					if err := s.Write32(t.Context(), &out); err != nil {
						t.Fatal(err)
					}
				case 2:
					row := make([]float64, s.Width())
					if err := s.Fill64(row); err != nil {
						t.Fatal(err)
					}
					for _, v := range row {
						binary.Write(&out, binary.LittleEndian, float32(v))
					}
				default:
					row := make([]float32, s.Width())
					if err := s.Fill32(row); err != nil {
						t.Fatal(err)
					}
					binary.Write(&out, binary.LittleEndian, row)
				}
			}
			if !bytes.Equal(out.Bytes(), encoded(t, all, coordinates, c[0], c[1], 0, false)) {
				t.Errorf("%s: coordinates %v: other bits", name, c)
			}
			var bad *ParamError
			if err := s.Fill32(make([]float32, s.Width())); !errors.As(err, &bad) {
				t.Errorf("a row after the last: %v", err)
			}
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
				var out bytes.Buffer
				write := s.Write32
				if float64s {
					write = s.Write64
				}
				if err := write(t.Context(), &out); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(out.Bytes(), encoded(t, all, coordinates, c[0], c[1], step, float64s)) || s.Step() != steps {
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
		var out bytes.Buffer
		if err := s.Write32(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(out.Bytes(), encoded(t, generated(t, r), coordinates, 1, coordinates-1, 2, false)) {
			t.Errorf("%s: other bits", name)
		}
	}
}

// failing takes so many bytes.
type failing struct{ left int }

var errFull = errors.New("full")

func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errFull
	}
	return len(b), nil
}

// TestStreamStops ends with the fault of the output, of the context, and of a value that its type
// does not hold.
func TestStreamStops(t *testing.T) {
	const steps, coordinates = 40, 5000
	r := bind(t, Config{Strategy: strategies(steps)["toeplitz 5"], Coordinates: coordinates, NoiseMultiplier: 1.5, ClipNorm: 1})
	s := newStream(t, r, 0, coordinates)
	if err := s.Write32(t.Context(), &failing{10 * 4 * coordinates}); !errors.Is(err, errFull) {
		t.Errorf("a full output: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s = newStream(t, r, 0, coordinates)
	read, out := io.Pipe()
	go func() {
		io.CopyN(io.Discard, read, 1000)
		cancel()
		io.Copy(io.Discard, read)
	}()
	if err := s.Write32(ctx, out); err != nil && !errors.Is(err, context.Canceled) { // all may have been written just before
		t.Errorf("a context that ends: %v", err)
	}
	canceled, end := context.WithCancel(t.Context())
	end()
	if err := newStream(t, r, 0, coordinates).Seek(canceled, 30, func(int) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("going to a step with a context that has ended: %v", err)
	}
	fine := bind(t, Config{Strategy: mechanism.Identity(steps), Coordinates: coordinates, NoiseMultiplier: 1.5, ClipNorm: 1, Grid: 0x1p-40, Float64: true})
	if err := newStream(t, fine, 0, coordinates).Write32(t.Context(), io.Discard); !errors.Is(err, ErrRange) {
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

// BenchmarkStream writes rows of 1e6 coordinates, made on one core, to nowhere: to compare with
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
				if err := s.Write32(b.Context(), io.Discard); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*steps*coordinates/b.Elapsed().Seconds()/1e6, "Mvalues/s")
		})
	}
}
