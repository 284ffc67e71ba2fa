package sampling

import (
	"math"
	"math/big"
	"math/bits"
)

// precision is the number of bits of survival probabilities. After 2^24 roundings each is off by
// less than 2^-200.
const precision = 256

// waitingTime is the distribution of a waiting time 0, 1, 2, …, as thresholds for a uniform 64-bit
// word: the wait is longer than t if and only if the word is below floor(2^64 Pr[wait > t]). All
// waits beyond the table count as one, which means never.
type waitingTime struct {
	thresholds []uint64 // falling; the last is 0 and ends every search
	guide      []int32  // guide[w >> shift] is the shortest wait of words with the top bits of w
	shift      uint
}

// newWaitingTime tabulates survival(t) = Pr[wait > t] for t < limit; it calls survival for t = 0,
// 1, … in order. A wait of limit means never.
func newWaitingTime(limit int, survival func(t int) *big.Float) *waitingTime {
	w := &waitingTime{}
	scaled := new(big.Float).SetPrec(precision)
	for t := range limit {
		s, _ := scaled.SetMantExp(survival(t), 64).Uint64() // truncates; 1 itself becomes 2^64-1
		w.thresholds = append(w.thresholds, s)
		if s == 0 {
			break
		}
	}
	if w.thresholds[len(w.thresholds)-1] != 0 {
		w.thresholds = append(w.thresholds, 0)
	}
	size := min(max(bits.Len(uint(len(w.thresholds))), 8), 20)
	w.shift = uint(64 - size)
	w.guide = make([]int32, 1<<size)
	t := int32(0)
	for i := len(w.guide) - 1; i >= 0; i-- {
		largest := uint64(i)<<w.shift | (1<<w.shift - 1)
		for w.thresholds[t] > largest {
			t++
		}
		w.guide[i] = t
	}
	return w
}

// wait returns the waiting time that a uniform word gives.
func (w *waitingTime) wait(word uint64) int {
	t := w.guide[word>>w.shift]
	for w.thresholds[t] > word {
		t++
	}
	return int(t)
}

// geometric is the distribution of the number of failures before the first success of trials of
// probability p: Pr[wait > t] = (1-p)^(t+1).
func geometric(p float64, limit int) *waitingTime {
	q := complement(p)
	s := newFloat(1)
	return newWaitingTime(limit, func(int) *big.Float { return s.Mul(s, q) })
}

// stationary is the wait for the first participation under a warm start (arXiv 2602.09338,
// Algorithm 2): s, drawn as 0 with probability π = 1/(1+(b-1)p) and else uniformly from 1..b-1,
// plus a geometric wait. With p0 = pπ,
//
//	Pr[wait > t] = 1 - (t+1) p0 for t < b,  π (1-p)^(t-b+2) for t ≥ b-1:
//
// the equilibrium distribution of the renewal process, in which each step is a participation
// with probability p0.
func stationary(p float64, minSep, limit int) *waitingTime {
	exactP, q, b := newFloat(p), complement(p), newFloat(float64(minSep))
	one := newFloat(1)
	scale := newFloat(0).Sub(b, one)
	scale.Add(scale.Mul(scale, exactP), one) // 1/π
	tail := newFloat(0).Quo(q, scale)        // at t = b-1
	return newWaitingTime(limit, func(t int) *big.Float {
		switch {
		case t < minSep-1:
			s := newFloat(0).Mul(newFloat(float64(t+1)), exactP)
			return s.Sub(one, s.Quo(s, scale))
		case t >= minSep:
			tail.Mul(tail, q)
		}
		return tail
	})
}

func newFloat(x float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(x) }

// complement returns 1-p, which is exact for p ≥ 2^-200.
func complement(p float64) *big.Float { return newFloat(0).Sub(newFloat(1), newFloat(p)) }

// leastProb is the smallest probability that the 64-bit thresholds represent with 11 significant
// bits.
var leastProb = math.Ldexp(1, -53)
