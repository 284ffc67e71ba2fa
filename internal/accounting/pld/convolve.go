package pld

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/dsp/fourier"
)

// Bounds on the effect of rounding on the figures of this package.
const (
	unit = 0x1p-53
	// atomError bounds the relative error of one atom's mass: quadrature, tilting, sums.
	atomError = 1e-11
	// fftError bounds the error of one transform for each doubling of its length: of the 2-norm,
	// relative to the result's, and of any one coefficient, relative to the input's 1-norm. Higham
	// 2002, theorem 24.2, has 7 units for radix 2 and correctly rounded roots of unity. The rest is
	// for the error of the roots. A test measures it.
	fftError = 20 * unit
	// windowTail is the logarithm of the mass, under the tilted distribution, that may lie outside
	// the transform's window at either end. e^-34 is about 1.7e-15.
	windowTail = -34
	// maxTilt bounds tilts times the grid: exp(tilt·grid·128) of a block must not overflow.
	maxTilt = 4
)

// term is one discrete distribution, composed with itself count times.
type term struct {
	atoms
	count float64
}

// Loss is a distribution that dominates the privacy loss of a composition in one direction: the
// composition of its terms, which is not carried out yet.
type Loss struct {
	terms []term
	grid  float64
}

// cumulants returns the logarithm K of the moment generating function of the composed loss at tilt,
// and its first two derivatives there: the mean and the variance of the tilted loss. Infinite loss
// is left out.
func (l Loss) cumulants(tilt float64) (k, k1, k2 float64) {
	for _, t := range l.terms {
		a, b, c := t.cumulants(tilt, l.grid)
		k += t.count * a
		k1 += t.count * b
		k2 += t.count * c
	}
	return k, k1, k2
}

// cumulants returns ln Σ mass·exp(tilt·loss), and mean and variance of the loss under these
// weights. It sums in blocks. A block computes one exponential, of its smallest factor, and
// multiplies from there: nothing underflows, and for |tilt| ≤ maxTilt/grid nothing overflows.
func (a atoms) cumulants(tilt, grid float64) (k, mean, variance float64) {
	const block = 128
	ratio := math.Exp(tilt * grid)
	shift := math.Inf(-1)
	var s0, s1, s2 float64 // scaled by exp(-shift)
	for from := 0; from < len(a.mass); from += block {
		var b0, b1, b2 float64
		part := a.mass[from:min(from+block, len(a.mass))]
		anchor, w := 0, 1.0
		if tilt < 0 {
			anchor, w = len(part)-1, math.Exp(-tilt*grid*float64(len(part)-1))
		}
		for i, m := range part {
			v, x := m*w, float64(i)
			b0 += v
			b1 += v * x
			b2 += v * x * x
			w *= ratio
		}
		if b0 <= 0 {
			continue
		}
		base := float64(a.low + from)
		exponent := tilt * grid * float64(a.low+from+anchor)
		b2 += base * (2*b1 + base*b0)
		b1 += base * b0
		if exponent > shift {
			f := math.Exp(shift - exponent)
			s0, s1, s2, shift = s0*f, s1*f, s2*f, exponent
		}
		f := math.Exp(exponent - shift)
		s0 += b0 * f
		s1 += b1 * f
		s2 += b2 * f
	}
	mean = s1 / s0
	return shift + math.Log(s0), mean * grid, max(0, s2/s0-mean*mean) * grid * grid
}

// support returns the lowest and highest loss of the composition in grid units.
func (l Loss) support() (low, high float64) {
	for _, t := range l.terms {
		low += t.count * float64(t.low)
		high += t.count * float64(t.low+len(t.mass)-1)
	}
	return low, high
}

// infinite returns the probability that the loss of any step is infinite.
func (l Loss) infinite() float64 {
	sum := 0.0
	for _, t := range l.terms {
		sum += t.count * math.Log1p(-t.inf)
	}
	return -math.Expm1(sum)
}

// steps returns the number of composed distributions.
func (l Loss) steps() (sum float64) {
	for _, t := range l.terms {
		sum += t.count
	}
	return sum
}

// blur bounds the error of a composed loss from the rounding of ε, of logarithms and of grid
// points.
func (l Loss) blur() (sum float64) {
	for _, t := range l.terms {
		edge := math.Max(math.Abs(float64(t.low)), math.Abs(float64(t.low+len(t.mass))))
		sum += t.count * 8 * unit * (1 + edge*l.grid)
	}
	return sum
}

// tiltForDelta returns the λ with λK'(λ) - K(λ) = -ln δ: there Chernoff's bound on the loss at δ is
// best.
func (l Loss) tiltForDelta(delta float64) float64 {
	return l.relax(l.solveTilt(func(tilt float64) (float64, float64) {
		k, k1, k2 := l.cumulants(tilt)
		return tilt*k1 - k + math.Log(delta), tilt * k2
	}))
}

// tiltForEpsilon returns the λ ≥ 0 with K'(λ) = ε, at which the tilted loss has mean ε. It returns
// about 0 if the mean is above ε without a tilt.
func (l Loss) tiltForEpsilon(epsilon float64) float64 {
	return l.relax(l.solveTilt(func(tilt float64) (float64, float64) {
		_, k1, k2 := l.cumulants(tilt)
		return k1 - epsilon, k2
	}))
}

// relax lowers a tilt as long as the loss that it aims at stays within four deviations of the
// tilted mean. That costs little of Chernoff's bound, and keeps the window short where the loss has
// heavy tails.
func (l Loss) relax(tilt float64) float64 {
	_, aim, _ := l.cumulants(tilt)
	for _, f := range []float64{0.75, 0.9} {
		if _, mean, variance := l.cumulants(f * tilt); aim-mean <= 4*math.Sqrt(variance) {
			return f * tilt
		}
	}
	return tilt
}

// solveTilt finds the zero of the rising function f to about 2 %, by Newton's method within a
// bracket. More is not needed: λ affects the size of the error bounds, never their validity.
func (l Loss) solveTilt(f func(float64) (value, slope float64)) float64 {
	most := maxTilt / 2 / l.grid
	low, high := 0.0, most
	tilt := min(1, most)
	for range 40 {
		v, slope := f(tilt)
		if v < 0 {
			low = tilt
		} else {
			high = tilt
		}
		next := tilt - v/slope
		if !(next > low && next < high) || math.IsNaN(next) {
			next = low + (high-low)/2
			if high == most {
				next = min(4*tilt+1, most)
			}
		}
		if math.Abs(next-tilt) <= 0.02*tilt || high < 1e-3 {
			return next
		}
		tilt = next
	}
	return tilt
}

// composed is the distribution of the composed loss, tilted by exp(λ loss): mass[i] is at loss
// (low+i)·grid.
type composed struct {
	grid  float64
	tilt  float64
	log   float64 // K(λ): the true mass is tilted mass · exp(log - λ loss)
	low   int
	mass  []float64
	stray float64 // bound on the tilted mass outside the window
	noise float64 // bound on the 2-norm of the rounding error of mass

	infinite float64 // mass at infinite loss
	blur     float64 // bound on the error of a loss
	relative float64 // bound on the relative error of mass before the transform
}

// compose computes the composition under a tilt, by one Fourier transform of each term.
func (l Loss) compose(tilt float64) *composed {
	tilt, k, low, high, stray := l.narrowed(tilt)
	for high-low > maxWindow {
		l = l.coarser()
		tilt, k, low, high, stray = l.narrowed(tilt)
	}
	n := 1 << int(math.Ceil(math.Log2(float64(high-low+1))))
	n = max(n, 16)
	fft := newTransform(n)
	defer freeTransform(fft)
	depth := math.Log2(float64(n))

	x := make([]float64, n)
	spectrum := make([]complex128, n/2+1)
	all := make([]complex128, n/2+1)
	noise := 0.0
	for i, t := range l.terms {
		t.fold(x, tilt, l.grid)
		size := norm(x)
		dst := spectrum
		if i == 0 {
			dst = all
		}
		fft.Coefficients(dst, x)
		noise += t.count * fftError * depth * min(size, raise(dst, int(t.count)))
		if i > 0 {
			for j := range all {
				all[j] *= spectrum[j]
			}
		}
	}
	fft.Sequence(x, all)
	c := &composed{grid: l.grid, tilt: tilt, log: k, low: low, stray: stray, mass: make([]float64, n),
		infinite: l.infinite(), blur: l.blur(), relative: l.steps() * atomError}
	scale := 1 / float64(n)
	first := ((low % n) + n) % n
	for i := range c.mass {
		c.mass[i] = x[(first+i)&(n-1)] * scale
	}
	// An error d of a spectrum becomes at most count·|d|·|spectrum|^(count-1) of its power, other
	// spectra being at most 1 in modulus.
	c.noise = 1.01*noise + (fftError*depth+4*unit*l.steps())*norm(c.mass)
	return c
}

// transforms keeps transforms and their roots of unity for reuse, by length: a *sync.Pool of
// *fourier.FFT each.
var transforms sync.Map

// newTransform returns a transform of length n for the caller alone, until freeTransform.
func newTransform(n int) *fourier.FFT {
	pool, _ := transforms.LoadOrStore(n, &sync.Pool{New: func() any { return fourier.NewFFT(n) }})
	return pool.(*sync.Pool).Get().(*fourier.FFT)
}

func freeTransform(fft *fourier.FFT) {
	if pool, ok := transforms.Load(fft.Len()); ok {
		pool.(*sync.Pool).Put(fft)
	}
}

// fold writes the tilted atoms, normalised to total 1, into x at their grid index modulo the length
// of x, a power of 2. Convolution by a transform is cyclic; the window has all but stray mass.
func (t term) fold(x []float64, tilt, grid float64) {
	clear(x)
	k, _, _ := t.cumulants(tilt, grid)
	ratio := math.Exp(tilt * grid)
	w := 0.0
	for i, m := range t.mass {
		if i%128 == 0 {
			w = math.Exp(tilt*grid*float64(t.low+i) - k)
		}
		if v := m * w; v != 0 {
			x[(t.low+i)&(len(x)-1)] += v
		}
		w *= ratio
	}
}

// raise raises every number of a real sequence's spectrum to a power, by squaring. It returns the
// root mean square of |z|^(power-1) over the whole spectrum: the factor by which errors of the
// spectrum reach the result.
func raise(z []complex128, power int) float64 {
	sum := 0.0
	for i, base := range z {
		square := real(base)*real(base) + imag(base)*imag(base)
		result := complex(1, 0)
		for e := power; ; base *= base {
			if e&1 == 1 {
				result *= base
			}
			if e >>= 1; e == 0 {
				break
			}
		}
		z[i] = result
		if square > 1e-290 {
			sum += (real(result)*real(result) + imag(result)*imag(result)) / square
		} else if power == 1 {
			sum++
		}
	}
	return math.Sqrt(sum / float64(len(z)-1)) // the sum runs over half the spectrum
}

// norm returns the 2-norm.
func norm(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return math.Sqrt(sum)
}

// maxWindow is the largest number of cells of a window; its transforms take some 300 MiB. If losses
// are rare and large, a tilt moves all steps into their tails, and the sum of the tails is wider
// than memory: 1e6 steps with a probability of 1e-6 each take 2^30 cells and more. A smaller tilt
// takes fewer. If no tilt takes few enough, as with many wide losses, the grid is made coarser.
var maxWindow = 1 << 22 // tests change it

// coarser returns the composition on a grid of twice the spacing.
func (l Loss) coarser() Loss {
	out := Loss{grid: 2 * l.grid}
	for _, t := range l.terms {
		of := atoms{low: t.low >> 1, mass: make([]float64, len(t.mass)/2+2), inf: t.inf}
		for i, m := range t.mass {
			of.put(float64(t.low+i)/2, out.grid, m)
		}
		out.terms = append(out.terms, term{of, t.count})
	}
	return out
}

// narrowed lowers a tilt until its window has at most maxWindow cells. If no tilt has, it returns
// the one with the smallest window. Tilts affect the size of the error bounds, never their
// validity.
func (l Loss) narrowed(tilt float64) (best, log float64, low, high int, stray float64) {
	for first := true; ; first = false {
		k, _, k2 := l.cumulants(tilt)
		from, to, outside := l.window(tilt, k, k2)
		if first || to-from < high-low {
			best, log, low, high, stray = tilt, k, from, to, outside
		}
		if high-low <= maxWindow || tilt == 0 {
			return best, log, low, high, stray
		}
		if tilt /= 4; tilt < 0.01 {
			tilt = 0
		}
	}
}

// window returns the grid indices between which the tilted distribution of the composed loss lies,
// but for the mass stray. It takes Chernoff's bound, Pr[S ≥ u] ≤ exp(K(λ+s) - K(λ) - s u), at the
// best s that descend finds. A support of less than 2^15 cells is taken whole.
func (l Loss) window(tilt, k, k2 float64) (low, high int, stray float64) {
	bottom, top := l.support()
	if top-bottom < 1<<15 {
		return int(bottom), int(top), 0
	}
	reach := func(sign float64) func(s float64) float64 { // distance of the edge from 0, in grid units, times sign
		return func(s float64) float64 {
			if s > maxTilt/2/l.grid {
				return math.Inf(1)
			}
			other, _, _ := l.cumulants(tilt + sign*s)
			return (other - k - windowTail) / s / l.grid
		}
	}
	s0 := math.Sqrt(-2 * windowTail / max(k2, l.grid*l.grid)) // the best s for a normal distribution
	s0 = min(s0, maxTilt/2/l.grid)
	up := min(top, descend(reach(1), s0))
	down := max(bottom, -descend(reach(-1), s0))
	if up < top {
		stray += math.Exp(windowTail)
	}
	if down > bottom {
		stray += math.Exp(windowTail)
	}
	return int(math.Floor(down)), int(math.Ceil(up)), stray
}

// descend multiplies s by smaller and smaller factors as long as the convex f falls, and returns
// the smallest value that it saw.
func descend(f func(float64) float64, start float64) float64 {
	best := f(start)
	for _, factor := range []float64{0.5, 0.8, 1.25} {
		for s := start; ; {
			next := f(s * factor)
			if !(next < best) {
				break
			}
			best, start = next, s*factor
			s *= factor
		}
	}
	return best
}
