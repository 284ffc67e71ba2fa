package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/mechanism"
	"minsep/sampling"
)

// both runs f with vector instructions and without, and requires the same bits, but for what is
// not a number.
func both(t *testing.T, what string, f func() []Row) {
	t.Helper()
	if !useVector {
		t.Skip("this processor has no vector instructions that the kernels know")
	}
	defer func() { useVector = true }()
	vector := f()
	useVector = false
	portable := f()
	same := func(a, b Row) bool {
		for l := range a {
			if math.Float64bits(a[l]) != math.Float64bits(b[l]) && !(math.IsNaN(a[l]) && math.IsNaN(b[l])) {
				return false
			}
		}
		return true
	}
	for i := range vector {
		if !same(vector[i], portable[i]) {
			t.Errorf("%s: row %d: %v, portable %v", what, i, vector[i], portable[i])
			return
		}
	}
}

// randomRows are normal, with few or many corners among them: zeros and numbers below the normal
// ones, and sometimes large ones, or infinities and NaN, which loops must pass on.
func randomRows(rng *rand.Rand, n int) []Row {
	rows := make([]Row, n)
	corners := []float64{0, math.Copysign(0, -1), 1, 5e-324, -0x1p-1060}
	switch rng.IntN(4) {
	case 0:
		corners = append(corners, 1e300, -1e300)
	case 1:
		corners = append(corners, math.Inf(1), math.Inf(-1), math.NaN())
	}
	every := []int{2, 20, 200}[rng.IntN(3)]
	for i := range rows {
		for l := range rows[i] {
			rows[i][l] = rng.NormFloat64()
			if rng.IntN(every) == 0 {
				rows[i][l] = corners[rng.IntN(len(corners))]
			}
		}
	}
	return rows
}

func randomValues(rng *rand.Rand, n int) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = rng.NormFloat64()
	}
	return values
}

// TestInnerLoopsAgree compares each inner loop at every length around its unrolling; rows it must
// not touch are compared too.
func TestInnerLoopsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	corners := []uint64{0, 1, math.MaxUint64, 1 << 63, 1<<12 - 1, 1 << 12, ^uint64(1<<12 - 1), ^uint64(1<<13 - 1), 0x95f619980c433000, 0x95f619980c432fff}
	for n := range 35 {
		words := make([]uint64, Lanes*n)
		for i := range words {
			words[i] = rng.Uint64()
			if rng.IntN(4) == 0 {
				words[i] = corners[rng.IntN(len(corners))]
			}
		}
		rows, t0, a := randomRows(rng, n+3), randomRows(rng, n+3), randomValues(rng, n+1)
		for i := range t0 {
			for l := range t0[i] {
				t0[i][l] = (2*rng.Float64() - 1) * (maxExponent - 5)
			}
		}
		name := func(what string) string { return fmt.Sprintf("%s of %d rows", what, n) }
		both(t, name("normals"), func() []Row {
			z := slices.Clone(rows)
			normalRows(z[:n], words)
			return z
		})
		both(t, name("powers of 2"), func() []Row {
			e := slices.Clone(rows)
			exp2Rows(e, t0[:n])
			return e
		})
		for _, apart := range []int{0, 1, 3, -4} {
			if n == 0 {
				continue
			}
			f0, jump := randomRows(rng, 8*n+4), randomRows(rng, 1)[0]
			stay := []float64{1, 0.7}[rng.IntN(2)]
			both(t, name("turns"), func() []Row {
				f := slices.Clone(f0)
				turnRows(f, 1, n+2, 3*n+max(0, -apart*(n-1)), apart, a[:n], &jump, stay)
				return f
			})
		}
		for taps := 1; taps < 12; taps++ {
			z, filter := randomRows(rng, n+taps), randomValues(rng, taps)
			both(t, name(fmt.Sprintf("correlation with %d taps", taps)), func() []Row {
				out := slices.Clone(rows)
				correlateRows(out[:n], z, filter)
				correlateRow(&out[n+1], z, filter)
				return out
			})
		}
	}
	for _, size := range []int{16, 16, 16, 64, 64, 256, 256, 1024} {
		x, filter := randomRows(rng, size+1), randomValues(rng, 9)
		transform := newTransform(size, filter)
		both(t, fmt.Sprintf("transform of %d rows", size), func() []Row {
			y := slices.Clone(x)
			transform.correlate(y[:size], transform.spectrum)
			return y
		})
	}
}

// TestBetween: the corners of an interval, NaN and infinities, in every lane of every row.
func TestBetween(t *testing.T) {
	check := func() {
		for n := range 4 {
			for at := range n * Lanes {
				for v, want := range map[float64]bool{
					-2: true, 3: true, 0: true, math.Nextafter(-2, -3): false, math.Nextafter(3, 4): false,
					math.NaN(): false, math.Inf(1): false, math.Inf(-1): false,
				} {
					x := make([]Row, n+1)
					x[n][0] = 10 // not to be looked at
					x[at/Lanes][at%Lanes] = v
					if got := between(x[:n], -2, 3); got != want {
						t.Errorf("vector %v: %g in lane %d of %d rows: %v", useVector, v, at, n, got)
					}
				}
			}
		}
	}
	defer func(v bool) { useVector = v }(useVector)
	check()
	useVector = false
	check()
}

// randomProblem is a kernel and the input of a batch, of any ratio that has inner loops.
func randomProblem(rng *rand.Rand, n, bands int) (string, func() *Kernel, *Input) {
	kinds := []string{"toeplitz", "toeplitz", "normalized", "general"}
	kind := kinds[rng.IntN(len(kinds))]
	bands = min(bands, n)
	if kind == "general" {
		bands = min(bands, 40)
	}
	c := likelihood.Toeplitz(n, sqrtColumn(bands))
	switch kind {
	case "general":
		c = general(c)
	case "normalized":
		c = likelihood.NewColumns(&mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: n, Toeplitz: sqrtColumn(bands), Normalized: true})
	}
	sigma := []float64{0.1, 0.25, 0.6, 2}[rng.IntN(4)]
	p := sampling.BMinSep{Steps: n, MinSep: bands + rng.IntN(3), Prob: []float64{1e-4, 0.01, 0.1, 0.7}[rng.IntN(4)], WarmStart: rng.IntN(2) == 0}
	in := &Input{Bulk: testBulk(), Number: rng.Uint64()}
	if rng.IntN(2) == 0 {
		in.Hits = randomHits(rng, n, 1+n/(2*bands))
	}
	epoch := p.MinSep + rng.IntN(1+[]int{2, 3 * bands, n}[rng.IntN(3)])
	project := rng.IntN(2) == 0
	newKernel := func() *Kernel {
		ratios := []likelihood.Ratio{ratioOf(p.Law(), c, sigma), ratioOf(sampling.EpochMinSep{Steps: n, MinSep: p.MinSep, EpochSteps: epoch}.Law(), c, sigma)}
		if bands <= 30 {
			ratios = append(ratios, ratioOf(sampling.Rotation{Steps: n, EpochSteps: epoch}.Law(), c, sigma))
		}
		k := New(c, sigma, ratios...)
		if project {
			k.Project = sqrtColumn(n)
		}
		return k
	}
	return fmt.Sprintf("%s, %d bands, σ = %g, %+v, epochs of %d", kind, bands, sigma, p, epoch), newKernel, in
}

func batchesAgree(t *testing.T, rng *rand.Rand, n, bands int) {
	t.Helper()
	name, newKernel, in := randomProblem(rng, n, bands)
	both(t, name, func() []Row {
		var out Output
		newKernel().Batch(in, &out)
		return append(out.LogRatio, out.Projection)
	})
}

// TestBatchesAgree: whole batches of random problems have the same bits with vector instructions
// and without.
func TestBatchesAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 2))
	problems := 150
	if testing.Short() {
		problems = 30
	}
	for range problems {
		n, bands := 1+rng.IntN(2000), 1+rng.IntN(300)
		if rng.IntN(2) == 0 {
			n, bands = 1+rng.IntN(40), 1+rng.IntN(30)
		}
		batchesAgree(t, rng, n, bands)
	}
}

func FuzzBatchesAgree(f *testing.F) {
	f.Add(uint64(1), 7, 3)
	f.Add(uint64(2), 193, 25)
	f.Add(uint64(3), 2000, 300)
	f.Fuzz(func(t *testing.T, seed uint64, n, bands int) {
		if n < 1 || n > 3000 || bands < 1 || bands > 400 {
			return
		}
		batchesAgree(t, rand.New(rand.NewPCG(seed, 7)), n, bands)
	})
}

// TestIDAgrees: a ledger may be finished on a processor without vector instructions.
func TestIDAgrees(t *testing.T) {
	defer func(v bool) { useVector = v }(useVector)
	want := newID()
	useVector = false
	if got := newID(); got != want {
		t.Errorf("%s, portable %s", want, got)
	}
}
