package noise

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"minsep/internal/param"
	"minsep/internal/stream"
)

// ErrRange says that a value is beyond the range of its type on the grid, 2²⁴ multiples for float32
// and 2⁵⁰ for float64. There are three causes: more than 16 deviations of the noise, with a
// probability below 1e-56 whatever the data are; a grid too fine for float32; or a strategy with
// numbers that overflow.
var ErrRange = errors.New("a value is beyond the largest multiple of the grid that its type holds")

// Generator makes the rows of noise of a range of coordinates, step after step. Its values do not
// depend on the range, on the number of goroutines, or on how far ahead the bytes of steps are known.
//
// Rows are too wide to make many of them at once, and the state of a banded strategy is as large as
// its bands. So the coordinates are made in tiles that stay in the cache, each some rows ahead of the
// one that is wanted: as many as the strategy has bands less one, which it keeps anyway. The first
// tiles begin with fewer, so that the work is spread over the rows. Memory is bands-1 rows of float64,
// one row a buffer for a BLT, and 1 MiB for each goroutine. After an error a generator must not be
// used again. It is not safe for concurrent use.
type Generator struct {
	// Workers is the number of goroutines that make noise; 0 is one a processor.
	Workers int
	// Until is a step beyond which no row is made before that step is reached; 0 for the last.
	Until int

	noising     *Noising
	steps       int
	lo, hi      int64 // coordinates
	base        int64 // lo rounded down to a whole panel
	panels      int
	scale, grid float64 // σ ζ, and g or 0
	source      Words
	arithmetic  arithmetic
	key         stream.Key
	bytes       []StepBytes // of steps from 0 on
	keys        []stepKeys  // that follow from them
	history     int         // earlier rows that a row needs
	filter      []float64   // oldest first
	minusScales []float64
	buffers     []float64 // of a BLT: [panels][buffers][lanes]

	tile    int // panels of a tile
	tiles   int
	slots   int       // rows that a tile keeps: those of a feedback; 0 for other noise
	ring    []float64 // [tiles][slots][tile·lanes]: the row of step t is in slot t mod slots
	next    []int     // of each tile the first step that has not been made
	first   int       // step with which the tiles begin
	step    int       // the next one to be written
	workers []*worker
}

// stepKeys are the keys of the words of a step.
type stepKeys struct{ normals, tails stream.Key }

// pieceValues is about the number of values that a goroutine makes at a time.
const pieceValues = 1 << 16

// chunkRows is the number of rows that a tile makes at a time, if it needs no earlier outputs and the
// rows depend on each other.
const chunkRows = 32

// unknownMemory is the limit where the memory of a machine is not known, in bytes.
const unknownMemory = 1 << 44

// Generator returns the generator of coordinates [lo, hi) at step 0. The key must be the one of r's
// run ([Recipe.Key], [ErrKey]). The rows need the bytes of their steps: see [Generator.Add].
// A range is refused whose rows need more memory than the machine has.
func (r *Recipe) Generator(key stream.Key, lo, hi int64) (*Generator, error) {
	if key.Commitment() != r.KeyCommitment {
		return nil, ErrKey
	}
	check := param.Checker{}
	check.Requiref(0 <= lo && lo < hi && hi <= r.Params.Coordinates, "coordinates", fmt.Sprintf("[%d,%d)", lo, hi),
		"must be a range within [0,%d)", r.Params.Coordinates)
	if err := check.Err(); err != nil {
		return nil, err
	}
	g := newGenerator(r, key, lo, hi)
	needed := float64(g.Width()) * float64(8*(g.slots+len(g.minusScales))+4*g.Rows())
	if memory := hostMemory(); needed > memory {
		return nil, param.Fault("shard", fmt.Sprintf("coordinates [%d,%d)", lo, hi),
			"needs %.4g bytes for its rows: must be at most the %.4g bytes of this machine's memory: "+
				"make them in parts, noise --stream --shard i/n", needed, memory)
	}
	g.tile = g.tilePanels()
	g.tiles = (g.panels + g.tile - 1) / g.tile
	g.ring = make([]float64, g.tiles*g.slots*g.tile*lanes)
	g.buffers = make([]float64, g.panels*len(g.minusScales)*lanes)
	g.next = make([]int, g.tiles)
	advise(g.ring)
	return g, nil
}

// newGenerator returns a generator at step 0 without its memory. lo is at most hi, and both are
// within the coordinates.
func newGenerator(r *Recipe, key stream.Key, lo, hi int64) *Generator {
	g := &Generator{
		noising:    r.Noising,
		steps:      r.Params.Steps,
		lo:         lo,
		hi:         hi,
		base:       lo / lanes * lanes,
		scale:      float64(r.Params.NoiseMultiplier) * float64(r.Params.ClipNorm),
		grid:       float64(r.Params.Grid),
		source:     r.Params.Words,
		arithmetic: r.Params.Words.arithmetic(),
		key:        key,
		history:    r.Noising.history(),
		filter:     slices.Clone(r.Noising.Filter),
	}
	g.panels = int((hi - g.base + lanes - 1) / lanes)
	slices.Reverse(g.filter)
	for _, s := range r.Noising.Scales {
		g.minusScales = append(g.minusScales, -s)
	}
	if g.noising.Feedback != nil {
		g.slots = g.history
	}
	return g
}

// Width returns the number of coordinates.
func (g *Generator) Width() int {
	return int(g.hi - g.lo)
}

// StateBytes returns the memory of the rows that the generator keeps, in bytes, at least 0.
func (g *Generator) StateBytes() int64 {
	return 8 * int64(len(g.ring)+len(g.buffers))
}

// Add gives the bytes of the next steps. A row needs those of its step, and of all before it if the
// generator is not [Generator.Restartable]; with those of later steps, rows are made some at a time,
// which is faster.
func (g *Generator) Add(bytes ...StepBytes) {
	g.bytes = append(g.bytes, bytes...)
	for _, b := range bytes {
		g.keys = append(g.keys, stepKeys{g.key.Salted(b[:], "normals"), g.key.Salted(b[:], "tails")})
	}
}

// Known returns the number of steps whose bytes were given.
func (g *Generator) Known() int {
	return len(g.bytes)
}

// Step returns the next step, 0-based.
func (g *Generator) Step() int {
	return g.step
}

// Restartable reports whether the noise of a step can be made without the noise of the steps before
// it: whether [Generator.Seek] takes no time, and a checkpoint saves nothing.
func (g *Generator) Restartable() bool {
	return g.noising.Feedback == nil && len(g.noising.Decays) == 0
}

// independent reports whether the noise of a step needs nothing of other steps.
func (g *Generator) independent() bool {
	return g.history == 0 && g.noising.Gain != nil
}

// Rows returns the number of rows that a caller who needs one at a time should ask for: more than one
// if the past inputs of a filter are made again in every call.
func (g *Generator) Rows() int {
	if g.slots == 0 && g.history > 0 {
		return 4
	}
	return 1
}

// end returns the step before which rows may be made now.
func (g *Generator) end() int {
	end := min(g.steps, g.Known())
	if g.Until > g.step {
		end = min(end, g.Until)
	}
	return end
}

// seekRows is the least number of steps between two calls of Seek's callback.
const seekRows = 16

// Seek goes to a step whose earlier ones have their bytes: to any if the generator is
// [Generator.Restartable], else to a later one. Then the noise of the steps before it is made and
// dropped; made, which may be nil, is called from time to time with the step that is reached. When ctx ends, Seek
// returns its error.
func (g *Generator) Seek(ctx context.Context, step int, made func(step int)) error {
	least := g.step
	if g.Restartable() {
		least = 0
	}
	if step < least || step > g.steps {
		return param.Fault("step", step, "must be %d to %d", least, g.steps)
	}
	if step > g.Known() {
		return errNoBytes(g.Known())
	}
	rows := max(seekRows, g.slots)
	for g.step < step && !g.Restartable() {
		if err := ctx.Err(); err != nil {
			return err
		}
		until := min(step, g.step+rows)
		g.each(g.tiles, func(w *worker, tile int) { w.advance(tile, until) })
		g.step = until
		if made != nil {
			made(until)
		}
	}
	g.step, g.first = step, step
	for i := range g.next {
		g.next[i] = max(g.next[i], step)
	}
	return nil
}

// ready returns workers for so many pieces of work, each for one goroutine.
func (g *Generator) ready(pieces int) []*worker {
	count := g.Workers
	if count <= 0 {
		count = runtime.GOMAXPROCS(0)
	}
	count = min(count, pieces)
	for len(g.workers) < count {
		g.workers = append(g.workers, newWorker(g))
	}
	return g.workers[:count]
}

// each calls f for the numbers of so many pieces of work, from several goroutines.
func (g *Generator) each(pieces int, f func(w *worker, piece int)) {
	var taken atomic.Int64
	var group sync.WaitGroup
	for _, w := range g.ready(pieces) {
		group.Go(func() {
			for i := int(taken.Add(1)) - 1; i < pieces; i = int(taken.Add(1)) - 1 {
				f(w, i)
			}
		})
	}
	group.Wait()
}

// panelsOf returns the range of panels of a tile.
func (g *Generator) panelsOf(tile int) (from, to int) {
	return tile * g.tile, min(g.panels, (tile+1)*g.tile)
}

// row returns the slot of a step's row of a tile.
func (g *Generator) row(tile, step int) []float64 {
	width := g.tile * lanes
	return g.ring[(tile*g.slots+step%g.slots)*width:][:width]
}

// Fill32 sets dst to the next len(dst)/Width rows: [steps, coordinates] in C order. A grid that a
// float32 does not hold is an [ErrRange]; see [Config.Float64]. Without a grid a value is the
// float32 next to the value of Fill64.
func (g *Generator) Fill32(dst []float32) error {
	return fill(g, dst, g.rounding32().round32)
}

// Fill64 does the same in float64. On a grid that a float32 holds, the values are equal.
func (g *Generator) Fill64(dst []float64) error {
	r := g.rounding64()
	return fill(g, dst, func(dst []float64, stride int, p []float64, from, to int, scales []float64) bool {
		return roundGeneric(r, dst, stride, p, from, to, scales)
	})
}

// errNoBytes is the error of a step without its bytes.
func errNoBytes(step int) error {
	return param.Fault("bytes of steps", step, "must be given for a step before its noise is made")
}

// rounder sets rows of dst, stride values apart, to those lanes [from, to) of the rows of a panel
// times their scales, rounded. It reports whether all values are in range.
type rounder[T float32 | float64] func(dst []T, stride int, panel []float64, from, to int, scales []float64) bool

// fill makes rows.
func fill[T float32 | float64](g *Generator, dst []T, round rounder[T]) error {
	width := g.Width()
	rows := len(dst) / width
	if rows*width != len(dst) {
		panic(fmt.Sprintf("%d values are not rows of %d", len(dst), width))
	}
	if rows > g.steps-g.step {
		return param.Fault("rows asked for", rows, "must be at most the %d that are left", g.steps-g.step)
	}
	if g.step+rows > g.Known() {
		return errNoBytes(g.Known())
	}
	if g.slots == 0 {
		if !fillRows(g, dst, rows, round) {
			return ErrRange
		}
		g.step += rows
		return nil
	}
	for row := range rows {
		if !fillRow(g, dst[row*width:][:width], round) {
			return ErrRange
		}
		g.step++
	}
	return nil
}

// fillRows makes rows of noise that needs no earlier outputs, tile by tile, in several goroutines.
func fillRows[T float32 | float64](g *Generator, dst []T, rows int, round rounder[T]) bool {
	width := g.Width()
	scales := make([]float64, rows)
	for t := range scales {
		scales[t] = g.scale * g.noising.rowScale(g.step+t)
	}
	var failed atomic.Bool
	chunk := chunkRows
	if g.independent() {
		chunk = 1 // the rows of a tile are then written one after the other, each at once
	}
	g.each(g.tiles, func(w *worker, tile int) {
		from, to := g.panelsOf(tile)
		for row := 0; row < rows; row += chunk {
			count := min(chunk, rows-row)
			into, of := dst[row*width:], scales[row:][:count]
			w.rowsOf(from, to, g.step+row, count, func(panel int, values []float64) {
				ok := false
				if count == 1 {
					ok = roundRow(w, into, g.lo, panel, values, of[0], round)
				} else {
					first := g.base + int64(panel)*lanes
					a, b := max(first, g.lo), min(first+lanes, g.hi)
					ok = round(into[a-g.lo:], width, values, int(a-first), int(b-first), of)
				}
				if !ok {
					failed.Store(true)
				}
			})
		}
	})
	return !failed.Load()
}

// roundRow rounds a step's values of panels that lie side by side, from a panel on, into a row that
// begins at the coordinate origin. Only the coordinates in the range are taken.
func roundRow[T float32 | float64](
	w *worker,
	row []T,
	origin int64,
	panel int,
	values []float64,
	scale float64,
	round rounder[T],
) bool {
	g := w.g
	count := len(values) / lanes
	w.scales = grow(w.scales, count)
	for i := range w.scales {
		w.scales[i] = scale
	}
	first := g.base + int64(panel)*lanes
	if first >= g.lo && first+int64(count)*lanes <= g.hi {
		return round(row[first-origin:], lanes, values, 0, lanes, w.scales)
	}
	ok := true
	for i := range count {
		first := first + int64(i)*lanes
		a, b := max(first, g.lo), min(first+lanes, g.hi)
		ok = round(row[a-origin:], lanes, values[i*lanes:][:lanes], int(a-first), int(b-first), w.scales[:1]) && ok
	}
	return ok
}

// fillRow makes the pieces of a row in several goroutines, each in its place.
func fillRow[T float32 | float64](g *Generator, dst []T, round rounder[T]) bool {
	tiles := max(1, pieceValues/lanes/g.tile) // of a piece
	var failed atomic.Bool
	g.each((g.tiles+tiles-1)/tiles, func(w *worker, piece int) {
		from, to := piece*tiles, min(g.tiles, (piece+1)*tiles)
		panel, _ := g.panelsOf(from)
		if !fillPiece(w, dst[max(0, g.base+int64(panel)*lanes-g.lo):], from, to, round) {
			failed.Store(true)
		}
	})
	return !failed.Load()
}

// fillPiece sets values to the row's values of the tiles [from, to), and makes the tiles that have no
// rows left.
func fillPiece[T float32 | float64](w *worker, values []T, from, to int, round rounder[T]) bool {
	g := w.g
	scale := g.scale * g.noising.rowScale(g.step)
	firstPanel, _ := g.panelsOf(from)
	_, endPanel := g.panelsOf(to - 1)
	origin := max(g.lo, g.base+int64(firstPanel)*lanes)
	values = values[:min(g.hi, g.base+int64(endPanel)*lanes)-origin]
	ok := true
	for tile := from; tile < to; tile++ {
		a, b := g.panelsOf(tile)
		if g.next[tile] == g.step {
			rows := g.slots
			if g.step == g.first {
				rows = 1 + tile%g.slots
			}
			w.ahead(tile, min(rows, g.end()-g.step))
		}
		ok = roundRow(w, values, origin, a, g.row(tile, g.step)[:(b-a)*lanes], scale, round) && ok
	}
	return ok
}

// scratchBytes is about the size of a worker's panels. They stay in the second level of cache.
const scratchBytes = 1 << 19

// tilePanels returns the number of panels of a tile, whose rows stay in the cache while they are
// made. It is odd: rows that lie a power of two apart share the same few places in the cache.
func (g *Generator) tilePanels() int {
	rows := 2 * g.slots
	if g.slots == 0 {
		rows = g.history + chunkRows
	}
	panels := min(g.panels, max(1, scratchBytes/8/lanes/rows), 128)
	return max(1, panels-1+panels%2)
}
