//go:build !amd64

package noise

// vectors is the number of doubles to a vector: none.
const vectors = 0

// tables is not needed without vector instructions.
var tables struct{}

func normals256(*float64, int, *uint64, int, *struct{}) int                     { panic("unreachable") }
func normals512(*float64, int, *uint64, int, *struct{}, *float64, *float64) int { panic("unreachable") }

func feedback256(rows *float64, across, stride, history, slot, slots, out, steps int, z, gain, f *float64) {
	panic("unreachable")
}

func feedback512(rows *float64, across, stride, history, slot, slots, out, steps int, z, gain, f *float64) {
	panic("unreachable")
}

func filter256(p *float64, across, taps, steps int, h *float64) { panic("unreachable") }
func filter512(p *float64, across, taps, steps int, h *float64) { panic("unreachable") }

func buffers256(p *float64, across, steps int, s *float64, acrossBuffers, n int, minusScales, d *float64) {
	panic("unreachable")
}

func buffers512(p *float64, across, steps int, s *float64, acrossBuffers, n int, minusScales, d *float64) {
	panic("unreachable")
}

func round256(*float32, int, *float64, int, *float64, float64, float64) int { panic("unreachable") }
func round512(*float32, int, *float64, int, *float64, float64, float64) int { panic("unreachable") }
