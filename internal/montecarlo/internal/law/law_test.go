package law_test

import (
	"fmt"
	"math"
	"testing"

	"minsep/internal/montecarlo/internal/law"
	"minsep/internal/montecarlo/internal/law/lawtest"
)

const steps = 40

// known is a law and its traits.
type known struct {
	law.Law
	sep    int  // of one free label: labels below it count down; else 0
	varies bool // the steps have different rates
}

func laws(t *testing.T) map[string]known {
	all := map[string]known{}
	for _, b := range []int{1, 2, 5} {
		for _, warm := range []bool{false, true} {
			all[fmt.Sprintf("b-min-sep %d, warm %v", b, warm)] = known{law.NewMinSep(b, .3, warm), b, !warm}
		}
		for _, epoch := range []int{b, b + 1, 2*b - 1, 3 * b, 17, 60} {
			all[fmt.Sprintf("epochs of %d, b = %d", epoch, b)] = known{law.NewEpochs(steps, b, epoch), b, false}
		}
		all[fmt.Sprintf("at most once, %d bands", b)] = known{law.NewOnce(steps, b, law.Single{First: .02, Ratio: 1, Never: 1 - steps*.02}), b, false}
		all[fmt.Sprintf("once, %d bands", b)] = known{law.NewOnce(steps, b, law.Single{First: 1. / steps, Ratio: 1, Never: 0}), b, false}
		all[fmt.Sprintf("at most once, %d bands, cold", b)] = known{law.NewOnce(steps, b, law.Single{First: .03, Ratio: .97, Never: math.Pow(.97, steps)}), b, true}
		all[fmt.Sprintf("tide, b = %d", b)] = known{lawtest.Tide{MinSep: b, Prob: .4}, 0, true}
	}
	return all
}

// forward follows the chain from its starts: the probabilities of labels before each step, and the
// rates of the steps.
func forward(l law.Law) (labels [][]float64, rates []float64) {
	labels, rates = make([][]float64, steps+1), make([]float64, steps)
	for i := range labels {
		labels[i] = make([]float64, l.Labels())
	}
	starts, _ := l.Starts()
	for _, s := range starts {
		labels[0][s.Label] += s.Prob
	}
	for i := range steps {
		kind, _ := l.Kind(i + 1)
		for x, p := range labels[i] {
			hazard := 0.0
			if l.Free(x) {
				hazard = l.Hazard(x, i)
			}
			rates[i] += p * hazard
			if stays := l.Enter(x, kind, false); l.Free(x) && stays != x {
				panic(fmt.Sprintf("%T: who is free with label %d goes to %d without a participation", l, x, stays))
			}
			labels[i+1][l.Enter(x, kind, true)] += p * hazard
			labels[i+1][l.Enter(x, kind, false)] += p * (1 - hazard)
		}
	}
	return labels, rates
}

// TestRates: the probabilities of labels stay a distribution, and where a law has equal rates, all
// steps have the same one.
func TestRates(t *testing.T) {
	for name, l := range laws(t) {
		labels, rates := forward(l)
		for i, row := range labels {
			sum := 0.0
			for _, p := range row {
				sum += p
			}
			if math.Abs(sum-1) > 1e-12 {
				t.Errorf("%s, step %d: labels have the probability %v", name, i, sum)
			}
		}
		for i, rate := range law.NewChain(l, steps).Rates() {
			if math.Abs(rate-rates[i]) > 1e-13 {
				t.Errorf("%s, step %d: rate %v of the chain, want %v", name, i, rate, rates[i])
			}
		}
		if l.varies {
			continue
		}
		for i, rate := range rates {
			if math.Abs(rate/rates[0]-1) > 1e-10 {
				t.Errorf("%s, step %d: rate %v, that of the first step is %v", name, i, rate, rates[0])
			}
		}
	}
}

// TestShortcuts holds whatever leaps over steps against going step by step.
func TestShortcuts(t *testing.T) {
	for name, l := range laws(t) {
		labels, _ := forward(l)
		for i, row := range labels[:steps] {
			for x, p := range row {
				if p > 0 {
					checkShortcuts(t, fmt.Sprintf("%s, step %d, label %d", name, i, x), l, x, i)
				}
			}
		}
	}
}

func checkShortcuts(t *testing.T, name string, l law.Law, start, from int) {
	quiet, x, wait := 1.0, start, !l.Free(start)
	if !wait && l.FreeAt(start, from) != from {
		t.Errorf("%s: free at %d", name, l.FreeAt(start, from))
	}
	for to := from; to < steps; to++ {
		if got := l.Pass(start, from, to); got != x && quiet > 0 {
			t.Fatalf("%s: label %d before step %d, want %d", name, got, to, x)
		}
		if !l.Free(start) && l.Free(x) && wait {
			wait = false
			if got := l.FreeAt(start, from); got != to {
				t.Errorf("%s: free at %d, want %d", name, got, to)
			}
			if at := l.AllFreeAt(from); at >= 0 && at != to {
				t.Errorf("%s: all are free at %d, this one at %d", name, at, to)
			}
		}
		if l.Free(start) && to > from {
			if got := l.Quiet(start, from, to); math.Abs(got-quiet) > 1e-13 {
				t.Errorf("%s: no participation up to step %d has the probability %v, want %v", name, to, got, quiet)
			}
			if to >= l.FreeUntil(from) && quiet > 0 {
				t.Errorf("%s: is free till step %d, at most to %d", name, to, l.FreeUntil(from))
			}
		}
		kind, _ := l.Kind(to + 1)
		if l.Free(x) {
			if !l.Free(start) { // from here on it may take part
				return
			}
			quiet *= 1 - l.Hazard(x, to)
		}
		x = l.Enter(x, kind, false)
	}
}

// TestOneFreeLabel: laws of one free label have the labels that tables count on: those of the last
// b-1 steps count down.
func TestOneFreeLabel(t *testing.T) {
	for name, l := range laws(t) {
		labels, _ := forward(l)
		for i, row := range labels[:steps] {
			for x := 1; x < l.sep; x++ {
				if row[x] == 0 {
					continue
				}
				if l.Age(x) != l.sep-x {
					t.Errorf("%s, label %d: age %d, want %d", name, x, l.Age(x), l.sep-x)
				}
				for d := range min(x, steps-i) {
					if got := l.Pass(x, i, i+d); got != x-d {
						t.Errorf("%s, label %d before step %d: %d after %d steps", name, x, i, got, d)
					}
				}
			}
		}
	}
}

// TestUnmet: nobody who waits before step i becomes free at a step that is met no more.
func TestUnmet(t *testing.T) {
	for name, l := range laws(t) {
		labels, _ := forward(l)
		gone := map[int]bool{}
		for i := steps - 1; i >= 1; i-- {
			for from, to := l.Unmet(i); from < min(to, steps); from++ {
				gone[from] = true
			}
			for x, p := range labels[i] { // read before step i is computed from
				if at := l.FreeAt(x, i); p > 0 && !l.Free(x) && at < steps && gone[at] {
					t.Errorf("%s: step %d is gone before step %d, where label %d waits for it", name, at, i, x)
				}
			}
		}
	}
}
