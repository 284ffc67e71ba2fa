package sampling

import (
	"math/bits"

	"minsep/sampling/stream"
)

// Renewal is the process of one copy of an example: a wait for the first turn, then, after each
// participation, the separation and a new wait. It holds tables and no randomness and may be shared.
type Renewal struct {
	first, gap *waits
	start      int // step of the first turn
	stride     int // steps from one turn to the next
	lead       int // turns from a participation to the next turn that can be one
	steps      int
	parts      int  // > 0: the example's part of the partition delays its first turn
	secret     bool // the part is drawn, else it is the row's remainder
}

// Sampler draws participations under one key. It is not safe for concurrent use; samplers of one process and key
// give the same, so each worker makes its own.
type Sampler struct {
	*Renewal
	words *stream.Stream
}

// Sampler returns a sampler of the process under the key of src, which also makes the addresses.
func (r *Renewal) Sampler(src *stream.Source) *Sampler {
	return &Sampler{r, src.Stream(stream.Address{})}
}

// Append appends to dst the steps, ascending, in which the example copy at addr takes part. row is its row in the table of
// examples; only a public partition looks at it. It allocates nothing if dst has room.
func (s *Sampler) Append(dst []int32, addr stream.Address, row int64) []int32 {
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

func (s *Sampler) part(row int64) int {
	if !s.secret {
		return int(row % int64(s.parts))
	}
	high, _ := bits.Mul64(s.words.Uint64(), uint64(s.parts)) // uniform to 2^-64
	return int(high)
}
