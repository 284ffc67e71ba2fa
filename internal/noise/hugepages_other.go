//go:build !linux

package noise

// advise does nothing: this system has no such advice.
func advise([]float64) {}
