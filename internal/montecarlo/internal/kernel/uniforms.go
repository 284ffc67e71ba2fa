package kernel

import "minsep/internal/stream"

// Uniforms gives the words of an address in order, and numbers in (0,1) by them. Two walks with one
// address read the same.
type Uniforms struct {
	Bulk *stream.Bulk

	number, block uint64
	words         [8]uint64
	next          int
}

// Reset goes to the first word of a block of a number.
func (u *Uniforms) Reset(number, block uint64) {
	u.number, u.block, u.next = number, block, len(u.words)
}

// Uint64 returns the next word.
func (u *Uniforms) Uint64() uint64 {
	if u.next == len(u.words) {
		u.Bulk.Words(u.words[:], u.number, u.block)
		u.block += uint64(len(u.words) / 2)
		u.next = 0
	}
	u.next++
	return u.words[u.next-1]
}

// Float64 returns the next number, an odd multiple of 2^-54.
func (u *Uniforms) Float64() float64 { return (float64(u.Uint64()>>11) + 0.5) * 0x1p-53 }
