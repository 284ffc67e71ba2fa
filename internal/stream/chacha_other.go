//go:build !amd64

package stream

// chachaVectors is the number of blocks that a kernel makes side by side: there is none.
var chachaVectors = 0

// chachaGroups is never called: blocks looks at chachaVectors first.
func chachaGroups(*uint64, *[16]uint32, int) { panic("unreachable") }
