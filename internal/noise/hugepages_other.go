//go:build !linux

package noise

// advise does nothing: this system has no such advice.
func advise([]float64) {}

func hostMemory() float64 { return unknownMemory }
