package sampling

import (
	"math/bits"

	"minsep/internal/stream"
)

// renewal is a process with turns: the example waits for its first turn, and after each
// participation keeps the separation and waits again.
type renewal struct {
	// first and gap are the waits, in turns, for the first and for each later participation.
	first, gap *waitingTime
	start      int // step of the first turn
	stride     int // steps from one turn to the next
	lead       int // turns from a participation to the next turn that can be one
	steps      int
	parts      int  // if above 0, the number of parts; the example's part delays its first turn
	secret     bool // the part is drawn; otherwise it is the row modulo parts
}

// renewalSampler draws from a renewal.
type renewalSampler struct {
	*renewal
	words *stream.Stream
}

// Sampler implements [Process].
func (r *renewal) Sampler(src *stream.Source) Sampler {
	return &renewalSampler{r, src.Stream(stream.Address{})}
}

// Append implements [Sampler].
func (s *renewalSampler) Append(dst []int32, addr stream.Address, row int64) []int32 {
	s.words.Reset(addr)
	step := s.start
	if s.parts > 0 {
		step += s.part(row)
	}
	step += s.first.wait(s.words.Uint64()) * s.stride
	for step < s.steps {
		dst = append(dst, int32(step))
		step += (s.lead + s.gap.wait(s.words.Uint64())) * s.stride
	}
	return dst
}

// part returns the number of the example's part.
func (s *renewalSampler) part(row int64) int {
	if !s.secret {
		return int(row % int64(s.parts))
	}
	high, _ := bits.Mul64(s.words.Uint64(), uint64(s.parts)) // uniform to 2^-64
	return int(high)
}
