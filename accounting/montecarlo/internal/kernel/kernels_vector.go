//go:build amd64 || arm64

package kernel

// The functions below are the functions of kernels.go with AVX2 and FMA, or with NEON: the same
// operations in each lane, so the same bits.

//go:noescape
func normalsVector(z *Row, words *uint64, rows int, t *vectorTables)

//go:noescape
func exp2Vector(dst, t *Row, rows int, a *float64, tables *vectorTables)

// renewalVector takes the addresses of the last row, and goes steps of bytes to the one before.
//
//go:noescape
func renewalVector(f, t *Row, rows int, a, stay *float64, stayStep int, ahead *Row, aheadStep int, tables *vectorTables)

//go:noescape
func pairVector(out, next, other *Row, otherStep, entries int, weights *float64, jump *Row, stay float64)

// betweenVector returns 15 if all values are.
//
//go:noescape
func betweenVector(x *Row, rows int, low, high float64) (all int)

// correlateVector is for multiples of four rows and at least four taps.
//
//go:noescape
func correlateVector(out, z *Row, rows int, filter *float64, taps int)

//go:noescape
func correlateRowVector(out, z *Row, filter *float64, taps int)

//go:noescape
func forwardVector(x *Row, quarter, blocks int, twiddles *twiddle)

//go:noescape
func backwardVector(x *Row, quarter, blocks int, twiddles *twiddle)

//go:noescape
func leavesVector(x *Row, leaves int, spectrum *[4]complex128)
