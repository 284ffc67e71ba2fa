package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/montecarlo/internal/likelihood"
)

// TestRotationAgainstLogDomain holds every lane to the log-domain ratio at the same y, with periods
// below, at and above the blocks, the bands and the run, and noise so small that the linear scale
// is refused.
func TestRotationAgainstLogDomain(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 2))
	modes := map[string]int{}
	for _, n := range []int{1, 2, 7, 191, 192, 193, 400, 1000} {
		for _, w := range []int{1, 2, 5, 17, 40} {
			for _, length := range []int{w, w + 1, w + 3, 2*w - 1, 2 * w, 3 * w, 64, 192, 250, n, n + 1, 3 * n} {
				if w > n || length < w {
					continue
				}
				sigma := []float64{0.06, 0.1, 0.25, 0.6, 2}[rng.IntN(5)]
				c := likelihood.Toeplitz(n, sqrtColumn(w))
				if rng.IntN(3) == 0 {
					c = general(c)
				}
				p := likelihood.Periods{Steps: n, Period: length}
				l := likelihood.NewRotation(p, c, 1/(sigma*sigma))
				k := New(c, sigma, l)
				in := &Input{Bulk: testBulk(), Number: rng.Uint64(), Hits: randomHits(rng, n, 1+n/(2*w))}
				var out Output
				k.Batch(in, &out)
				switch r := k.recursions[0].fast; {
				case r == nil:
					modes["log domain"]++
				case k.walkFast(in, &out, []int{0}, k.reach(in) > r.Limit()) != nil:
					modes["refused"]++
				case k.reach(in) > r.Limit():
					modes["checked"]++
				default:
					modes["unchecked"]++
				}
				k.Batch(in, &out)
				name := fmt.Sprintf("n=%d w=%d σ=%g %+v", n, w, sigma, p)
				for lane := range Lanes {
					compare(t, name, out.LogRatio[0][lane], likelihood.LogRatio(l, c, sigma, k.Outputs(in, lane)))
				}
			}
		}
	}
	t.Log(modes)
	if modes["refused"] < 5 || modes["checked"] < 5 || modes["unchecked"] < 100 {
		t.Errorf("modes %v: not all were tested", modes)
	}
}

// TestRotationReset: nothing that is left in the buffers reaches a result.
func TestRotationReset(t *testing.T) {
	const n, w, length = 70, 9, 13 // the last period has five steps
	c := likelihood.Toeplitz(n, sqrtColumn(w))
	clean := newRotation(likelihood.NewRotation(likelihood.Periods{Steps: n, Period: length}, c, 1))
	poisoned := clean.Fork().(*rotation)
	for _, start := range []*periodStart{&poisoned.next, &poisoned.here} {
		for _, rows := range [][]Row{start.u, start.joins[w:]} { // joins begin with rows of zeros
			for i := range rows {
				for l := range rows[i] {
					rows[i][l] = math.Inf(1)
				}
			}
		}
	}
	rows := make([]Row, n)
	for i := range rows {
		for l := range rows[i] {
			rows[i][l] = math.Sin(float64(i * (l + 2)))
		}
	}
	var want, got Row
	for r, into := range map[Recursion]*Row{clean: &want, poisoned: &got} {
		if r.Reset(); !r.Rows(0, rows, true) {
			t.Fatal("refused")
		}
		r.LogRatio(into)
	}
	if got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestRotationForgets: results of a kernel before, be they out of range, change no bit.
func TestRotationForgets(t *testing.T) {
	const n, w, length, sigma = 300, 20, 27, 0.12
	c := likelihood.Toeplitz(n, sqrtColumn(w))
	l := likelihood.NewRotation(likelihood.Periods{Steps: n, Period: length}, c, 1/(sigma*sigma))
	used, rng := New(c, sigma, l), rand.New(rand.NewPCG(3, 4))
	for number := range uint64(40) {
		in := &Input{Bulk: testBulk(), Number: number}
		if number%2 == 1 {
			in.Hits = randomHits(rng, n, 40)
		}
		var got, want Output
		used.Batch(in, &got)
		New(c, sigma, l).Batch(in, &want)
		if got.LogRatio[0] != want.LogRatio[0] {
			t.Fatalf("batch %d: %v, want %v", number, got.LogRatio[0], want.LogRatio[0])
		}
	}
}
