package noise

// worker makes rows of a tile of panels at a time, for one goroutine.
type worker struct {
	g       *Generator
	sources []stepSource // of the last steps, that of step t at t mod their number
	words   []uint64
	rows    []float64 // of the panels of the tile
	coef    []float64 // feedback of a chunk, oldest first, [steps][history]
	gain    []float64
	scales  []float64 // of the row of a step, one for each panel of a tile
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

// advance makes the rows of a tile before a step, and keeps what later rows need.
func (w *worker) advance(tile, until int) {
	g := w.g
	from, to := g.panelsOf(tile)
	if g.slots == 0 {
		for step := g.step; step < until; step += chunkRows {
			w.rowsOf(from, to, step, min(chunkRows, until-step), func(int, []float64) {})
		}
		return
	}
	for g.next[tile] < until {
		w.ahead(tile, min(g.slots, until-g.next[tile]))
	}
}

// ahead makes the next rows of a tile with feedback, at most slots. The earlier rows are in the ring:
// a row takes the place of the oldest row that it needs, so that nothing is copied. Rows before step 0
// are zeros, as the new ring is.
func (w *worker) ahead(tile, rows int) {
	g := w.g
	step := g.next[tile]
	from, to := g.panelsOf(tile)
	width := g.tile * lanes
	w.rows = grow(w.rows, rows*width)
	w.words = grow(w.words, (to-from)*lanes)
	ring := g.ring[tile*g.slots*width:][:g.slots*width]
	for t := range rows {
		var later []float64
		if tile+1+t < g.tiles {
			later = g.row(tile+1+t, step)
		}
		w.normalsRow(w.rows[t*width:], from, to, step+t, lanes, ring[t*width:], later)
	}
	w.prepare(step, rows)
	if step == 0 {
		clear(ring) // zeros already, but memory that is read before it is written is mapped twice
	}
	g.arithmetic.feedback(ring, to-from, width, g.slots, step%g.slots, rows, w.rows, w.gain, w.coef)
	g.next[tile] = step + rows
}

// rowsOf makes rows of the panels [from, to) that need no earlier outputs, and calls emit for each
// panel with its part of them, or for all panels at once if there is one row and nothing before it.
func (w *worker) rowsOf(from, to, step, rows int, emit func(panel int, values []float64)) {
	g := w.g
	stride := w.room(from, to, rows)
	w.pastInputs(from, to, step, stride)
	for t := range rows {
		w.normalsRow(w.rows[(g.history+t)*lanes:], from, to, step+t, stride, nil, nil)
	}
	w.prepare(step, rows)
	together := 2
	if stride == lanes { // a single row: its panels lie side by side
		together = to - from
	}
	for p := from; p < to; p += together {
		n := min(together, to-p)
		panels := w.rows[(p-from)*stride:][:n*stride]
		w.correlate(panels, p, n, stride, rows)
		if stride == lanes {
			emit(p, panels)
			continue
		}
		for i := range n {
			emit(p+i, panels[i*stride:][:rows*lanes])
		}
	}
}

// pastInputs puts the inputs of a filter before a step in front of each panel: it makes them again.
func (w *worker) pastInputs(from, to, step, stride int) {
	for i := range w.g.history {
		if t := step - w.g.history + i; t >= 0 {
			w.normalsRow(w.rows[i*lanes:], from, to, t, stride, nil, nil)
			continue
		}
		for p := from; p < to; p++ {
			clear(w.rows[(p-from)*stride+i*lanes:][:lanes])
		}
	}
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

// correlate turns the normals of n panels from p on into the rows of noise.
func (w *worker) correlate(panels []float64, p, n, stride, rows int) {
	g := w.g
	switch {
	case g.noising.Gain != nil: // a single row
		if gain := w.gain[0]; gain != 1 {
			for i := range panels {
				panels[i] *= gain
			}
		}
	case g.noising.Filter != nil:
		g.arithmetic.filter(panels, n, stride, rows, g.filter)
	default:
		size := len(g.minusScales) * lanes
		g.arithmetic.buffers(panels, n, stride, rows, g.buffers[p*size:][:n*size], g.minusScales, g.noising.Decays)
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
