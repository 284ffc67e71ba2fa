package stream

// chachaVectors is the number of blocks that the kernel makes side by side, with NEON, which every
// arm64 has. Tests change it.
var chachaVectors = 4

// chachaGroups sets dst to groups of chachaVectors blocks each, from the block of state on. The
// block number must not pass a multiple of 2³².
func chachaGroups(dst *uint64, state *[16]uint32, groups int) { chacha128(dst, state, groups) }

// chacha128 makes groups of 4 blocks: see chachaGroups.
//
//go:noescape
func chacha128(dst *uint64, state *[16]uint32, groups int)
