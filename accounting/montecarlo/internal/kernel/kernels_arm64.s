#include "textflag.h"
#include "neon_arm64.h"

// Each lane does what the portable functions do, in the same order: see kernels.go. A row is four
// vectors.

// FOUR is one instruction for each vector of a row, the first of which are a, b and c.
#define FOUR(op, a, b, c) \
	op(a, b, c) \
	op(a+1, b+1, c+1) \
	op(a+2, b+2, c+2) \
	op(a+3, b+3, c+3)

// FOURALL is FOUR with one vector a for all of them.
#define FOURALL(op, a, b, c) \
	op(a, b, c) \
	op(a, b+1, c+1) \
	op(a, b+2, c+2) \
	op(a, b+3, c+3)

// FOURLANE is FOUR with one lane of one vector for all of them.
#define FOURLANE(op, a, lane, b, c) \
	op(a, lane, b, c) \
	op(a, lane, b+1, c+1) \
	op(a, lane, b+2, c+2) \
	op(a, lane, b+3, c+3)

// SINCOS takes a step of Horner's rule for two vectors of sines and two of cosines, from p on, into
// those from q on; LOG one for two vectors of logarithms. The next coefficients go to where the
// sums will be.
#define SINCOS(p, q, Q0, Q1, Q2, Q3) \
	VLD1.P 64(R5), [Q0.D2, Q1.D2, Q2.D2, Q3.D2] \
	VFMADD(8, p, q) \
	VFMADD(9, p+1, q+1) \
	VFMADD(8, p+2, q+2) \
	VFMADD(9, p+3, q+3)

#define LOG(p, q, Q0, Q1) \
	VLD1.P 32(R5), [Q0.D2, Q1.D2] \
	VFMADD(6, p, q) \
	VFMADD(7, p+1, q+1)

// func normalsVector(z *Row, words *uint64, rows int, t *vectorTables)
// The constants are in V16 to V27.
TEXT ·normalsVector(SB), NOSPLIT, $0-32
	MOVD z+0(FP), R0
	MOVD words+8(FP), R1
	MOVD rows+16(FP), R3
	MOVD t+24(FP), R4
	VLD1.P 64(R4), [V16.D2, V17.D2, V18.D2, V19.D2]
	VLD1.P 64(R4), [V20.D2, V21.D2, V22.D2, V23.D2]
	VLD1.P 64(R4), [V24.D2, V25.D2, V26.D2, V27.D2]

row:
	MOVD R4, R5
	VLD1.P 64(R1), [V0.D2, V1.D2, V2.D2, V3.D2] // two vectors of radii, two of angles
	VUSHR $12, V0.D2, V0.D2
	VUSHR $12, V1.D2, V1.D2
	VUSHR $12, V2.D2, V2.D2
	VUSHR $12, V3.D2, V3.D2
	VORR V24.B16, V0.B16, V0.B16
	VORR V24.B16, V1.B16, V1.B16
	VORR V24.B16, V2.B16, V2.B16
	VORR V24.B16, V3.B16, V3.B16
	VFSUB(0, 16, 0)                // u = 2 - 1.…
	VFSUB(1, 16, 1)
	VFSUB(17, 2, 2)                // v
	VFSUB(17, 3, 3)
	VADD V18.D2, V0.D2, V0.D2
	VADD V18.D2, V1.D2, V1.D2
	VUSHR $52, V0.D2, V4.D2
	VUSHR $52, V1.D2, V5.D2
	VAND V19.B16, V0.B16, V0.B16
	VAND V19.B16, V1.B16, V1.B16
	VADD V20.D2, V0.D2, V0.D2      // m
	VADD V20.D2, V1.D2, V1.D2
	VFADD(24, 0, 6)
	VFADD(24, 1, 7)
	VFSUB(24, 0, 0)
	VFSUB(24, 1, 1)
	VFDIV(6, 0, 0)                 // s
	VFDIV(7, 1, 1)
	VORR V21.B16, V4.B16, V4.B16
	VORR V21.B16, V5.B16, V5.B16
	VFSUB(22, 4, 4)                // e
	VFSUB(22, 5, 5)
	VFMUL(2, 2, 8)                 // v²
	VFMUL(3, 3, 9)
	VLD1.P 64(R5), [V28.D2, V29.D2, V30.D2, V31.D2]
	VFMADD(8, 26, 28)
	VFMADD(9, 26, 29)
	VFMADD(8, 27, 30)
	VFMADD(9, 27, 31)
	SINCOS(28, 10, V10, V11, V12, V13)
	SINCOS(10, 28, V28, V29, V30, V31)
	SINCOS(28, 10, V10, V11, V12, V13)
	SINCOS(10, 28, V28, V29, V30, V31)
	VFMUL(0, 0, 6)                 // s²
	VFMUL(1, 1, 7)
	VLD1.P 32(R5), [V10.D2, V11.D2]
	VFMADD(6, 25, 10)
	VFMADD(7, 25, 11)
	LOG(10, 12, V12, V13)
	LOG(12, 10, V10, V11)
	LOG(10, 12, V12, V13)
	LOG(12, 10, V10, V11)
	LOG(10, 12, V12, V13)          // -4 - 2 s² p
	VFMUL(0, 12, 12)
	VFMUL(1, 13, 13)
	VFMADD(4, 23, 12)              // -2 ln u
	VFMADD(5, 23, 13)
	VFSQRT(12, 12)
	VFSQRT(13, 13)
	VFMUL(2, 28, 28)               // sin
	VFMUL(3, 29, 29)
	VFADD(28, 28, 14)
	VFADD(29, 29, 15)
	VMOV V24.B16, V0.B16
	VMOV V24.B16, V1.B16
	VFMSUB(14, 28, 0)              // cos 2
	VFMSUB(15, 29, 1)
	VFMUL(14, 30, 30)              // sin 2
	VFMUL(15, 31, 31)
	VFADD(30, 30, 14)
	VFADD(31, 31, 15)
	VFMUL(14, 0, 2)                // sin 4
	VFMUL(15, 1, 3)
	VMOV V24.B16, V0.B16
	VMOV V24.B16, V1.B16
	VFMSUB(14, 30, 0)              // cos 4
	VFMSUB(15, 31, 1)
	VFMUL(12, 0, 0)
	VFMUL(13, 1, 1)
	VFMUL(12, 2, 2)
	VFMUL(13, 3, 3)
	VST1.P [V0.D2, V1.D2, V2.D2, V3.D2], 64(R0)
	SUBS $1, R3
	BNE row
	RET

// TERM takes a step of Horner's rule for the row x in V0 to V3.
#define TERM(p, q, Q0, Q1, Q2, Q3) \
	VLD1.P 64(R5), [Q0.D2, Q1.D2, Q2.D2, Q3.D2] \
	FOUR(VFMADD, 0, p, q)

// EXP2 replaces the row x in V0 to V3 by 2^x. R4 points to the coefficients after the highest,
// which V30 has; V31 rounds. It uses R5, V4 to V11 and V16 to V19.
#define EXP2 \
	MOVD R4, R5 \
	FOURALL(VFADD, 31, 0, 4) \
	FOURALL(VFSUB, 31, 4, 8) \
	FOUR(VFSUB, 8, 0, 0) \
	VLD1.P 64(R5), [V8.D2, V9.D2, V10.D2, V11.D2] \
	VFMADD(0, 30, 8) \
	VFMADD(1, 30, 9) \
	VFMADD(2, 30, 10) \
	VFMADD(3, 30, 11) \
	TERM(8, 16, V16, V17, V18, V19) \
	TERM(16, 8, V8, V9, V10, V11) \
	TERM(8, 16, V16, V17, V18, V19) \
	TERM(16, 8, V8, V9, V10, V11) \
	TERM(8, 16, V16, V17, V18, V19) \
	TERM(16, 8, V8, V9, V10, V11) \
	TERM(8, 16, V16, V17, V18, V19) \
	TERM(16, 8, V8, V9, V10, V11) \
	VSHL $52, V4.D2, V4.D2 \
	VSHL $52, V5.D2, V5.D2 \
	VSHL $52, V6.D2, V6.D2 \
	VSHL $52, V7.D2, V7.D2 \
	VADD V4.D2, V8.D2, V0.D2 \
	VADD V5.D2, V9.D2, V1.D2 \
	VADD V6.D2, V10.D2, V2.D2 \
	VADD V7.D2, V11.D2, V3.D2

// func exp2Vector(dst, t *Row, rows int, a *float64, tables *vectorTables)
TEXT ·exp2Vector(SB), NOSPLIT, $0-40
	MOVD dst+0(FP), R0
	MOVD t+8(FP), R1
	MOVD rows+16(FP), R3
	MOVD a+24(FP), R6
	MOVD tables+32(FP), R4
	ADD $704, R4
	VLD1.P 16(R4), [V31.D2]
	VLD1.P 16(R4), [V30.D2]

row:
	VLD1R.P 8(R6), [V20.D2]
	VLD1.P 64(R1), [V0.D2, V1.D2, V2.D2, V3.D2]
	FOURALL(VFADD, 20, 0, 0)
	EXP2
	VST1.P [V0.D2, V1.D2, V2.D2, V3.D2], 64(R0)
	SUBS $1, R3
	BNE row
	RET

// func renewalVector(f, t *Row, rows int, a, stay *float64, stayStep int, ahead *Row, aheadStep int, tables *vectorTables)
// Pointers are those of the last row; steps are bytes. V12 to V15 have f of the row after.
TEXT ·renewalVector(SB), NOSPLIT, $0-72
	MOVD f+0(FP), R0
	MOVD t+8(FP), R1
	MOVD rows+16(FP), R3
	MOVD a+24(FP), R6
	MOVD stay+32(FP), R7
	MOVD stayStep+40(FP), R8
	NEG R8, R8
	MOVD ahead+48(FP), R9
	MOVD aheadStep+56(FP), R10
	NEG R10, R10
	MOVD tables+64(FP), R4
	ADD $704, R4
	VLD1.P 16(R4), [V31.D2]
	VLD1.P 16(R4), [V30.D2]
	MOVD $-64, R11
	MOVD $-8, R12
	ADD $64, R0, R5
	VLD1 (R5), [V12.D2, V13.D2, V14.D2, V15.D2]

row:
	VLD1R.P (R6)(R12), [V20.D2]
	VLD1.P (R1)(R11), [V0.D2, V1.D2, V2.D2, V3.D2]
	FOURALL(VFADD, 20, 0, 0)
	EXP2
	VLD1.P (R9)(R10), [V4.D2, V5.D2, V6.D2, V7.D2]
	VLD1R.P (R7)(R8), [V20.D2]
	FOUR(VFMUL, 4, 0, 0)
	FOURALL(VFMADD, 20, 12, 0)
	VST1.P [V0.D2, V1.D2, V2.D2, V3.D2], (R0)(R11)
	VMOV V0.B16, V12.B16
	VMOV V1.B16, V13.B16
	VMOV V2.B16, V14.B16
	VMOV V3.B16, V15.B16
	SUBS $1, R3
	BNE row
	RET

// func pairVector(out, next, other *Row, otherStep, entries int, weights *float64, jump *Row, stay float64)
TEXT ·pairVector(SB), NOSPLIT, $0-64
	MOVD out+0(FP), R0
	MOVD next+8(FP), R1
	MOVD other+16(FP), R6
	MOVD otherStep+24(FP), R7
	MOVD entries+32(FP), R3
	MOVD weights+40(FP), R4
	MOVD jump+48(FP), R5
	VLD1 (R5), [V16.D2, V17.D2, V18.D2, V19.D2]
	FMOVD stay+56(FP), F20

entry:
	VLD1R.P 8(R4), [V21.D2]
	VLD1.P 64(R1), [V0.D2, V1.D2, V2.D2, V3.D2]
	VLD1.P (R6)(R7), [V4.D2, V5.D2, V6.D2, V7.D2]
	FOURLANE(VFMULE, 20, 0, 0, 0)
	FOURALL(VFMUL, 21, 16, 8)
	FOUR(VFMADD, 4, 8, 0)
	VST1.P [V0.D2, V1.D2, V2.D2, V3.D2], 64(R0)
	SUBS $1, R3
	BNE entry
	RET

// func betweenVector(x *Row, rows int, low, high float64) (all int)
// V0 to V3 have the least values yet, V4 to V7 the greatest; NaN stays.
TEXT ·betweenVector(SB), NOSPLIT, $0-40
	MOVD x+0(FP), R0
	MOVD rows+8(FP), R3
	VLD1 (R0), [V0.D2, V1.D2, V2.D2, V3.D2]
	VLD1.P 64(R0), [V4.D2, V5.D2, V6.D2, V7.D2]
	SUBS $1, R3
	BEQ compare

row:
	VLD1.P 64(R0), [V16.D2, V17.D2, V18.D2, V19.D2]
	FOUR(VFMIN, 16, 0, 0)
	FOUR(VFMAX, 16, 4, 4)
	SUBS $1, R3
	BNE row

compare:
	MOVD low+16(FP), R1
	VDUP R1, V20.D2
	MOVD high+24(FP), R1
	VDUP R1, V21.D2
	VFMIN(1, 0, 0)
	VFMIN(3, 2, 2)
	VFMIN(2, 0, 0)
	VFMAX(5, 4, 4)
	VFMAX(7, 6, 6)
	VFMAX(6, 4, 4)
	VFCMGE(20, 0, 0)
	VFCMGE(4, 21, 4)
	VAND V4.B16, V0.B16, V0.B16
	VMOV V0.D[0], R1
	VMOV V0.D[1], R2
	AND R1, R2
	AND $15, R2
	MOVD R2, all+32(FP)
	RET

#define ZERO(a, b, c, d) \
	VEOR a.B16, a.B16, a.B16 \
	VEOR b.B16, b.B16, b.B16 \
	VEOR c.B16, c.B16, c.B16 \
	VEOR d.B16, d.B16, d.B16

// TAP adds the row in V16 to V19 times a lane of c to the sum from s on, LOAD loads the next row.
#define TAP(c, lane, s) FOURLANE(VFMADDE, c, lane, 16, s)

#define LOAD VLD1.P 64(R5), [V16.D2, V17.D2, V18.D2, V19.D2]

// func correlateVector(out, z *Row, rows int, filter *float64, taps int)
// Four rows at a time, which share all but the first and the last three rows of their windows; rows
// is a multiple of 4 and taps ≥ 4. V20 and V21 have four taps.
TEXT ·correlateVector(SB), NOSPLIT, $0-40
	MOVD out+0(FP), R0
	MOVD z+8(FP), R1
	MOVD rows+16(FP), R3
	MOVD filter+24(FP), R6
	MOVD taps+32(FP), R7
	SUB $3, R7
	MOVD $8, R8

four:
	ZERO(V0, V1, V2, V3)
	ZERO(V4, V5, V6, V7)
	ZERO(V8, V9, V10, V11)
	ZERO(V12, V13, V14, V15)
	VLD1 (R6), [V20.D2, V21.D2]
	MOVD R1, R5
	LOAD
	TAP(20, 0, 0)
	LOAD
	TAP(20, 1, 0)
	TAP(20, 0, 4)
	LOAD
	TAP(21, 0, 0)
	TAP(20, 1, 4)
	TAP(20, 0, 8)
	MOVD R6, R9
	MOVD R7, R4

tap:
	VLD1.P (R9)(R8), [V20.D2, V21.D2]
	LOAD
	TAP(21, 1, 0)
	TAP(21, 0, 4)
	TAP(20, 1, 8)
	TAP(20, 0, 12)
	SUBS $1, R4
	BNE tap

	LOAD
	TAP(21, 1, 4)
	TAP(21, 0, 8)
	TAP(20, 1, 12)
	LOAD
	TAP(21, 1, 8)
	TAP(21, 0, 12)
	LOAD
	TAP(21, 1, 12)
	VST1.P [V0.D2, V1.D2, V2.D2, V3.D2], 64(R0)
	VST1.P [V4.D2, V5.D2, V6.D2, V7.D2], 64(R0)
	VST1.P [V8.D2, V9.D2, V10.D2, V11.D2], 64(R0)
	VST1.P [V12.D2, V13.D2, V14.D2, V15.D2], 64(R0)
	ADD $256, R1
	SUBS $4, R3
	BNE four
	RET

// func correlateRowVector(out, z *Row, filter *float64, taps int)
TEXT ·correlateRowVector(SB), NOSPLIT, $0-32
	MOVD out+0(FP), R0
	MOVD z+8(FP), R5
	MOVD filter+16(FP), R6
	MOVD taps+24(FP), R3
	ZERO(V0, V1, V2, V3)

tap:
	LOAD
	VLD1R.P 8(R6), [V20.D2]
	FOURALL(VFMADD, 20, 16, 0)
	SUBS $1, R3
	BNE tap
	VST1 [V0.D2, V1.D2, V2.D2, V3.D2], (R0)
	RET
