package noise

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"minsep/internal/stream"
)

// Stream makes the rows of a range of coordinates one after the other, with the bits of a
// [Generator] and at about its speed.
//
// A generator is fast where a call asks for as many rows as there are bands; of rows that are too
// wide to be held so often, it would read its whole state for each. So a stream makes the
// coordinates in tiles, each some rows ahead of the one that is wanted: as many as the strategy has
// bands less one, which it keeps anyway. The first tiles begin with fewer, so that the work is
// spread over the rows. Memory is bands-1 rows of float64, one row a buffer for a BLT, and 1 MiB
// for each goroutine. After an error a stream must not be used again. It is not safe for concurrent
// use.
type Stream struct {
	// Workers is the number of goroutines that make noise; 0 is one a processor.
	Workers int
	// Until is a step beyond which no row is made before that step is reached; 0 for the last.
	Until int

	g     *Generator
	tile  int // panels of a tile
	tiles int
	slots int       // rows that a tile keeps; 0 for one at a time, which are not kept
	ring  []float64 // [tiles][slots][tile·lanes]: the row of step t is in slot t mod slots
	next  []int     // of each tile the first step that has not been made
	first int       // step with which the tiles begin
	step  int       // the next one to be written

	filling []*worker // of Fill32 and Fill64
}

// pieceValues is about the number of values that a goroutine makes at a time.
const pieceValues = 1 << 16

// filterSlots is the least number of rows that a filter makes at a time, because every time it
// makes its past inputs again.
const filterSlots = 4

// Stream returns the stream of coordinates [lo, hi) from step 0 on. The key must be the one of r's
// run ([Recipe.Key], [ErrKey]).
func (r *Recipe) Stream(key stream.Key, lo, hi int64) (*Stream, error) {
	g, err := r.generator(key, lo, hi)
	if err != nil {
		return nil, err
	}
	s := &Stream{g: g, slots: g.history}
	switch {
	case g.noising.Feedback != nil:
		g.stateRows = 0 // the ring is the state
	case g.noising.Filter != nil && g.history > 0:
		s.slots = max(g.history, filterSlots)
	}
	g.allocate()
	s.tile = g.tilePanels(max(1, s.slots))
	s.tiles = (g.panels + s.tile - 1) / s.tile
	s.ring = make([]float64, s.tiles*s.slots*s.tile*lanes)
	advise(s.ring)
	s.next = make([]int, s.tiles)
	return s, nil
}

// Width returns the number of coordinates.
func (s *Stream) Width() int { return s.g.Width() }

// StateBytes returns the memory of the rows that the stream keeps, in bytes, at least 0.
func (s *Stream) StateBytes() int64 { return 8 * int64(len(s.ring)+len(s.g.state)) }

// Add gives the bytes of the next steps. A row needs those of its step, and of all before it if the
// stream is not [Stream.Restartable]; with those of later steps, rows are made some at a time, which
// is faster.
func (s *Stream) Add(bytes ...StepBytes) { s.g.add(bytes...) }

// Known returns the number of steps whose bytes were given.
func (s *Stream) Known() int { return len(s.g.bytes) }

// end returns the step before which rows may be made now.
func (s *Stream) end() int {
	end := min(s.g.steps, s.Known())
	if s.Until > s.step {
		end = min(end, s.Until)
	}
	return end
}

// Step returns the next step, 0-based.
func (s *Stream) Step() int { return s.step }

// Restartable reports whether the noise of a step can be made without the noise of the steps before
// it: whether [Stream.Seek] takes no time.
func (s *Stream) Restartable() bool { return s.g.Restartable() }

// seekRows is the least number of steps between two calls of Seek's callback.
const seekRows = 16

// Seek goes to a later step, whose earlier ones must have their bytes. If the noise of that step depends on the steps before it, their noise
// is made and dropped; made is called from time to time with the step that is reached. When ctx
// ends, Seek returns its error.
func (s *Stream) Seek(ctx context.Context, step int, made func(step int)) error {
	if step < s.step || step > s.g.steps {
		return &ParamError{Package: "noise", Param: "step", Value: step, Rule: fmt.Sprintf("must be %d to %d", s.step, s.g.steps)}
	}
	if step > s.Known() {
		return errNoBytes(s.Known())
	}
	rows := max(seekRows, s.slots)
	for s.step < step && !s.Restartable() {
		if err := ctx.Err(); err != nil {
			return err
		}
		until := min(step, s.step+rows)
		s.each(func(w *worker, tile int) { s.advance(w, tile, until) })
		s.step = until
		made(until)
	}
	s.step, s.first = step, step
	for i := range s.next {
		if s.Restartable() || s.next[i] < step {
			s.next[i] = step
		}
	}
	return nil
}

// each calls f for every tile, from several goroutines.
func (s *Stream) each(f func(w *worker, tile int)) {
	tiles := make(chan int)
	var group sync.WaitGroup
	for range s.workers() {
		group.Go(func() {
			w := newWorker(s.g)
			for i := range tiles {
				f(w, i)
			}
		})
	}
	for i := range s.tiles {
		tiles <- i
	}
	close(tiles)
	group.Wait()
}

// workers returns the number of goroutines.
func (s *Stream) workers() int {
	if s.Workers > 0 {
		return s.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// advance makes the rows of a tile before a step, and keeps the last of them.
func (s *Stream) advance(w *worker, tile, until int) {
	for s.next[tile] < until {
		if s.slots > 0 {
			s.ahead(w, tile, min(s.slots, until-s.next[tile]))
			continue
		}
		from, to := s.panels(tile)
		w.tile(from, to, s.next[tile], 1, 1, func(int, int, int, []float64) bool { return true })
		s.next[tile]++
	}
}

// panels returns the range of panels of a tile.
func (s *Stream) panels(tile int) (from, to int) {
	return tile * s.tile, min(s.g.panels, (tile+1)*s.tile)
}

// row returns the slot of a step's row of a tile.
func (s *Stream) row(tile, step int) []float64 {
	width := s.tile * lanes
	return s.ring[(tile*s.slots+step%s.slots)*width:][:width]
}

// ahead makes the next rows of a tile, at most slots, and puts them in the places of the oldest.
func (s *Stream) ahead(w *worker, tile, rows int) {
	if s.g.noising.Feedback != nil {
		s.aheadInRing(w, tile, rows)
		return
	}
	step := s.next[tile]
	from, to := s.panels(tile)
	stride := w.room(from, to, rows)
	w.begin(from, to, step, stride)
	w.correlated(from, to, step, rows, rows, stride, func(panel, _, steps int, values []float64) bool {
		for i := range steps {
			copy(s.row(tile, step+i)[(panel-from)*lanes:], values[i*lanes:][:lanes])
		}
		return true
	})
	s.next[tile] = step + rows
}

// aheadInRing does the work of ahead for feedback, with its earlier rows in the ring. A row takes
// the place of the oldest row that it needs, so that nothing is copied. Rows before step 0 are
// zeros, as the new ring is.
func (s *Stream) aheadInRing(w *worker, tile, rows int) {
	step := s.next[tile]
	from, to := s.panels(tile)
	width := s.tile * lanes
	w.rows = grow(w.rows, rows*width)
	w.words = grow(w.words, (to-from)*lanes)
	ring := s.ring[tile*s.slots*width:][:s.slots*width]
	for t := range rows {
		var later []float64
		if tile+1+t < s.tiles {
			later = s.row(tile+1+t, step)
		}
		w.normalsRow(w.rows[t*width:], from, to, step+t, lanes, ring[t*width:], later)
	}
	w.prepare(step, rows)
	if step == 0 {
		clear(ring) // zeros already, but memory that is read before it is written is mapped twice
	}
	s.g.arithmetic.feedbackRing(ring, to-from, width, s.slots, step%s.slots, rows, w.rows, w.gain, w.coef)
	s.next[tile] = step + rows
}

// Fill32 sets dst to the row of the next step, each value as a float32. Its errors are the
// errors of [Generator.Fill32].
func (s *Stream) Fill32(dst []float32) error { return fillRow(s, dst, s.g.rounding32().round32) }

// Fill64 does the same in float64.
func (s *Stream) Fill64(dst []float64) error { return fillRow(s, dst, s.round64()) }

// round64 returns the rounding of one panel's rows in float64, for which there is no kernel.
func (s *Stream) round64() func(dst []float64, stride int, p []float64, from, to int, scales []float64) bool {
	r := s.g.rounding64()
	return func(dst []float64, stride int, p []float64, from, to int, scales []float64) bool {
		return roundGeneric(r, dst, stride, p, from, to, scales)
	}
}

// pieces returns the number of pieces of a row, and the number of tiles of a piece.
func (s *Stream) pieces() (pieces, tiles int) {
	tiles = max(1, pieceValues/lanes/s.tile)
	return (s.tiles + tiles - 1) / tiles, tiles
}

// fillRow makes the pieces of a row in several goroutines, each in its place.
func fillRow[T float32 | float64](s *Stream, dst []T, round func(dst []T, stride int, p []float64, from, to int, scales []float64) bool) error {
	if len(dst) != s.Width() {
		panic(fmt.Sprintf("noise: %d values are not a row of %d", len(dst), s.Width()))
	}
	if s.step >= s.g.steps {
		return &ParamError{Package: "noise", Param: "step", Value: s.step, Rule: fmt.Sprintf("must be below %d", s.g.steps)}
	}
	if s.step >= s.Known() {
		return errNoBytes(s.step)
	}
	pieces, each := s.pieces()
	workers := min(s.workers(), pieces)
	for len(s.filling) < workers {
		s.filling = append(s.filling, newWorker(s.g))
	}
	var taken atomic.Int64
	var failed atomic.Bool
	var group sync.WaitGroup
	for _, w := range s.filling[:workers] {
		group.Go(func() {
			scales := make([]float64, s.tile)
			for i := int(taken.Add(1)) - 1; i < pieces; i = int(taken.Add(1)) - 1 {
				panel, _ := s.panels(i * each)
				place := dst[max(0, s.g.base+int64(panel)*lanes-s.g.lo):]
				if !makePiece(s, w, place, s.step, i*each, min(s.tiles, (i+1)*each), scales, round) {
					failed.Store(true)
				}
			}
		})
	}
	group.Wait()
	if failed.Load() {
		return ErrRange
	}
	s.step++
	return nil
}

// makePiece sets values to a step's values of the tiles [from, to), and makes the tiles that
// have no rows left.
func makePiece[T float32 | float64](s *Stream, w *worker, values []T, step, from, to int, scales []float64, round func([]T, int, []float64, int, int, []float64) bool) bool {
	g := s.g
	scale := g.scale * g.noising.rowScale(step)
	for i := range scales {
		scales[i] = scale
	}
	firstPanel, _ := s.panels(from)
	_, endPanel := s.panels(to - 1)
	origin := max(g.lo, g.base+int64(firstPanel)*lanes)
	values = values[:min(g.hi, g.base+int64(endPanel)*lanes)-origin]
	ok := true
	// panels rounds some panels that lie side by side; only their coordinates in the range are
	// taken.
	panels := func(panel int, u []float64, count int) {
		first := g.base + int64(panel)*lanes
		if skip := int(max(g.lo-first, 0)); skip > 0 || first+int64(count)*lanes > g.hi {
			for i := range count {
				first := first + int64(i)*lanes
				a, b := max(first, g.lo), min(first+lanes, g.hi)
				ok = round(values[a-origin:], lanes, u[i*lanes:][:lanes], int(a-first), int(b-first), scales[:1]) && ok
			}
			return
		}
		ok = round(values[first-origin:], lanes, u, 0, lanes, scales[:count]) && ok
	}
	for tile := from; tile < to; tile++ {
		a, b := s.panels(tile)
		if s.slots == 0 {
			w.tile(a, b, step, 1, 1, func(panel, _, _ int, u []float64) bool { panels(panel, u, 1); return true })
			s.next[tile] = step + 1
			continue
		}
		if s.next[tile] == step {
			rows := s.slots
			if step == s.first {
				rows = 1 + tile%s.slots
			}
			s.ahead(w, tile, min(rows, s.end()-step))
		}
		panels(a, s.row(tile, step), b-a)
	}
	return ok
}
