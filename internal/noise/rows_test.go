package noise

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"minsep/internal/must"
	"minsep/mechanism"
)

// write32 makes the rows before a step, and returns their bytes in little endian.
func write32(s *Generator, end int) (out []byte, err error) {
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

// generated returns the rows of a generator of all coordinates.
func generated(t testing.TB, r *Recipe) []float64 {
	t.Helper()
	all := make([]float64, r.Params.Steps*int(r.Params.Coordinates))
	must.Do(t, generator(t, r, 0, r.Params.Coordinates).Fill64(all))
	return all
}

// encoded has the values of the coordinates [lo, hi) from a step on as float32, in little endian.
func encoded(all []float64, coordinates, lo, hi, step int) (out []byte) {
	for ; step*coordinates < len(all); step++ {
		for _, v := range all[step*coordinates:][lo:hi] {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(v)))
		}
	}
	return out
}

// TestRowsByRows: rows are the same however few bytes of steps are known ahead and wherever tiles
// must stop, and a row after the last is refused.
func TestRowsByRows(t *testing.T) { eachWords(t, rowsByRows) }

func rowsByRows(t *testing.T, words Words) {
	const steps, coordinates = 37, 4700
	rng := rand.New(rand.NewPCG(7, 7))
	for name, strategy := range strategies(steps) {
		r := bind(t, Config{Strategy: strategy, Coordinates: coordinates, NoiseMultiplier: 1.5, ClipNorm: 1, Words: words})
		all := generated(t, r)
		for i, c := range [][2]int{{0, 1}, {15, 17}, {3, 40}, {17, 16 + 4096}, {0, coordinates}} {
			s := must.Get(r.Generator(r.Key(testRoot(t), r.RunID), int64(c[0]), int64(c[1])))(t)
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
				part := must.Get(write32(s, s.Step()+1))(t)
				out = append(out, part...)
			}
			if !bytes.Equal(out, encoded(all, coordinates, c[0], c[1], 0)) {
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

// TestManyPieces: rows of several pieces, made by several goroutines, are those of parts of one piece.
func TestManyPieces(t *testing.T) {
	const steps, first, lo, hi, part = 6, 2, 1, 2*pieceValues + 32, 40_000
	all := strategies(steps)
	rows := func(r *Recipe, from, to int64) []byte {
		s := generator(t, r, from, to)
		s.Workers = 3
		must.Do(t, s.Seek(t.Context(), first, func(int) {}))
		out := must.Get(write32(s, steps))(t)
		return out
	}
	for _, name := range []string{"toeplitz 5", "inverse 6", "identity", "blt"} {
		r := bind(t, Config{Strategy: all[name], Coordinates: hi + 1, NoiseMultiplier: 1.5, ClipNorm: 1})
		whole := rows(r, lo, hi)
		for from := int64(lo); from < hi; from += part {
			to := min(hi, from+part)
			for row, of := range slices.Collect(slices.Chunk(rows(r, from, to), int(4*(to-from)))) {
				if start := 4 * (row*(hi-lo) + int(from) - lo); !bytes.Equal(of, whole[start:start+len(of)]) {
					t.Errorf("%s: step %d, coordinates from %d on: other bits", name, first+row, from)
				}
			}
		}
	}
}

// TestStops ends with the fault of the context, and of a value that its type does not hold.
func TestStops(t *testing.T) {
	const steps, coordinates = 40, 5000
	r := bind(t, Config{Strategy: strategies(steps)["toeplitz 5"], Coordinates: coordinates, NoiseMultiplier: 1.5, ClipNorm: 1})
	canceled, end := context.WithCancel(t.Context())
	end()
	if err := generator(t, r, 0, coordinates).Seek(canceled, 30, func(int) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("going to a step with a context that has ended: %v", err)
	}
	fine := bind(t, Config{Strategy: mechanism.Identity(steps), Coordinates: coordinates, NoiseMultiplier: 1.5, ClipNorm: 1, Grid: 0x1p-40, Float64: true})
	if _, err := write32(generator(t, fine, 0, coordinates), steps); !errors.Is(err, ErrRange) {
		t.Errorf("a grid that a float32 does not hold: %v", err)
	}
}
