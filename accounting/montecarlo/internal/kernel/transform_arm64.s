#include "textflag.h"
#include "neon_arm64.h"

// The transforms: each lane does what the portable functions do, in the same order. The four rows
// of a step, a, b, c and d, are in V0 to V3, V4 to V7, V8 to V11 and V12 to V15: two vectors of the
// real parts and two of the imaginary ones. Macros do one half k of the lanes, 0 or 1: its vectors
// are k and k+2.

// FORTH makes of them e = a+c from E on, f = a-c from E+2 on, g = b+d in place of c and
// h = -i(b-d) from E+4 on.
#define FORTH(k, E) \
	VFADD(8+k, 0+k, E) \
	VFADD(10+k, 2+k, E+1) \
	VFSUB(8+k, 0+k, E+2) \
	VFSUB(10+k, 2+k, E+3) \
	VFADD(12+k, 4+k, 8+k) \
	VFADD(14+k, 6+k, 10+k) \
	VFSUB(14+k, 6+k, E+4) \
	VFSUB(4+k, 12+k, E+5)

// BACK makes of a, which is in its place, and of b, c and d, whose two vectors are named, e = a+c
// from E on, f = a-c in place of a, g = b+d from G on and h = i(b-d) from H on, and of these e+g,
// f+h, e-g and f-h in the places of the rows. G may be where c was.
#define BACK(k, B, BI, C, CI, D, DI, E, G, H) \
	VFADD(C, 0+k, E) \
	VFADD(CI, 2+k, E+1) \
	VFSUB(C, 0+k, 0+k) \
	VFSUB(CI, 2+k, 2+k) \
	VFADD(D, B, G) \
	VFADD(DI, BI, G+1) \
	VFSUB(BI, DI, H) \
	VFSUB(D, B, H+1) \
	VFADD(H, 0+k, 4+k) \
	VFADD(H+1, 2+k, 6+k) \
	VFSUB(H, 0+k, 12+k) \
	VFSUB(H+1, 2+k, 14+k) \
	VFADD(G, E, 0+k) \
	VFADD(G+1, E+1, 2+k) \
	VFSUB(G, E, 8+k) \
	VFSUB(G+1, E+1, 10+k)

// TIMES sets re, im to the complex numbers u, v times the one in w, CONJ to those times its
// conjugate; n is -w. re and im are not u or v.
#define TIMES(w, n, u, v, re, im) \
	VFMULE(n, 1, v, re) \
	VFMULE(w, 0, v, im) \
	VFMADDE(w, 0, u, re) \
	VFMADDE(w, 1, u, im)

#define CONJ(w, n, u, v, re, im) \
	VFMULE(w, 1, v, re) \
	VFMULE(n, 1, u, im) \
	VFMADDE(w, 0, u, re) \
	VFMADDE(w, 0, v, im)

// STEP sets R0 to R3 to the first rows of the four quarters of a block at R0; R8 has the bytes of a
// quarter, R7 its rows. It goes to the first twiddle.
#define STEP \
	ADD R8, R0, R1 \
	ADD R8, R1, R2 \
	ADD R8, R2, R3 \
	MOVD R6, R9 \
	MOVD R7, R4

// LOADS loads the rows, and three twiddles into V16 to V18, and their negatives into V19 to V21.
#define LOADS \
	VLD1 (R0), [V0.D2, V1.D2, V2.D2, V3.D2] \
	VLD1 (R1), [V4.D2, V5.D2, V6.D2, V7.D2] \
	VLD1 (R2), [V8.D2, V9.D2, V10.D2, V11.D2] \
	VLD1 (R3), [V12.D2, V13.D2, V14.D2, V15.D2] \
	VLD1.P 48(R9), [V16.D2, V17.D2, V18.D2] \
	VFNEG(16, 19) \
	VFNEG(17, 20) \
	VFNEG(18, 21)

#define STORES \
	VST1.P [V0.D2, V1.D2, V2.D2, V3.D2], 64(R0) \
	VST1.P [V4.D2, V5.D2, V6.D2, V7.D2], 64(R1) \
	VST1.P [V8.D2, V9.D2, V10.D2, V11.D2], 64(R2) \
	VST1.P [V12.D2, V13.D2, V14.D2, V15.D2], 64(R3)

#define FORWARD(k) \
	FORTH(k, 22) \
	VFADD(8+k, 22, 0+k) \
	VFADD(10+k, 23, 2+k) \
	VFSUB(8+k, 22, 28) \
	VFSUB(10+k, 23, 29) \
	TIMES(17, 20, 28, 29, 8+k, 10+k) \
	VFADD(26, 24, 28) \
	VFADD(27, 25, 29) \
	TIMES(16, 19, 28, 29, 4+k, 6+k) \
	VFSUB(26, 24, 28) \
	VFSUB(27, 25, 29) \
	TIMES(18, 21, 28, 29, 12+k, 14+k)

// func forwardVector(x *Row, quarter, blocks int, twiddles *twiddle)
TEXT ·forwardVector(SB), NOSPLIT, $0-32
	MOVD x+0(FP), R0
	MOVD quarter+8(FP), R7
	MOVD blocks+16(FP), R5
	MOVD twiddles+24(FP), R6
	LSL $6, R7, R8

block:
	STEP

row:
	LOADS
	FORWARD(0)
	FORWARD(1)
	STORES
	SUBS $1, R4
	BNE row
	MOVD R3, R0
	SUBS $1, R5
	BNE block
	RET

#define BACKWARD(k) \
	CONJ(16, 19, 4+k, 6+k, 22, 23) \
	CONJ(17, 20, 8+k, 10+k, 24, 25) \
	CONJ(18, 21, 12+k, 14+k, 26, 27) \
	BACK(k, 22, 23, 24, 25, 26, 27, 28, 24, 30)

// func backwardVector(x *Row, quarter, blocks int, twiddles *twiddle)
TEXT ·backwardVector(SB), NOSPLIT, $0-32
	MOVD x+0(FP), R0
	MOVD quarter+8(FP), R7
	MOVD blocks+16(FP), R5
	MOVD twiddles+24(FP), R6
	LSL $6, R7, R8

block:
	STEP

row:
	LOADS
	BACKWARD(0)
	BACKWARD(1)
	STORES
	SUBS $1, R4
	BNE row
	MOVD R3, R0
	SUBS $1, R5
	BNE block
	RET

// LEAF takes the spectrum from V16 to V19 and its negative from V20 to V23.
#define LEAF(k) \
	FORTH(k, 24) \
	VFADD(8+k, 24, 30) \
	VFADD(10+k, 25, 31) \
	TIMES(16, 20, 30, 31, 0+k, 2+k) \
	VFSUB(8+k, 24, 30) \
	VFSUB(10+k, 25, 31) \
	TIMES(18, 22, 30, 31, 8+k, 10+k) \
	VFADD(28, 26, 30) \
	VFADD(29, 27, 31) \
	TIMES(17, 21, 30, 31, 4+k, 6+k) \
	VFSUB(28, 26, 30) \
	VFSUB(29, 27, 31) \
	TIMES(19, 23, 30, 31, 12+k, 14+k) \
	BACK(k, 4+k, 6+k, 8+k, 10+k, 12+k, 14+k, 24, 26, 28)

// func leavesVector(x *Row, leaves int, spectrum *[4]complex128)
TEXT ·leavesVector(SB), NOSPLIT, $0-24
	MOVD x+0(FP), R0
	MOVD leaves+8(FP), R3
	MOVD spectrum+16(FP), R6
	MOVD R0, R1

leaf:
	VLD1.P 64(R6), [V16.D2, V17.D2, V18.D2, V19.D2]
	VLD1.P 64(R0), [V0.D2, V1.D2, V2.D2, V3.D2]
	VLD1.P 64(R0), [V4.D2, V5.D2, V6.D2, V7.D2]
	VLD1.P 64(R0), [V8.D2, V9.D2, V10.D2, V11.D2]
	VLD1.P 64(R0), [V12.D2, V13.D2, V14.D2, V15.D2]
	VFNEG(16, 20)
	VFNEG(17, 21)
	VFNEG(18, 22)
	VFNEG(19, 23)
	LEAF(0)
	LEAF(1)
	VST1.P [V0.D2, V1.D2, V2.D2, V3.D2], 64(R1)
	VST1.P [V4.D2, V5.D2, V6.D2, V7.D2], 64(R1)
	VST1.P [V8.D2, V9.D2, V10.D2, V11.D2], 64(R1)
	VST1.P [V12.D2, V13.D2, V14.D2, V15.D2], 64(R1)
	SUBS $1, R3
	BNE leaf
	RET
