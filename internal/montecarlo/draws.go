package montecarlo

import (
	"math"
	"math/bits"

	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/stream"
)

// draws gives the uniform numbers of one sample in order, from its lane of its batch.
type draws struct {
	bulk   *stream.Bulk
	number uint64 // batch
	block  uint64
	words  [64]uint64
	next   int
}

// start goes to the first number of a lane.
func (d *draws) start(batch uint64, lane int) {
	d.number, d.block, d.next = batch, kernel.FirstFreeBlock+uint64(lane)<<32, len(d.words)
}

// Uint64 is the next word.
func (d *draws) Uint64() uint64 {
	if d.next == len(d.words) {
		d.bulk.Words(d.words[:], d.number, d.block)
		d.block += uint64(len(d.words) / 2)
		d.next = 0
	}
	d.next++
	return d.words[d.next-1]
}

// uniform is in (0, 1), an odd multiple of 2^-54.
func (d *draws) uniform() float64 {
	return (float64(d.Uint64()>>11) + 0.5) * (1.0 / (1 << 53))
}

// below is uniform in 0 … n-1, but for n/2^64.
func (d *draws) below(n int) int {
	high, _ := bits.Mul64(d.Uint64(), uint64(n))
	return int(high)
}

// failures draws the number of trials, of success probability p, that fail before the first
// success, at most limit. logQ is ln(1-p).
func (d *draws) failures(logQ float64, limit int) int {
	if math.IsInf(logQ, -1) {
		return 0
	}
	if g := math.Log(d.uniform()) / logQ; g < float64(limit) {
		return int(g)
	}
	return limit
}

// binomial draws from Binom(n, p).
func (d *draws) binomial(n int, p float64) int {
	switch {
	case n == 0:
		return 0
	case p > 0.5:
		return n - d.binomial(n, 1-p)
	case float64(n)*p < 10:
		return d.smallBinomial(n, p)
	}
	return d.largeBinomial(n, p)
}

// smallBinomial inverts the distribution function, for n·p < 10.
func (d *draws) smallBinomial(n int, p float64) int {
	u := d.uniform()
	mass := math.Exp(float64(n) * math.Log1p(-p))
	odds := p / (1 - p)
	k := 0
	for u > mass && k < n {
		u -= mass
		mass *= odds * float64(n-k) / float64(k+1)
		k++
		if mass < 1e-300 { // beyond the resolution of u
			break
		}
	}
	return k
}

// largeBinomial is transformed rejection with squeeze, for n·p ≥ 10 and p ≤ ½: Hörmann, The
// generation of binomial random variates, 1993, algorithm BTRS, with its constants.
func (d *draws) largeBinomial(n int, p float64) int {
	size, q := float64(n), 1-p
	sd := math.Sqrt(size * p * q)
	b := 1.15 + 2.53*sd
	a := -0.0873 + 0.0248*b + 0.01*p
	c := size*p + 0.5
	squeeze := 0.92 - 4.2/b
	for {
		u, v := d.uniform()-0.5, d.uniform()
		us := 0.5 - math.Abs(u)
		k := math.Floor((2*a/us+b)*u + c)
		if k < 0 || k > size {
			continue
		}
		if us >= 0.07 && v <= squeeze {
			return int(k)
		}
		alpha := (2.83 + 5.1/b) * sd
		odds := p / q
		mode := math.Floor((size + 1) * p)
		accept := (mode+0.5)*math.Log((mode+1)/(odds*(size-mode+1))) + (size+1)*math.Log((size-mode+1)/(size-k+1)) +
			(k+0.5)*math.Log(odds*(size-k+1)/(k+1)) + stirling(mode) + stirling(size-mode) - stirling(k) - stirling(size-k)
		if math.Log(v*alpha/(a/(us*us)+b)) <= accept {
			return int(k)
		}
	}
}

// stirling returns ln k! - (k+½)ln(k+1) + (k+1) - ½ln 2π, to 1e-11.
func stirling(k float64) float64 {
	if k < float64(len(stirlingTable)) {
		return stirlingTable[int(k)]
	}
	x := 1 / (k + 1)
	return x * (1.0/12 - x*x*(1.0/360-x*x/1260))
}

var stirlingTable = func() (table [16]float64) {
	for i := range table {
		k := float64(i)
		log, _ := math.Lgamma(k + 1)
		table[i] = log - (k+0.5)*math.Log(k+1) + (k + 1) - 0.5*math.Log(2*math.Pi)
	}
	return table
}()
