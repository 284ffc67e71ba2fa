package montecarlo

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"runtime"
	"sync"

	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/param"
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

// BucketWidth is the width of the buckets of a [Histogram].
const BucketWidth = 1.0 / 1024

// maxBuckets bounds a histogram: losses above 128 count as infinite.
const maxBuckets = 128 * 1024

// Histogram counts losses rounded upward to multiples of [BucketWidth]: entry i counts losses
// in ((i-1)·width, i·width], entry 0 losses of at most 0, the last possible one all above 128.
// δ at any ε is estimated from it; it certifies nothing.
type Histogram []uint64

// Add counts one loss.
func (h *Histogram) Add(loss float64) {
	i := 0
	switch up := math.Ceil((loss + slack) / BucketWidth); {
	case !(up < maxBuckets):
		i = maxBuckets
	case up > 0:
		i = int(up)
	}
	h.grow(i + 1)
	(*h)[i]++
}

func (h *Histogram) grow(size int) {
	for len(*h) < size {
		*h = append(*h, 0)
	}
}

// Merge adds another histogram.
func (h *Histogram) Merge(other Histogram) {
	h.grow(len(other))
	for i, count := range other {
		(*h)[i] += count
	}
}

// Delta estimates δ(ε) for ε ≥ 0, and the standard error of the estimate.
func (h Histogram) Delta(epsilon float64) (delta, standardError float64) {
	var count, sum, squares float64
	for i, c := range h {
		value := 1.0
		if i < maxBuckets {
			value = Value(epsilon, float64(i)*BucketWidth-slack)
		}
		n := float64(c)
		count, sum, squares = count+n, sum+n*value, squares+n*value*value
	}
	delta = sum / count
	return delta, math.Sqrt(max(0, squares/count-delta*delta) / count)
}

// MarshalJSON writes pairs [entry, count] of the entries that are not zero.
func (h Histogram) MarshalJSON() ([]byte, error) {
	pairs := [][2]uint64{}
	for i, count := range h {
		if count > 0 {
			pairs = append(pairs, [2]uint64{uint64(i), count})
		}
	}
	return json.Marshal(pairs)
}

// UnmarshalJSON reads the output of MarshalJSON.
func (h *Histogram) UnmarshalJSON(data []byte) error {
	var pairs [][2]uint64
	if err := json.Unmarshal(data, &pairs); err != nil {
		return fmt.Errorf("histogram: %w", err)
	}
	*h = nil
	for i, pair := range pairs {
		if pair[0] > maxBuckets || i > 0 && pair[0] <= pairs[i-1][0] {
			return fmt.Errorf("histogram: entries must rise and be at most %d", maxBuckets)
		}
		h.grow(int(pair[0]) + 1)
		(*h)[pair[0]] = pair[1]
	}
	return nil
}

// Record is the sum of a range of samples: integers, so that records merge in any order to the
// same bytes.
type Record struct {
	KernelID string    `json:"kernel_id"` // the arithmetic, see [KernelID]
	Count    uint64    `json:"count"`     // samples, at least 0
	Epsilons []float64 `json:"epsilons"`  // of the sums, each at least 0
	Sums     []Sum     `json:"sums"`      // one for each of Epsilons: of [Value] at this ε
	Losses   Histogram `json:"losses"`    // for estimates
}

// NewRecord returns an empty record for a list of ε.
func NewRecord(epsilons []float64) *Record {
	return &Record{KernelID: KernelID(), Epsilons: epsilons, Sums: make([]Sum, len(epsilons))}
}

// Add counts losses.
func (r *Record) Add(losses []float64) {
	r.Count += uint64(len(losses))
	for _, loss := range losses {
		r.Losses.Add(loss)
		for i, epsilon := range r.Epsilons {
			r.Sums[i].Add(Value(epsilon, loss))
		}
	}
}

// Merge adds another record. It refuses one of another kernel or of other ε.
func (r *Record) Merge(other *Record) error {
	check := param.Checker{}
	check.Require(
		other.KernelID == r.KernelID,
		"kernel id of a record",
		other.KernelID,
		"must be "+r.KernelID+": results of different kernels are not mixed",
	)
	same := len(r.Epsilons) == len(other.Epsilons) && len(other.Sums) == len(r.Sums)
	for i := 0; same && i < len(r.Epsilons); i++ {
		same = r.Epsilons[i] == other.Epsilons[i]
	}
	check.Require(same, "epsilons of a record", other.Epsilons, "must be as in the record that it is merged into")
	if err := check.Err(); err != nil {
		return err
	}
	r.Count += other.Count
	for i := range r.Sums {
		r.Sums[i].Merge(other.Sums[i])
	}
	r.Losses.Merge(other.Losses)
	return nil
}

// pieceSize is how many samples a goroutine takes at a time.
const pieceSize = 32 * kernel.Lanes

// Record computes the samples first … first+count-1 with workers goroutines, or one for each
// processor where workers is not above 0. The result does not depend on workers. Record ends early,
// with the context's error, when ctx is done.
func (s *Sampler) Record(
	ctx context.Context,
	first, count uint64,
	epsilons []float64,
	workers int,
) (*Record, error) {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var (
		group sync.WaitGroup
		mutex sync.Mutex
		next  = first
		end   = first + count
		total = NewRecord(epsilons)
		fault error
	)
	take := func() (from, size uint64) {
		mutex.Lock()
		defer mutex.Unlock()
		from = next
		next = min(end, (from/pieceSize+1)*pieceSize)
		return from, next - from
	}
	for range workers {
		fork, record := s.Fork(), NewRecord(epsilons)
		group.Go(func() {
			losses := make([]float64, pieceSize)
			for ctx.Err() == nil {
				from, size := take()
				if size == 0 {
					break
				}
				fork.Losses(losses[:size], from)
				record.Add(losses[:size])
			}
			mutex.Lock()
			defer mutex.Unlock()
			if err := total.Merge(record); err != nil {
				fault = err
			}
		})
	}
	group.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return total, fault
}
