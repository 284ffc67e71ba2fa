package law

import (
	"math"

	"minsep/sampling/balanced"
)

// Balanced is balanced min-sep (F3.9): an example has participations left, its class. Label class·b
// + r has r steps to wait; class 0 is free and has the hazard 0.
type Balanced struct {
	Plain
	*balanced.Distribution
}

func (l Balanced) Labels() int { return l.Most*l.MinSep + 1 }

func (l Balanced) Free(label int) bool { return label%l.MinSep == 0 }

func (l Balanced) Starts() (starts []Start, drawn bool) {
	most, less := l.Distribution.Starts()
	return []Start{{l.Most * l.MinSep, most, math.Log(most), 0}, {(l.Most - 1) * l.MinSep, less, math.Log(less), 0}}, less > 0
}

func (l Balanced) Hazard(label, step int) float64 {
	if label == 0 {
		return 0
	}
	return l.Distribution.Hazard(label/l.MinSep, step)
}

func (l Balanced) Quiet(label, from, to int) float64 {
	return l.Distribution.Quiet(label/l.MinSep, from, to)
}

func (l Balanced) Age(label int) int {
	if r := label % l.MinSep; r > 0 {
		return l.MinSep - r
	}
	return 0
}

// Enter goes to one class lower and b-1 steps to wait with a participation: label class·b - 1.
func (l Balanced) Enter(label, _ int, takes bool) int {
	if takes && label > 0 || label%l.MinSep > 0 {
		return label - 1
	}
	return label
}

func (l Balanced) FreeAt(label, step int) int { return step + label%l.MinSep }

func (l Balanced) Pass(label, from, to int) int {
	return max(label-to+from, label/l.MinSep*l.MinSep)
}

func (l Balanced) Unmet(i int) (from, to int) { return i + l.MinSep, i + l.MinSep + 1 }
