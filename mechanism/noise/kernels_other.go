//go:build !amd64

package noise

const useVector = false

// tables is not needed without vector instructions.
var tables struct{}

func normalsVector(*float64, int, *uint64, int, *struct{}) int        { panic("unreachable") }
func feedbackVector(p *float64, history, steps int, gain, f *float64) { panic("unreachable") }
func ringVector(ring *float64, stride, history, slot, steps int, z, gain, f *float64) {
	panic("unreachable")
}
func filterVector(p *float64, taps, steps int, h *float64) { panic("unreachable") }
func buffersVector(p *float64, steps int, s *float64, n int, minusScales, d *float64) {
	panic("unreachable")
}
func round32Vector(*float32, int, *float64, int, *float64, float64, float64) int {
	panic("unreachable")
}
