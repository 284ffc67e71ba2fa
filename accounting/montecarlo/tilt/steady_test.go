package tilt

import (
	"math"
	"testing"

	"minsep/accounting/montecarlo/internal/kernel"
	"minsep/internal/stattest"
	"minsep/sampling/stream"
)

// reject9 is the one-sided normal quantile of a false-reject probability of 1e-9.
const reject9 = 5.998

// steadyTables makes one table with every slice and one that may hold few, so that it uses the
// steady rate.
func steadyTables(t *testing.T, warm, keep bool) (whole, steady *tuples) {
	t.Helper()
	p := newProcess(toeplitz(250, 1, .6, .4), 4, .1, warm, .7)
	whole, err := newTable(p, 3, true, maxTableBytes)
	if err != nil {
		t.Fatal(err)
	}
	steady, err = newTable(p, 3, keep, 8*10*12+8)
	if err != nil {
		t.Fatal(err)
	}
	if whole.steady >= 0 || steady.steady < 0 {
		t.Fatal("the tables were not made as the test needs them")
	}
	return whole, steady
}

func TestSteadyRateGivesTheSameNormaliser(t *testing.T) {
	for _, warm := range []bool{false, true} {
		for _, keep := range []bool{false, true} {
			whole, steady := steadyTables(t, warm, keep)
			if diff := steady.lnN - whole.lnN; diff < -1e-13 || diff > 1e-10 || diff > steady.spread+1e-13 {
				t.Errorf("warm=%v keep=%v: ln N %v and %v: the steady rate must be above by at most %g", warm, keep, whole.lnN, steady.lnN, steady.spread)
			}
			if limit := 1e-11; steady.residual > limit {
				t.Errorf("warm=%v: residual %g above %g", warm, steady.residual, limit)
			}
		}
	}
}

// TestSteadyWalkEqualsTheWholeTable draws from both tables and compares three statistics that cover
// the head, the middle and the joint with the tail.
func TestSteadyWalkEqualsTheWholeTable(t *testing.T) {
	const draws = 8000
	statistic := map[string]func(hits []kernel.Hit) int{
		"first": func(h []kernel.Hit) int { return h[0].Step*4 + h[0].Times },
		"last":  func(h []kernel.Hit) int { return (250-h[len(h)-1].Step)*4 + h[len(h)-1].Times },
		"count": func(h []kernel.Hit) int {
			n := 0
			for _, x := range h {
				n += x.Times * x.Times
			}
			return n
		},
		"joint": func(h []kernel.Hit) int {
			n := 0
			for _, x := range h {
				if x.Step >= 250-6 && x.Step < 250-4 {
					n += x.Times
				}
			}
			return n
		},
	}
	collect := func(table *tuples, label string) map[string]map[int]float64 {
		seen := map[string]map[int]float64{}
		for name := range statistic {
			seen[name] = map[int]float64{}
		}
		u := &uniforms{bulk: stream.NewBulk(stream.PublicKey(label, nil))}
		w := newWalker(table)
		var hits []kernel.Hit
		for i := range draws {
			u.reset(uint64(i))
			hits = w.walk(hits, u)
			if len(hits) == 0 {
				continue
			}
			for name, f := range statistic {
				seen[name][f(hits)]++
			}
		}
		return seen
	}
	// deviation is the two-sample chi-square statistic as a normal deviate (Wilson and Hilferty).
	deviation := func(a, b map[int]float64) float64 {
		stat, cells, restA, restB := 0.0, -1.0, 0.0, 0.0
		for k, x := range a {
			if y := b[k]; x+y >= 40 {
				stat += (x - y) * (x - y) / (x + y)
				cells++
			} else {
				restA, restB = restA+x, restB+y
			}
		}
		if restA+restB > 40 {
			stat += (restA - restB) * (restA - restB) / (restA + restB)
			cells++
		}
		return (math.Cbrt(stat/cells) - (1 - 2/(9*cells))) / math.Sqrt(2/(9*cells))
	}
	for _, warm := range []bool{false, true} {
		whole, steady := steadyTables(t, warm, true)
		a, b := collect(whole, "whole"), collect(steady, "steady")
		for name := range statistic {
			if dev := deviation(a[name], b[name]); dev > reject9 {
				t.Errorf("warm=%v: %s: %.1f standard deviations apart", warm, name, dev)
			}
		}
		if !stattest.Long() {
			continue
		}
		steady.accept = math.Inf(-1) // a wrong twin: nothing is rejected at the joint
		b = collect(steady, "steady")
		if dev := deviation(a["joint"], b["joint"]); dev < reject9 {
			t.Errorf("warm=%v: the test accepts a walk that ignores the joint (%.1f)", warm, dev)
		}
	}
}
