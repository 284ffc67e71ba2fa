package law

import "math"

// Epochs is epoch min-sep (F3.8): an example takes part once in each epoch of T steps. Labels r = 1
// … b-1 have r steps to wait. An example that took part in this epoch then waits for the next one,
// with label b. An example with an age above the place of a step in its epoch took part in the
// epoch before.
type Epochs struct {
	sep     int       // b, at least 1
	steps   int       // T, at least b
	survive []float64 // Π (1-η) over the places before each, as far as the run goes
}

// NewEpochs is the law of a run of run steps, in epochs of steps steps, at least sep.
func NewEpochs(run, sep, steps int) Epochs {
	l := Epochs{sep: sep, steps: steps, survive: make([]float64, min(steps, run)+1)}
	l.survive[0] = 1
	for place := range min(steps, run) {
		l.survive[place+1] = l.survive[place] * (1 - l.Hazard(0, place))
	}
	return l
}

// Kinds of steps: the first of an epoch, one at which examples of the epoch before may become free,
// or a later one.
const (
	atStart = iota
	early
	late
	epochKinds
)

func (l Epochs) Labels() int { return l.sep + 1 }

func (l Epochs) Free(r int) bool { return r == 0 }

// Starts goes by age. With a min-sep of 1 there is one start, and a number is spent on it.
func (l Epochs) Starts() (starts []Start, drawn bool) {
	log := -math.Log(float64(l.steps))
	starts = []Start{{0, float64(l.steps-l.sep+1) / float64(l.steps), log + math.Log(float64(l.steps-l.sep+1)), 0}}
	for r := l.sep - 1; r > 0; r-- {
		starts = append(starts, Start{r, 1 / float64(l.steps), log, 0})
	}
	return starts, true
}

func (l Epochs) Hazard(_, step int) float64 {
	return 1 / float64(l.steps-max(step%l.steps, l.sep-1))
}

func (l Epochs) Quiet(_, from, to int) float64 {
	place := from % l.steps
	if place += to - from; place >= len(l.survive) { // nobody who is free lets an epoch pass
		return 0
	}
	if before := l.survive[place-(to-from)]; before > 0 {
		return l.survive[place] / before
	}
	return 0 // where T = b nobody free lets a step pass
}

func (l Epochs) Age(r int) int {
	if r == 0 || r == l.sep {
		return 0
	}
	return l.sep - r
}

func (l Epochs) Kind(step int) (kind, kinds int) {
	switch place := step % l.steps; {
	case place == 0:
		return atStart, epochKinds
	case place < l.sep:
		return early, epochKinds
	}
	return late, epochKinds
}

func (l Epochs) Enter(r, kind int, takes bool) int {
	switch {
	case takes:
		r = l.sep - 1
	case r == 0 || r == l.sep && kind != late:
		return 0
	case r < l.sep:
		r--
	}
	if r == 0 && kind == late {
		return l.sep
	}
	return r
}

func (l Epochs) FreeAt(r, step int) int {
	place := step % l.steps
	switch begins := step - place + l.steps; {
	case r == 0:
		return step
	case r == l.sep:
		return begins
	case l.sep-r > place: // of the epoch before
		return step + r
	default:
		return max(begins, step+r)
	}
}

func (l Epochs) Pass(r, from, to int) int {
	switch {
	case r < l.sep && r > to-from:
		return r - (to - from)
	case r == 0 || l.FreeAt(r, from) <= to:
		return 0
	}
	return l.sep
}

func (l Epochs) FreeUntil(step int) int { return step - step%l.steps + l.steps }

func (l Epochs) AllFreeAt(step int) int {
	place := step % l.steps
	if place >= l.sep && l.steps-place >= l.sep-1 {
		return step - place + l.steps
	}
	return -1
}

// Unmet leaves the first b steps of an epoch until the epoch before is done.
func (l Epochs) Unmet(i int) (from, to int) {
	switch {
	case i%l.steps == l.steps-1:
		return i + 1 + l.steps, i + 1 + l.steps + l.sep
	case (i+1)%l.steps >= l.sep:
		return i + 1, i + 2
	}
	return i, i
}
