package noise

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"minsep/internal/stream"
)

// ErrRange says that a value is beyond the range of its type on the grid, 2²⁴ multiples for float32
// and 2⁵⁰ for float64. There are three causes: more than 16 deviations of the noise, with a
// probability below 1e-56 whatever the data are; a grid too fine for float32; or a strategy with
// numbers that overflow.
var ErrRange = errors.New("noise: a value is beyond the largest multiple of the grid that its type holds")

// Generator makes the rows of noise of a range of coordinates, step after step. Its values do not
// depend on the number of steps of a call; a call for some dozens of steps, or for as many as there
// are bands, is the fastest. Between calls it holds the state of its strategy: bands-1 rows of
// float64 for feedback, one row for each buffer of a BLT, nothing for a filter or independent
// steps. After an error it must not be used again. It is not safe for concurrent use.
type Generator struct {
	// Workers is the number of goroutines that a call uses; 0 is one a processor.
	Workers int

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
	step        int         // the next one
	history     int
	stateRows   int
	state       []float64 // [panels][stateRows][lanes]
	workers     []*worker
	filter      []float64 // oldest first
	minusScales []float64
}

// stepKeys are the keys of the words of a step.
type stepKeys struct{ normals, tails stream.Key }

// add gives the bytes of the next steps.
func (g *Generator) add(bytes ...StepBytes) {
	g.bytes = append(g.bytes, bytes...)
	for _, b := range bytes {
		g.keys = append(g.keys, stepKeys{g.key.Salted(b[:], "normals"), g.key.Salted(b[:], "tails")})
	}
}

// newGenerator returns a generator at step 0 without its state. lo is at most hi, and both are
// within the coordinates.
func newGenerator(r *Recipe, key stream.Key, lo, hi int64) *Generator {
	g := &Generator{
		noising: r.Noising,
		steps:   r.Params.Steps,
		lo:      lo, hi: hi, base: lo / lanes * lanes,
		scale: float64(r.Params.NoiseMultiplier) * float64(r.Params.ClipNorm), grid: float64(r.Params.Grid),
		source: r.Params.Words, arithmetic: r.Params.Words.arithmetic(),
		key:     key,
		history: r.Noising.history(),
	}
	g.panels = int((hi - g.base + lanes - 1) / lanes)
	g.filter = slices.Clone(r.Noising.Filter)
	slices.Reverse(g.filter)
	for _, s := range r.Noising.Scales {
		g.minusScales = append(g.minusScales, -s)
	}
	switch {
	case r.Noising.Feedback != nil:
		g.stateRows = g.history
	default:
		g.stateRows = len(r.Noising.Decays)
	}
	return g
}

// allocate makes the state.
func (g *Generator) allocate() { g.state = make([]float64, g.panels*g.stateRows*lanes) }

// Width returns the number of coordinates.
func (g *Generator) Width() int { return int(g.hi - g.lo) }

// Step returns the next step, 0-based.
func (g *Generator) Step() int { return g.step }

// Restartable reports whether the noise of a step can be made without the noise of the steps before
// it. [Generator.Seek] then goes to any step, and a checkpoint saves nothing.
func (g *Generator) Restartable() bool { return g.noising.restartable() }

// Seek goes to a step. Filters and independent steps can go to any step. The other strategies can
// go to 0 only, and to a later step by [Generator.ReadCheckpoint].
func (g *Generator) Seek(step int) error {
	if step < 0 || step > g.steps {
		return &ParamError{Package: "noise", Param: "step", Value: step, Rule: fmt.Sprintf("must be 0 to %d", g.steps)}
	}
	if step != 0 && step != g.step && !g.noising.restartable() {
		return &ParamError{Package: "noise", Param: "step", Value: step, Rule: "this strategy's noise starts at step 0 or from a checkpoint"}
	}
	if step == 0 {
		clear(g.state)
	}
	g.step = step
	return nil
}

// Fill32 sets dst to the next len(dst)/Width rows: [steps, coordinates] in C order. A grid that a
// float32 does not hold is an [ErrRange]; see [Config.Float64]. Without a grid a value is the
// float32 next to the value of Fill64.
func (g *Generator) Fill32(dst []float32) error { return fill(g, dst, g.rounding32().round32) }

// Fill64 does the same in float64. On a grid that a float32 holds, the values are equal.
func (g *Generator) Fill64(dst []float64) error {
	r := g.rounding64()
	return fill(g, dst, func(dst []float64, stride int, p []float64, from, to int, scales []float64) bool {
		return roundGeneric(r, dst, stride, p, from, to, scales)
	})
}

// FillUnrounded does Fill64 without rounding to the grid, to compare implementations. Training with
// these values is like training with [NoGrid]: no guarantee covers their low bits.
func (g *Generator) FillUnrounded(dst []float64) error {
	limit := g.rounding64().limit
	return fill(g, dst, func(dst []float64, stride int, p []float64, from, to int, scales []float64) bool {
		ok := true
		for t, scale := range scales {
			out := dst[t*stride:][:to-from]
			for l, u := range p[t*lanes+from : t*lanes+to] {
				out[l] = u * scale
				ok = ok && math.Abs(out[l]) <= limit
			}
		}
		return ok
	})
}

// errNoBytes is the error of a step without its bytes.
func errNoBytes(step int) error {
	return &ParamError{Package: "noise", Param: "bytes of steps", Value: step, Rule: "must be given for a step before its noise is made"}
}

// fill makes rows, and passes each panel's part of some rows to store with its place in dst. store
// reports whether all values are in range.
func fill[T float32 | float64](g *Generator, dst []T, store func(dst []T, stride int, p []float64, from, to int, scales []float64) bool) error {
	width := g.Width()
	rows := len(dst) / width
	if rows*width != len(dst) {
		panic(fmt.Sprintf("noise: %d values are not rows of %d", len(dst), width))
	}
	if rows > len(g.keys)-g.step && len(g.keys) < g.steps {
		return errNoBytes(len(g.keys))
	}
	if rows > g.steps-g.step {
		return &ParamError{Package: "noise", Param: "rows asked for", Value: rows, Rule: fmt.Sprintf("must be at most the %d that are left", g.steps-g.step)}
	}
	scales := make([]float64, rows)
	for t := range scales {
		scales[t] = g.scale * g.noising.rowScale(g.step+t)
	}
	ok := g.run(rows, func(panel, row, steps int, values []float64) bool {
		first := g.base + int64(panel)*lanes
		from, to := max(first, g.lo), min(first+lanes, g.hi)
		return store(dst[row*width+int(from-g.lo):], width, values, int(from-first), int(to-first), scales[row:row+steps])
	})
	if !ok {
		return ErrRange
	}
	g.step += rows
	return nil
}

// scratchBytes is about the size of a worker's panels. They stay in the second level of cache.
const scratchBytes = 1 << 19

// run makes rows for all panels and calls emit with some rows of a panel at a time, from several
// goroutines.
func (g *Generator) run(rows int, emit func(panel, row, steps int, values []float64) bool) bool {
	if rows == 0 {
		return true
	}
	chunk := min(rows, max(32, g.history/2))
	tile := g.tilePanels(chunk)
	tiles := (g.panels + tile - 1) / tile
	count := g.Workers
	if count <= 0 {
		count = runtime.GOMAXPROCS(0)
	}
	count = min(count, tiles)
	for len(g.workers) < count {
		g.workers = append(g.workers, newWorker(g))
	}
	var next atomic.Int64
	var failed atomic.Bool
	var group sync.WaitGroup
	for _, w := range g.workers[:count] {
		group.Go(func() {
			for !failed.Load() {
				i := int(next.Add(1)) - 1
				if i >= tiles {
					return
				}
				if !w.tile(i*tile, min(g.panels, (i+1)*tile), g.step, rows, chunk, emit) {
					failed.Store(true)
				}
			}
		})
	}
	group.Wait()
	return !failed.Load()
}

// tilePanels returns the number of panels that are made together, for chunk steps each.
func (g *Generator) tilePanels(chunk int) int {
	return min(g.panels, max(1, scratchBytes/8/lanes/(g.history+chunk)), 128)
}

// worker makes one tile of panels at a time.
type worker struct {
	g       *Generator
	sources []stepSource // of the last steps, that of step t at t mod their number
	words   []uint64
	rows    []float64 // [panels of the tile][history + chunk][lanes]
	coef    []float64 // feedback of a chunk, oldest first, [steps][history]
	gain    []float64
}

// stepSource gives the words of the normals of a step.
type stepSource struct {
	step  int
	words wordSource
}

// newWorker returns a worker. Each worker has sources of words of its own, which are not safe for
// concurrent use.
func newWorker(g *Generator) *worker {
	return &worker{g: g, sources: make([]stepSource, max(64, 2*g.history))}
}

// normals returns the source of the words of a step. Tiles make the same few steps one after the
// other, and a source takes as long to make as a hundred normals.
func (w *worker) normals(step int) wordSource {
	s := &w.sources[step%len(w.sources)]
	if s.words == nil || s.step != step {
		*s = stepSource{step, w.g.source.source(w.g.keys[step].normals)}
	}
	return s.words
}

// room makes room for chunk steps of the panels [from, to), and returns the distance between
// panels.
func (w *worker) room(from, to, chunk int) (stride int) {
	stride = (w.g.history + chunk) * lanes
	w.rows = grow(w.rows, (to-from)*stride)
	w.words = grow(w.words, (to-from)*lanes)
	return stride
}

// tile makes all rows of the panels [from, to) from a step on, chunk steps at a time.
func (w *worker) tile(from, to, step, rows, chunk int, emit func(panel, row, steps int, values []float64) bool) bool {
	g := w.g
	stride := w.room(from, to, chunk)
	w.begin(from, to, step, stride)
	ok := w.correlated(from, to, step, rows, chunk, stride, emit)
	if g.noising.Feedback != nil {
		for p := from; p < to; p++ {
			copy(w.state(p), w.rows[(p-from)*stride:])
		}
	}
	return ok
}

// correlated makes the rows of a tile in which begin, or its substitute, has put the rows
// before step.
func (w *worker) correlated(from, to, step, rows, chunk, stride int, emit func(panel, row, steps int, values []float64) bool) bool {
	g := w.g
	first := 0 // where a chunk's results begin in a panel
	if g.noising.Feedback != nil {
		first = g.history
	}
	ok := true
	for row := 0; row < rows; row += chunk {
		steps := min(chunk, rows-row)
		for t := range steps {
			w.normalsRow(w.rows[(g.history+t)*lanes:], from, to, step+row+t, stride, nil, nil)
		}
		w.prepare(step+row, steps)
		for p := from; p < to; p += 2 {
			n := min(2, to-p)
			panels := w.rows[(p-from)*stride:][:n*stride]
			w.correlate(panels, p, n, stride, steps)
			for i := range n {
				panel := panels[i*stride:][:stride]
				ok = emit(p+i, row, steps, panel[first*lanes:][:steps*lanes]) && ok
				copy(panel[:g.history*lanes], panel[steps*lanes:])
			}
		}
	}
	return ok
}

// begin puts the rows before a step in front of each panel. For feedback these are the outputs that
// the generator has kept; for a filter, inputs that it makes again.
func (w *worker) begin(from, to, step, stride int) {
	g := w.g
	switch {
	case g.noising.Feedback != nil:
		for p := from; p < to; p++ {
			copy(w.rows[(p-from)*stride:], w.state(p))
		}
	default:
		for i := range g.history {
			if t := step - g.history + i; t >= 0 {
				w.normalsRow(w.rows[i*lanes:], from, to, t, stride, nil, nil)
				continue
			}
			for p := from; p < to; p++ {
				clear(w.rows[(p-from)*stride+i*lanes:][:lanes])
			}
		}
	}
}

// state returns the generator's state of a panel.
func (w *worker) state(panel int) []float64 {
	size := w.g.stateRows * lanes
	return w.g.state[panel*size:][:size]
}

// prepare lays out the coefficients of a chunk of steps.
func (w *worker) prepare(step, steps int) {
	g, n := w.g, w.g.noising
	if len(n.Gain) == 0 {
		return
	}
	w.gain = grow(w.gain, steps)
	w.coef = grow(w.coef, steps*g.history)
	for t := range steps {
		w.gain[t] = at(n.Gain, step+t)
		if n.Feedback == nil {
			continue
		}
		c, f := w.coef[t*g.history:][:g.history], at(n.Feedback, step+t)
		clear(c)
		for j, v := range f {
			c[g.history-1-j] = v
		}
	}
}

// correlate turns the normals of n panels from p on into the correlated rows.
func (w *worker) correlate(panels []float64, p, n, stride, steps int) {
	g := w.g
	switch {
	case g.noising.Gain != nil:
		g.arithmetic.feedback(panels, n, stride, g.history, steps, w.gain, w.coef)
	case g.noising.Filter != nil:
		g.arithmetic.filter(panels, n, stride, steps, g.filter)
	default:
		state := g.state[p*g.stateRows*lanes:][:n*g.stateRows*lanes]
		g.arithmetic.buffers(panels, n, stride, steps, state, g.minusScales, g.noising.Decays)
	}
}

// normalsRow puts the normals of a step for the panels [from, to) into dst, stride values from
// panel to panel. normals explains soon and later.
func (w *worker) normalsRow(dst []float64, from, to, step, stride int, soon, later []float64) {
	pair := uint64(w.g.base/2) + uint64(from)*(lanes/2)
	words := w.words[:(to-from)*lanes]
	w.normals(step).Words(words, uint64(step), pair)
	a := w.g.arithmetic
	if !a.normals(dst, stride, words, soon, later) {
		return
	}
	for i := 0; i < len(words); i += 2 {
		if words[i] < a.shortWord() {
			r := a.tailRadius(w.g.source.source(w.g.keys[step].tails), words[i], uint64(step), pair+uint64(i/2))
			cs, sn := a.circle(words[i+1])
			at := i/lanes*stride + i%lanes
			dst[at], dst[at+1] = r*cs, r*sn
		}
	}
}

// grow returns a slice of n elements, in the memory of s if that is large enough. Its contents are
// arbitrary.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
