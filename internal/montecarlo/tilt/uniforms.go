package tilt

import "minsep/internal/stream"

// uniforms gives the numbers in (0,1) of one sample, in order. Two walks with one address read the
// same numbers.
type uniforms struct {
	bulk   *stream.Bulk
	sample uint64
	block  uint64
	words  [64]uint64
	next   int
}

func (u *uniforms) reset(sample uint64) { u.sample, u.block, u.next = sample, 0, len(u.words) }

// Float64 returns the next number, a multiple of 2^-53 plus 2^-54.
func (u *uniforms) Float64() float64 { return (float64(u.Uint64()>>11) + 0.5) * 0x1p-53 }

// Uint64 returns the next number as a word.
func (u *uniforms) Uint64() uint64 {
	if u.next == len(u.words) {
		u.bulk.Words(u.words[:], u.sample, u.block)
		u.block += uint64(len(u.words) / 2)
		u.next = 0
	}
	u.next++
	return u.words[u.next-1]
}
