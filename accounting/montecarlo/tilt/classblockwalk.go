package tilt

import (
	"math"

	"minsep/accounting/montecarlo/internal/kernel"
)

// classBlockWalker draws tuples by a table of F5.9: from the true state, a set of free replicas
// takes part with the probability term·V̂(state after)/V̂(state), and with what is missing to 1 the
// walk ends without a tuple. A tuple comes out with probability Π π(x_j) exp(Σ_{j<k}
// ⟨Cx_j,Cx_k⟩/σ²)/N̂. It is not safe for concurrent use.
type classBlockWalker struct {
	t      *classBlocks
	left   []int // participations of every replica
	last   []int // step of its last one
	labels []uint16
}

// notYet is the last participation of a replica that has none.
const notYet = math.MinInt32

func (s classBlockSource) weightedWalker() func(hits []kernel.Hit, u *uniforms) ([]kernel.Hit, float64) {
	t := s.table
	w := &classBlockWalker{t: t, left: make([]int, t.theta), last: make([]int, t.theta), labels: make([]uint16, t.theta)}
	return w.walk
}

func (s classBlockSource) walker() func(hits []kernel.Hit, u *uniforms) []kernel.Hit {
	panic("tilt: tuples of blocks have weights")
}

// value is V̂ of the replicas before step i, in units of 2^exp2.
func (w *classBlockWalker) value(i, exp2 int) float64 {
	t := w.t
	if i >= t.distribution.Steps {
		return math.Ldexp(1, -exp2)
	}
	block := i / t.size
	for l, class := range w.left {
		w.labels[l] = uint16(class)
		if w.last[l] == notYet {
			continue
		}
		if d := t.interval(block, w.last[l]); d >= 0 {
			w.labels[l] = uint16(t.label(d, class))
		}
	}
	return t.held(block, i-block*t.size, w.labels, exp2)
}

// held is V̂ of labels before a step of a block, in units of 2^exp2.
func (t *classBlocks) held(block, r int, labels []uint16, exp2 int) float64 {
	layer := t.layers[block]
	state := t.rank(labels)
	v := layer.after[state]
	if place := layer.shape.place[state]; place >= 0 {
		v = layer.rows[r][place]
	}
	return math.Ldexp(float64(v), layer.exp2-exp2)
}

// exp2 is the unit of V̂ before a step.
func (w *classBlockWalker) exp2(i int) int { return w.t.layers[i/w.t.size].exp2 }

// walk sets hits[:0] to a tuple, of weight 1, or ends without one: the weight then is 0.
func (w *classBlockWalker) walk(hits []kernel.Hit, u *uniforms) ([]kernel.Hit, float64) {
	t := w.t
	hits = hits[:0]
	w.start(u)
	for i := 0; i < t.distribution.Steps; {
		end := t.distribution.Steps
		for l, last := range w.last {
			if w.left[l] > 0 && last != notYet && last+t.distribution.MinSep > i {
				end = min(end, last+t.distribution.MinSep)
			}
		}
		if i = w.quiet(i, end, u.float64()); i == end {
			continue
		}
		times := w.choose(i, u.float64())
		if times == 0 {
			return hits[:0], 0
		}
		hits = append(hits, kernel.Hit{Step: i, Times: times})
		i++
	}
	return hits, 1
}

// start draws the classes before the first step, one replica after another.
func (w *classBlockWalker) start(u *uniforms) {
	t := w.t
	for l := range w.last {
		w.last[l] = notYet
	}
	most, _ := t.distribution.Starts()
	first := func(labels []uint16) float64 { return t.held(0, 0, labels, t.layers[0].exp2) }
	known := make([]int, 0, t.theta)
	for l := range t.theta {
		class := t.distribution.Most
		if most < 1 {
			if all := t.total(first, known); u.float64()*all >= most*t.total(first, append(known, class)) {
				class--
			}
		}
		known = append(known, class)
		w.left[l] = class
	}
}

// free says whether a replica may take part at a step.
func (w *classBlockWalker) free(l, i int) bool {
	return w.left[l] > 0 && (w.last[l] == notYet || i-w.last[l] >= w.t.distribution.MinSep)
}

// quiet returns the step of the next participation from step i on, or of the end of the walk, or
// end when there is none before it. Until end no replica becomes free.
func (w *classBlockWalker) quiet(i, end int, u float64) int {
	t := w.t
	exp2 := w.exp2(i)
	from := w.value(i, exp2)
	return lastAlive(i, end, func(k int) bool {
		survive := 1.0
		for l, class := range w.left {
			if w.free(l, i) {
				survive *= t.distribution.Quiet(class, i, k)
			}
		}
		return survive > 0 && survive*w.value(k, exp2)/from >= u
	})
}

// choose lets replicas take part at step i, at least one, and returns how many; 0 ends the walk. It
// is given that something happens at this step.
func (w *classBlockWalker) choose(i int, u float64) (times int) {
	t := w.t
	exp2 := w.exp2(i)
	overlap, free := 0.0, 0
	for l, last := range w.last {
		if w.free(l, i) {
			free |= 1 << l
		} else if last != notYet {
			overlap += t.overlaps.between(last, i)
		}
	}
	before := w.value(i, exp2)
	var left, last [maxClassBlockOrder]int
	copy(left[:], w.left)
	copy(last[:], w.last)
	x := before // of what remains; the empty set comes first, and is known not to be drawn
	for subset := range 1 << t.theta {
		if subset&^free != 0 {
			continue
		}
		weight, count := 1.0, 0
		for l := range w.left {
			w.left[l], w.last[l] = left[l], last[l]
			switch h := t.distribution.Hazard(left[l], i); {
			case free>>l&1 == 0:
			case subset>>l&1 == 1:
				weight *= h
				count++
				w.left[l], w.last[l] = left[l]-1, i
			default:
				weight *= 1 - h
			}
		}
		pairs := float64(count * (count - 1) / 2)
		term := weight * math.Exp(float64(count)*overlap+pairs*t.norms[i]) * w.value(i+1, exp2)
		if subset == 0 {
			x = u * max(0, before-term)
			continue
		}
		if x -= term; term > 0 && x < 0 {
			return count
		}
	}
	return 0
}
