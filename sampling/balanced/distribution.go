// Package balanced is the distribution of balanced min-sep (F3.9): an example takes part a fixed
// number k of times in a run, at least MinSep steps apart, with the same rate at every step, and
// otherwise as randomly as can be.
//
// The distribution of maximal entropy has weights ω_i: a pattern x has probability Π_{i∈x} ω_i over
// the sum of all. Walked forward in time, a free example with j participations left takes part at
// step i with the hazard
//
//	η_i^j = ω_i W_{i+b}^{j-1} / W_i^j,   W_i^j = W_{i+1}^j + ω_i W_{i+b}^{j-1}.
//
// ω has no closed form. So the hazards, rounded to multiples of 2^-53, are the distribution, by
// which batches are formed and privacy is accounted for: [Distribution.Digest] names them. They are
// computed with the same bits on every machine. The differences left by rounding and the solver
// between rates, below 1e-12 of them, changes expected batch sizes and no guarantee.
//
// Where κ is not whole, an example draws k = ⌈κ⌉ with probability κ - ⌊κ⌋, else ⌊κ⌋, and ω is such
// that all together have equal rates.
//
// Stability: may change with every release.
package balanced

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"sync"

	"minsep/internal/param"
)

// Largest sizes of a distribution.
const (
	maxCells = 1 << 23 // steps times classes
	// MaxPacking is the greatest part κ·MinSep/Steps of the run that participations and their
	// distances may fill, if κ is above 1: the solver is slow beyond, and at 1 the distribution is
	// balls-in-bins.
	MaxPacking = 0.9
	// Least is the least κ.
	Least = 1e-6
)

// Check reports the faults of the numbers, before anything is computed.
func Check(c *param.Checker, steps, minSep int, participations float64) {
	if steps < 1 || minSep < 1 { // has been reported
		return
	}
	if !(participations >= Least && participations <= float64(steps)) {
		c.Require(false, "participations", participations, fmt.Sprintf("must be from %g to steps, %d", Least, steps))
		return
	}
	n, b := float64(steps), float64(minSep)
	most := max(1, MaxPacking*n/b)
	c.Require(participations <= most*(1+1e-12), "participations", participations,
		fmt.Sprintf("must be at most %.6g: participations times min-sep must not be above %g of steps, %g of %d; balls-in-bins fills all", most, MaxPacking, MaxPacking*n, steps))
	cells := (math.Ceil(participations) + 1) * n
	c.Require(cells <= maxCells, "participations", participations, fmt.Sprintf("must be at most %d at %d steps: larger tables are refused", maxCells/steps-1, steps))
}

// One is 1 in units of the hazards.
const One = 1 << 53

// Distribution is the distribution of one example. It is read-only and may be shared.
type Distribution struct {
	Steps, MinSep  int     // n and b, at least 1
	Participations float64 // κ, see [Check]
	Most           int     // ⌈κ⌉: the classes, of so many participations left, are 0 … Most

	more    uint64   // of One: the probability to begin in class Most and not in the one below
	hazards []uint64 // of One: class j before step i is at i·(Most+1) + j
	survive [][]scaled
	digest  string
}

// scaled is mantissa·2^exponent, with the top bit of mantissa set, or 0.
type scaled struct {
	mantissa uint64
	exponent int32
}

// solved are the latest distributions: every stage that reads a record asks again.
var solved = struct {
	sync.Mutex
	distributions map[key]*Distribution
}{distributions: map[key]*Distribution{}}

type key struct {
	steps, minSep  int
	participations float64
}

// New solves for the distribution of numbers that Check accepts.
func New(steps, minSep int, participations float64) (*Distribution, error) {
	solved.Lock()
	defer solved.Unlock()
	k := key{steps, minSep, participations}
	if l := solved.distributions[k]; l != nil {
		return l, nil
	}
	c := param.Checker{Package: "balanced"}
	c.AtLeast("steps", steps, 1)
	c.AtLeast("min-sep", minSep, 1)
	Check(&c, steps, minSep, participations)
	if err := c.Err(); err != nil {
		return nil, err
	}
	most := math.Ceil(participations)
	x := newWeights(steps, min(minSep, steps), int(most), participations-(most-1))
	if err := x.solve(participations); err != nil {
		c.Require(false, "participations", participations, fmt.Sprintf("must be smaller, or min-sep: %v", err))
		return nil, c.Err()
	}
	l := newDistribution(x, participations)
	if e := l.ratesError(); !(e <= accepted) {
		c.Require(false, "participations", participations, fmt.Sprintf("must be smaller, or min-sep: with rounded hazards rates differ by %.2g of them", e))
		return nil, c.Err()
	}
	if len(solved.distributions) >= 8 {
		clear(solved.distributions)
	}
	solved.distributions[k] = l
	return l, nil
}

// newDistribution rounds the hazards.
func newDistribution(x *weights, participations float64) *Distribution {
	l := &Distribution{Steps: x.steps, MinSep: x.minSep, Participations: participations, Most: x.most,
		more: uint64(math.Round(x.more * One)), hazards: make([]uint64, x.steps*(x.most+1))}
	for i := range x.steps {
		w, jump := x.row(x.w, i), x.row(x.w, x.next(i))
		for j := 1; j <= x.most; j++ {
			h := &l.hazards[i*(x.most+1)+j]
			switch room := x.steps - 1 - (j-1)*x.minSep; {
			case i > room: // cannot be
			case i == room: // the last step at which all that are left have room
				*h = One
			case w[j] > 0:
				*h = min(One-1, uint64(math.Round(float64(float64(x.omega[i]*jump[j-1])/w[j])*One)))
			}
		}
	}
	l.tabulate()
	l.digest = l.sum()
	return l
}

// accepted is the largest relative error of a rate.
const accepted = 1e-11

// ratesError is the largest relative error of a rate of the integers.
func (l *Distribution) ratesError() (worst float64) {
	size := l.Most + 1
	free := make([]float64, (l.Steps+1)*size)
	free[l.Most], free[l.Most-1] = l.Starts()
	for i := range l.Steps {
		rate := 0.0
		for j := 1; j <= l.Most; j++ {
			at := free[i*size+j]
			in := at * l.Hazard(j, i)
			rate += in
			free[(i+1)*size+j] += at * (1 - l.Hazard(j, i))
			free[min(l.Steps, i+l.MinSep)*size+j-1] += in
		}
		worst = max(worst, math.Abs(rate*float64(l.Steps)/l.Participations-1))
	}
	return worst
}

// tabulate computes the probabilities to take part at no step before each, from integers, with
// 2^-63 of their size.
func (l *Distribution) tabulate() {
	const precision = 256 // each is off by less than 2^-200 after 2^24 roundings
	l.survive = make([][]scaled, l.Most+1)
	s, q := new(big.Float).SetPrec(precision), new(big.Float).SetPrec(precision)
	for j := 1; j <= l.Most; j++ {
		table := make([]scaled, l.Steps+1)
		s.SetInt64(1)
		for i := range table {
			exponent := s.MantExp(q)
			if s.Sign() > 0 {
				m, _ := q.SetMantExp(q, 64).Uint64()
				table[i] = scaled{m, int32(exponent - 64)}
			}
			if i < l.Steps {
				q.SetUint64(One - l.hazard(j, i))
				s.Mul(s, q.SetMantExp(q, -53))
			}
		}
		l.survive[j] = table
	}
}

func (l *Distribution) hazard(class, step int) uint64 { return l.hazards[step*(l.Most+1)+class] }

// Hazard is the probability with which a free example with so many participations left takes part
// at a step: a multiple of 2^-53.
func (l *Distribution) Hazard(class, step int) float64 { return float64(l.hazard(class, step)) / One }

// Starts returns the probabilities of the classes before the first step: of Most and of Most-1;
// others are 0.
func (l *Distribution) Starts() (most, less float64) {
	return float64(l.more) / One, float64(One-l.more) / One
}

// First is the class before the first step, by a uniform word.
func (l *Distribution) First(word uint64) int {
	if word>>11 < l.more {
		return l.Most
	}
	return l.Most - 1
}

// Next is the step of the next participation of an example that is free before step and has class >
// 0 participations left, by a uniform word; to 2^-60 of the probability of any wait.
func (l *Distribution) Next(class, step int, word uint64) int {
	table := l.survive[class]
	from := table[step]
	// The wait is longer than to step i iff word/2^64 < Pr[no participation before i+1]/Pr[none
	// before step].
	lo, hi := step, l.Steps // at lo or later, at hi or earlier
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if from.times(word).less(table[mid+1]) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// Quiet is the probability that an example that is free before step from takes part at none of the
// steps from … to-1.
func (l *Distribution) Quiet(class, from, to int) float64 {
	if class == 0 {
		return 1
	}
	a, b := l.survive[class][from], l.survive[class][to]
	if a.mantissa == 0 {
		return 0
	}
	return math.Ldexp(float64(b.mantissa)/float64(a.mantissa), int(b.exponent-a.exponent))
}

// product is high·2^64 + low, times 2^exponent.
type product struct {
	high, low uint64
	exponent  int32
}

// times multiplies with word/2^64.
func (s scaled) times(word uint64) product {
	high, low := bits.Mul64(s.mantissa, word)
	return product{high, low, s.exponent - 64}
}

// less reports whether p < s.
func (p product) less(s scaled) bool {
	if s.mantissa == 0 {
		return false
	}
	if p.high == 0 && p.low == 0 {
		return true
	}
	zeros := bits.LeadingZeros64(p.high)
	if p.high == 0 {
		zeros = 64 + bits.LeadingZeros64(p.low)
	}
	// Both with 128 bits, the top one set: exponents decide, then bits.
	if top, other := p.exponent-int32(zeros), s.exponent-64; top != other {
		return top < other
	}
	high, low := p.high, p.low
	if zeros >= 64 {
		high, low, zeros = low, 0, zeros-64
	}
	return high<<zeros|low>>(64-zeros) < s.mantissa
}

// Digest names the hazards: SHA-256 of the parameters and of all integers.
func (l *Distribution) Digest() string { return l.digest }

func (l *Distribution) sum() string {
	h := sha256.New()
	fmt.Fprintf(h, "balanced min-sep %d %d %x %d\n", l.Steps, l.MinSep, math.Float64bits(l.Participations), l.more)
	row := make([]byte, 0, 8*(l.Most+1))
	for i := range l.Steps {
		row = row[:0]
		for j := range l.Most + 1 {
			row = binary.BigEndian.AppendUint64(row, l.hazard(j, i))
		}
		h.Write(row)
	}
	return hex.EncodeToString(h.Sum(nil))
}
