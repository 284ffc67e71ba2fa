//go:build !amd64

package noise

// vectors is the number of doubles to a vector: none.
const vectors = 0

// The rest is not needed without vector instructions.

var tables vectorTables

type vectorTables struct{}

var kernelsOf [apart + 1]kernels

func round256(*float32, int, *float64, int, *float64, float64, float64) int { panic("unreachable") }
func round512(*float32, int, *float64, int, *float64, float64, float64) int { panic("unreachable") }
