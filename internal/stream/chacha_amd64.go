package stream

import "golang.org/x/sys/cpu"

// chachaVectors is the number of blocks that the kernel of this processor makes side by side: 16
// with AVX-512, 8 with AVX2, 0 where it has neither. Tests change it.
var chachaVectors = widestChaCha()

// widestChaCha returns the number of blocks of the widest kernel that this processor can run.
func widestChaCha() int {
	switch {
	case cpu.X86.HasAVX512F:
		return 16
	case cpu.X86.HasAVX2:
		return 8
	}
	return 0
}

// chachaGroups sets dst to groups of chachaVectors blocks each, from the block of state on. The
// block number must not pass a multiple of 2³².
func chachaGroups(dst *uint64, state *[16]uint32, groups int) {
	if chachaVectors == 16 {
		chacha512(dst, state, groups)
		return
	}
	chacha256(dst, state, groups)
}

// chacha256 makes groups of 8 blocks with AVX2, chacha512 groups of 16 with AVX-512: see
// chachaGroups.
//
//go:noescape
func chacha256(dst *uint64, state *[16]uint32, groups int)

//go:noescape
func chacha512(dst *uint64, state *[16]uint32, groups int)
