package sampling

import "math/bits"

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

// Draw implements [Process].
func (r *renewal) Draw(dst []int32, words Words, row int64) []int32 {
	step := r.start
	switch {
	case r.parts > 0 && r.secret:
		step += below(words, r.parts)
	case r.parts > 0:
		step += int(row % int64(r.parts))
	}
	step += r.first.wait(words.Uint64()) * r.stride
	for step < r.steps {
		dst = append(dst, int32(step))
		step += (r.lead + r.gap.wait(words.Uint64())) * r.stride
	}
	return dst
}

// below draws a number in 0 … n-1, uniform to 2^-64.
func below(words Words, n int) int {
	high, _ := bits.Mul64(words.Uint64(), uint64(n))
	return int(high)
}
