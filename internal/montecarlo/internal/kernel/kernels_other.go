//go:build !amd64

package kernel

const useVector = false

// tables is not needed without vector instructions.
var tables struct{}

func normalsVector(*Row, *uint64, int, *struct{})                      { panic("unreachable") }
func exp2Vector(dst, t *Row, rows int, _ *struct{})                    { panic("unreachable") }
func turnVector(_, _, _ *Row, _, _ int, _ *float64, _ *Row, _ float64) { panic("unreachable") }
func betweenVector(x *Row, rows int, low, high float64) int            { panic("unreachable") }
func correlateVector(out, z *Row, rows int, _ *float64, taps int)      { panic("unreachable") }
func correlateRowVector(out, z *Row, filter *float64, taps int)        { panic("unreachable") }
func forwardVector(x *Row, quarter, blocks int, _ *twiddle)            { panic("unreachable") }
func backwardVector(x *Row, quarter, blocks int, _ *twiddle)           { panic("unreachable") }
func leavesVector(x *Row, leaves int, spectrum *[4]complex128)         { panic("unreachable") }
