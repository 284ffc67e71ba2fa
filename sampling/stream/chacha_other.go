//go:build !amd64

package stream

// chachaVectors is the number of blocks that a kernel makes side by side: there is none.
var chachaVectors = 0

func chacha256(*uint64, *[16]uint32, int) { panic("unreachable") }
func chacha512(*uint64, *[16]uint32, int) { panic("unreachable") }
