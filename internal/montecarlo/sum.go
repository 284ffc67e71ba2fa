package montecarlo

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"math/bits"

	"minsep/internal/montecarlo/internal/kernel"
)

// slack is added to every loss before it is counted. Kernels agree to less than slack, so that the
// figures of each kernel are valid for all.
const slack = 1e-9

// Value is the hockey-stick value max(1 - e^(ε-loss), 0) of a privacy loss, rounded upward: its
// mean over losses in direction P is H(P,Q) at e^ε, and H(Q,P) in direction Q. NaN counts as an
// infinite loss.
func Value(epsilon, loss float64) float64 {
	excess := loss + slack - epsilon
	switch {
	case excess <= 0:
		return 0
	case excess > 0:
		return -math.Expm1(-excess)
	}
	return 1
}

// Sum adds values in [0, 1] in fixed point, each rounded upward to a multiple of 2^-60, so that the
// order of adding does not matter. The zero Sum is ready to use.
type Sum struct{ high, low uint64 }

const sumUnit = 1 << 60

// Add adds a value in [0, 1]. It panics outside.
func (s *Sum) Add(value float64) {
	if !(value >= 0 && value <= 1) {
		panic(fmt.Sprintf("montecarlo: value %g to add: must be in [0, 1]", value))
	}
	if value == 0 {
		return
	}
	s.add(0, uint64(math.Ceil(value*sumUnit)))
}

// Merge adds another sum.
func (s *Sum) Merge(other Sum) { s.add(other.high, other.low) }

func (s *Sum) add(high, low uint64) {
	var carry uint64
	s.low, carry = bits.Add64(s.low, low, 0)
	s.high, _ = bits.Add64(s.high, high, carry)
}

// Mean returns the sum over count, rounded upward by at most 2^-50 of itself.
func (s Sum) Mean(count uint64) float64 {
	total := math.Ldexp(float64(s.high), 4) + math.Ldexp(float64(s.low), -60)
	return total / float64(count) * (1 + 1.0/(1<<51))
}

// MarshalText writes the sum in units of 2^-60, in decimal.
func (s Sum) MarshalText() ([]byte, error) { return []byte(s.integer().String()), nil }

func (s Sum) integer() *big.Int {
	v := new(big.Int).SetUint64(s.high)
	return v.Or(v.Lsh(v, 64), new(big.Int).SetUint64(s.low))
}

// UnmarshalText reads the output of MarshalText.
func (s *Sum) UnmarshalText(text []byte) error {
	v, ok := new(big.Int).SetString(string(text), 10)
	if !ok || v.Sign() < 0 || v.BitLen() > 128 {
		return fmt.Errorf("sum: must be a decimal number below 2^128")
	}
	s.low = new(big.Int).And(v, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
	s.high = v.Rsh(v, 64).Uint64()
	return nil
}

// SumOf adds count values over their bound, from the one with the number first on. The function
// values sets dst to the values of this number and of those after it. SumOf ends early, with the
// context's error, when ctx is done.
func SumOf(
	ctx context.Context,
	bound float64,
	first, count uint64,
	values func(dst []float64, first uint64),
) (total Sum, err error) {
	var buffer [32 * kernel.Lanes]float64
	for done := uint64(0); done < count && ctx.Err() == nil; {
		piece := buffer[:min(uint64(len(buffer)), count-done)]
		values(piece, first+done)
		for _, x := range piece {
			total.Add(x / bound)
		}
		done += uint64(len(piece))
	}
	return total, ctx.Err()
}
