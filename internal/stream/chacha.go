package stream

import (
	"encoding/binary"
	"math/bits"
)

// ChaCha gives the words of numbered things as [Bulk] does, by ChaCha12 in place of AES-128.
// ChaCha12 needs additions, rotations and exclusive ors of 32 bits only, which accelerators have
// too, while they have no instructions for AES. It is not safe for concurrent use.
//
// The words of number i are the key stream of RFC 8439's block function with 12 rounds in place of
// 20, read as 64-bit words, little endian. Its state has the key in words 4 to 11, and in words 12
// to 15 the number of the 64-byte block, low half first, and i, low half first: in terms of the
// RFC, the block's number is counter and first word of the nonce, and i the rest of the nonce.
type ChaCha struct {
	state  [16]uint32     // words 12 to 15 are left from the last call
	groups [16 * 8]uint64 // room for the blocks of the widest kernel
}

// chachaRounds is the number of rounds. Recipes of noise name it, so it never changes.
const chachaRounds = 12

// NewChaCha returns the source of key. It takes all 256 bits of the key.
func NewChaCha(key Key) *ChaCha {
	c := &ChaCha{state: [16]uint32{0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}}
	for i := range 8 {
		c.state[4+i] = binary.LittleEndian.Uint32(key.secret[4*i:])
	}
	return c
}

// Words fills dst with the words of number from word 2*pair on. The words are the same on every
// processor.
func (c *ChaCha) Words(dst []uint64, number, pair uint64) {
	c.state[14], c.state[15] = uint32(number), uint32(number>>32)
	const pairs, words = 4, 8 // of a block
	block := pair / pairs
	if skip := int(pair%pairs) * 2; skip > 0 && len(dst) > 0 {
		c.blocks(c.groups[:words], block)
		dst = dst[copy(dst, c.groups[skip:words]):]
		block++
	}
	whole := len(dst) / words * words
	c.blocks(dst[:whole], block)
	if rest := dst[whole:]; len(rest) > 0 {
		c.blocks(c.groups[:words], block+uint64(whole/words))
		copy(rest, c.groups[:words])
	}
}

// blocks fills dst with whole blocks.
func (c *ChaCha) blocks(dst []uint64, block uint64) {
	for len(dst) > 0 {
		c.state[12], c.state[13] = uint32(block), uint32(block>>32)
		n := len(dst) / 8
		// The kernels count blocks in 32 bits, so no call may cross a multiple of 2³²: there,
		// single blocks do.
		switch within := 1<<32 - uint64(c.state[12]); {
		case chachaVectors == 0 || n == 1 || within < uint64(chachaVectors):
			chachaBlock(dst[:8], &c.state, chachaRounds)
			n = 1
		case n < chachaVectors:
			chachaGroups(&c.groups[0], &c.state, 1)
			copy(dst, c.groups[:])
		default:
			groups := int(min(uint64(n), within)) / chachaVectors
			chachaGroups(&dst[0], &c.state, groups)
			n = groups * chachaVectors
		}
		dst, block = dst[8*n:], block+uint64(n)
	}
}

// chachaBlock sets dst to one block of an even number of rounds. It is the reference for the
// kernels, and the only code on processors without one.
func chachaBlock(dst []uint64, state *[16]uint32, rounds int) {
	x := *state
	quarter := func(a, b, c, d int) {
		x[a] += x[b]
		x[d] = bits.RotateLeft32(x[d]^x[a], 16)
		x[c] += x[d]
		x[b] = bits.RotateLeft32(x[b]^x[c], 12)
		x[a] += x[b]
		x[d] = bits.RotateLeft32(x[d]^x[a], 8)
		x[c] += x[d]
		x[b] = bits.RotateLeft32(x[b]^x[c], 7)
	}
	for range rounds / 2 {
		for i := range 4 {
			quarter(i, 4+i, 8+i, 12+i)
		}
		for i := range 4 {
			quarter(i, 4+(i+1)%4, 8+(i+2)%4, 12+(i+3)%4)
		}
	}
	for i := range 8 {
		dst[i] = uint64(x[2*i]+state[2*i]) | uint64(x[2*i+1]+state[2*i+1])<<32
	}
}
