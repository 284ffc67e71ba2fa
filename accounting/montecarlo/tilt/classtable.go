package tilt

import (
	"fmt"
	"math"

	"minsep/sampling/balanced"
)

// classTable holds V_i(S) of F5.5k: what F5.3 is for b-min-sep, for balanced min-sep (F3.9), whose
// replicas have participations left.
//
// Before step i a replica has a class, its participations left, and r = 0 … b-1 blocked steps left:
// its label is class·b + r. A state has a free replica, by its class, and the labels of the others
// in descending order; when all are blocked nothing happens until the first is free, and the state
// then, so many steps later, stands for it. Replicas of class 0 have the hazard 0.
//
// Slice i is held as slice[i][S] · 2^exp2[i].
type classTable struct {
	distribution *balanced.Distribution
	steps, sep   int
	theta        int
	gram         *gram
	binomial     multisets // of labels
	rests        int       // multisets of the labels of θ-1 replicas
	states       []classState
	moves        []move // of a state: for every subset of its free replicas, as bits, the one that takes part
	slice        [][]float64
	exp2         []int
	lnN          float64 // ln N_θ, not yet rounded upward

	gamma, row, hazard []float64
	self               []float64 // e^{j(j-1)/2 ‖c_i‖²/σ²}
	ahead              [][]float64
	factor             []float64
}

// classState is a state: the classes of its free replicas, and the blocked steps of the others.
type classState struct {
	first   uint32
	free    uint8
	classes [maxOrder]uint16
	blocked [maxOrder]uint16
}

// newClassTable runs the recursion backward within maxBytes. With keep it can be walked; else only
// lnN is good.
func newClassTable(l *balanced.Distribution, theta int, g *gram, keep bool, maxBytes int) (*classTable, error) {
	if bytes := classBytes(l, theta, keep); bytes > float64(maxBytes) {
		return nil, fmt.Errorf("%w: order %d at %d steps, min-sep %d and %d participations takes %.3g MB, more than %.3g", ErrTable, theta, l.Steps, l.MinSep,
			l.Most, bytes/(1<<20), float64(maxBytes)/(1<<20))
	}
	n, b := l.Steps, l.MinSep
	t := &classTable{distribution: l, steps: n, sep: b, theta: theta, gram: g, slice: make([][]float64, n+1), exp2: make([]int, n+1),
		gamma: make([]float64, b), row: make([]float64, b), hazard: make([]float64, l.Most+1), self: make([]float64, theta+1),
		ahead: make([][]float64, b+1), factor: make([]float64, b+1)}
	t.makeStates()
	t.slice[n] = make([]float64, len(t.states))
	for s := range t.slice[n] {
		t.slice[n][s] = 1
	}
	var spare [][]float64
	for i := n - 1; i >= 0; i-- {
		if old := i + b + 1; !keep && old < n {
			spare, t.slice[old] = append(spare, t.slice[old]), nil
		}
		t.slice[i], spare = take(spare, len(t.states))
		t.step(i)
	}
	t.lnN = math.Log(t.total(nil)) + float64(t.exp2[0])*math.Ln2
	if math.IsNaN(t.lnN) || math.IsInf(t.lnN, 0) {
		return nil, fmt.Errorf("%w: order %d: the sums leave the range of float64", ErrTable, theta)
	}
	return t, nil
}

// countClassStates is the number of states of an order.
func countClassStates(l *balanced.Distribution, theta int) float64 {
	return float64(l.Most+1) * countStates(theta, (l.Most+1)*l.MinSep)
}

// countClassChoices is what the subsets of more than two free replicas of an order's states take,
// in states of others: f/2 for each of 2^f.
func countClassChoices(l *balanced.Distribution, theta int) (count float64) {
	blocked := (l.Most + 1) * (l.MinSep - 1)
	for f := 3; f <= theta; f++ {
		states := float64(l.Most+1) * choose(f-1+l.Most, f-1) * choose(blocked+theta-f-1, theta-f)
		count += states * math.Exp2(float64(f)) * float64(f) / 2
	}
	return count
}

// classBytes is about what a table takes.
func classBytes(l *balanced.Distribution, theta int, keep bool) float64 {
	count, slices := countClassStates(l, theta), l.Steps+1
	if !keep {
		slices = min(slices, l.MinSep+2)
	}
	return count*(8*float64(slices)+96) + 8*float64((l.Most+1)*l.MinSep*theta)
}

func (t *classTable) makeStates() {
	labels := (t.distribution.Most + 1) * t.sep
	t.binomial = newMultisets(t.theta, labels)
	t.rests = t.binomial[t.theta-1][labels]
	t.states = make([]classState, (t.distribution.Most+1)*t.rests)
	all, then := make([]int, t.theta), make([]int, t.theta)
	for class := range t.distribution.Most + 1 {
		eachDescending(all[1:], labels-1, func() {
			all[0] = class * t.sep
			s := &t.states[t.number(all)]
			s.first = uint32(len(t.moves))
			blocked := 0
			for _, label := range all {
				if r := label % t.sep; r > 0 {
					s.blocked[blocked] = uint16(r)
					blocked++
				} else {
					s.classes[s.free] = uint16(label / t.sep)
					s.free++
				}
			}
			for subset := range 1 << s.free {
				copy(then, all)
				lag := t.pass(then, subset)
				t.moves = append(t.moves, move{uint32(t.number(then)), uint32(lag)})
			}
		})
	}
}

// number is that of a state: of labels of which the first is free, and the others descend.
func (t *classTable) number(labels []int) int {
	return labels[0]/t.sep*t.rests + rank(t.binomial, t.theta-1, labels[1:])
}

// pass lets a subset of the free replicas, counted in the order of labels, take part and steps pass
// until one is free: it returns how many, and leaves the labels in the order of a state. A replica
// of class 0 in the subset stays free; that has the probability 0.
func (t *classTable) pass(labels []int, subset int) (lag int) {
	free := 0
	for l, label := range labels {
		switch {
		case label%t.sep > 0:
			labels[l]--
		case subset>>free&1 == 1 && label > 0:
			labels[l] = label - 1 // one class lower, b-1 steps blocked
			free++
		default:
			free++
		}
	}
	return 1 + t.settle(labels)
}

// settle lets steps pass until a replica is free, puts one that is first and the others in
// descending order, and returns how many.
func (t *classTable) settle(labels []int) (wait int) {
	wait = t.sep
	for _, label := range labels {
		wait = min(wait, label%t.sep)
	}
	first := 0
	for l := range labels {
		if labels[l]%t.sep == wait {
			first = l
		}
		labels[l] = max(labels[l]-wait, labels[l]/t.sep*t.sep)
	}
	labels[0], labels[first] = labels[first], labels[0]
	for l := 2; l < len(labels); l++ {
		for at := l; at > 1 && labels[at-1] < labels[at]; at-- {
			labels[at-1], labels[at] = labels[at], labels[at-1]
		}
	}
	return wait
}

// step computes slice i from the later ones (F5.5k).
func (t *classTable) step(i int) {
	t.prepare(i)
	t.exp2[i] = t.exp2[i+1]
	for lag := 1; lag <= t.sep; lag++ {
		to := min(i+lag, t.steps)
		t.ahead[lag], t.factor[lag] = t.slice[to], math.Ldexp(1, t.exp2[to]-t.exp2[i])
	}
	dst := t.slice[i]
	top := 0.0
	for number := range t.states {
		s := &t.states[number]
		gamma := 1.0
		for _, r := range s.blocked[:t.theta-int(s.free)] {
			gamma *= t.gamma[r]
		}
		moves := t.moves[s.first:]
		if s.free == 1 {
			h := t.hazard[s.classes[0]]
			stay, join := moves[0], moves[1]
			dst[number] = (1-h)*t.ahead[1][stay.number]*t.factor[1] + h*gamma*t.ahead[join.lag][join.number]*t.factor[join.lag]
		} else {
			sum := 0.0
			for subset := range 1 << s.free {
				if w := t.weight(s, subset, gamma); w > 0 {
					m := moves[subset]
					sum += w * t.ahead[m.lag][m.number] * t.factor[m.lag]
				}
			}
			dst[number] = sum
		}
		top = max(top, dst[number])
	}
	if top > 1e60 {
		_, shift := math.Frexp(top)
		for s := range dst {
			dst[s] = math.Ldexp(dst[s], -shift)
		}
		t.exp2[i] += shift
	}
}

// weight is the probability that a subset of the free replicas takes part, times the overlaps of
// their columns.
func (t *classTable) weight(s *classState, subset int, gamma float64) float64 {
	w, j := 1.0, 0
	for l, class := range s.classes[:s.free] {
		if h := t.hazard[class]; subset>>l&1 == 1 {
			w *= h * gamma
			j++
		} else {
			w *= 1 - h
		}
	}
	return w * t.self[j]
}

// prepare sets the constants of step i.
func (t *classTable) prepare(i int) { t.constants(i, t.row, t.gamma, t.hazard, t.self) }

func (t *classTable) constants(i int, row, gamma, hazard, self []float64) {
	t.gram.row(row, i)
	gamma[0] = 1
	for r := 1; r < t.sep; r++ {
		gamma[r] = math.Exp(row[t.sep-r])
	}
	for class := 1; class <= t.distribution.Most; class++ {
		hazard[class] = t.distribution.Hazard(class, i)
	}
	for j := range self {
		self[j] = math.Exp(float64(j*(j-1)/2) * row[0])
	}
}

// value is V of labels in the order of a state at a step, in units of 2^exp2.
func (t *classTable) value(labels []int, step, exp2 int) float64 {
	if step >= t.steps {
		return math.Ldexp(1, -exp2)
	}
	return math.Ldexp(t.slice[step][t.number(labels)], t.exp2[step]-exp2)
}

// total is the sum over the starts of the replicas of their probability times V, given the classes
// of the first ones, in units of 2^exp2[0].
func (t *classTable) total(known []int) float64 {
	if len(known) == t.theta {
		labels := make([]int, t.theta)
		for l, class := range known {
			labels[l] = class * t.sep
		}
		t.settle(labels)
		return t.value(labels, 0, t.exp2[0])
	}
	most, less := t.distribution.Starts()
	known = known[:len(known):len(known)]
	sum := most * t.total(append(known, t.distribution.Most))
	if less > 0 {
		sum += less * t.total(append(known, t.distribution.Most-1))
	}
	return sum
}

// roundingBound bounds the relative error of N_θ, as that of table does.
func (t *classTable) roundingBound() float64 {
	theta := float64(t.theta)
	overlaps := theta * (theta - 1) * math.Ceil(float64(t.steps)/float64(t.sep))
	most := 0.0
	for _, norm := range t.gram.columns.SquaredNorms(t.gram.factor) {
		most = max(most, norm)
	}
	return (float64(t.steps)*(4*theta+16) + overlaps*most*float64(t.gram.columns.Bands+8)) * 0x1p-53
}
