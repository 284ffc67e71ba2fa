#include "textflag.h"

// Each lane does what the portable functions do, in the same order: see kernels.go. A row is two Y registers: lanes 0-3, the
// real parts of a transform, and lanes 4-7, the imaginary ones.

// func normalsVector(z *Row, words *uint64, rows int, t *vectorTables)
TEXT ·normalsVector(SB), NOSPLIT, $0-32
	MOVQ z+0(FP), DI
	MOVQ words+8(FP), SI
	MOVQ rows+16(FP), CX
	MOVQ t+24(FP), AX
	VMOVUPD 0(AX), Y15 // 1

row:
	VMOVDQU 0(SI), Y0
	VMOVDQU 32(SI), Y8
	VPSRLQ $12, Y0, Y0
	VPSRLQ $12, Y8, Y8
	VPOR Y15, Y0, Y0
	VPOR Y15, Y8, Y8
	VMOVUPD 32(AX), Y1
	VSUBPD Y0, Y1, Y0       // u = 2 - 1.…
	VSUBPD 64(AX), Y8, Y8   // v
	VPADDQ 96(AX), Y0, Y0
	VPSRLQ $52, Y0, Y2
	VPAND 128(AX), Y0, Y0
	VPADDQ 160(AX), Y0, Y0  // m
	VMULPD Y8, Y8, Y9       // w
	VMOVUPD 512(AX), Y10
	VMOVUPD 704(AX), Y11
	VADDPD Y15, Y0, Y3
	VSUBPD Y15, Y0, Y4
	VDIVPD Y3, Y4, Y3       // s
	VFMADD213PD 544(AX), Y9, Y10
	VFMADD213PD 736(AX), Y9, Y11
	VPOR 192(AX), Y2, Y2
	VSUBPD 224(AX), Y2, Y2  // e
	VFMADD213PD 576(AX), Y9, Y10
	VFMADD213PD 768(AX), Y9, Y11
	VMULPD Y3, Y3, Y4       // s²
	VMOVUPD 256(AX), Y5
	VFMADD213PD 608(AX), Y9, Y10
	VFMADD213PD 800(AX), Y9, Y11
	VFMADD213PD 288(AX), Y4, Y5
	VFMADD213PD 640(AX), Y9, Y10
	VFMADD213PD 832(AX), Y9, Y11
	VFMADD213PD 320(AX), Y4, Y5
	VFMADD213PD 672(AX), Y9, Y10
	VFMADD213PD 864(AX), Y9, Y11 // cos
	VFMADD213PD 352(AX), Y4, Y5
	VMULPD Y8, Y10, Y10     // sin
	VFMADD213PD 384(AX), Y4, Y5
	VADDPD Y10, Y10, Y12
	VMOVAPD Y15, Y13
	VFNMADD231PD Y12, Y10, Y13 // cos 2
	VMULPD Y12, Y11, Y11    // sin 2
	VFMADD213PD 416(AX), Y4, Y5
	VADDPD Y11, Y11, Y12
	VMOVAPD Y15, Y14
	VFNMADD231PD Y12, Y11, Y14 // cos 4
	VMULPD Y12, Y13, Y13    // sin 4
	VFMADD213PD 448(AX), Y4, Y5 // -4 - 2 s² p
	VMULPD Y3, Y5, Y5
	VFMADD231PD 480(AX), Y2, Y5 // -2 ln u
	VSQRTPD Y5, Y5
	VMULPD Y5, Y14, Y14
	VMULPD Y5, Y13, Y13
	VMOVUPD Y14, 0(DI)
	VMOVUPD Y13, 32(DI)
	ADDQ $64, SI
	ADDQ $64, DI
	DECQ CX
	JNZ  row
	VZEROUPPER
	RET

// EXP2 replaces x by 2^x; k and p are lost. AX holds the tables, Y15 the rounding constant.
#define EXP2x2(x, k, p, y, l, r) \
	VADDPD Y15, x, k \
	VADDPD Y15, y, l \
	VSUBPD Y15, k, p \
	VSUBPD Y15, l, r \
	VSUBPD p, x, x \
	VSUBPD r, y, y \
	VMOVUPD 928(AX), p \
	VMOVAPD p, r \
	VMOVUPD 960(AX), Y14 \
	VFMADD213PD Y14, x, p \
	VFMADD213PD Y14, y, r \
	VMOVUPD 992(AX), Y14 \
	VFMADD213PD Y14, x, p \
	VFMADD213PD Y14, y, r \
	VMOVUPD 1024(AX), Y14 \
	VFMADD213PD Y14, x, p \
	VFMADD213PD Y14, y, r \
	VMOVUPD 1056(AX), Y14 \
	VFMADD213PD Y14, x, p \
	VFMADD213PD Y14, y, r \
	VMOVUPD 1088(AX), Y14 \
	VFMADD213PD Y14, x, p \
	VFMADD213PD Y14, y, r \
	VMOVUPD 1120(AX), Y14 \
	VFMADD213PD Y14, x, p \
	VFMADD213PD Y14, y, r \
	VMOVUPD 1152(AX), Y14 \
	VFMADD213PD Y14, x, p \
	VFMADD213PD Y14, y, r \
	VMOVUPD 1184(AX), Y14 \
	VFMADD213PD Y14, x, p \
	VFMADD213PD Y14, y, r \
	VMOVUPD 1216(AX), Y14 \
	VFMADD213PD Y14, x, p \
	VFMADD213PD Y14, y, r \
	VPSLLQ $52, k, k \
	VPSLLQ $52, l, l \
	VPADDQ k, p, x \
	VPADDQ l, r, y

// func exp2Vector(dst, t *Row, rows int, tables *vectorTables)
TEXT ·exp2Vector(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ t+8(FP), SI
	MOVQ rows+16(FP), CX
	MOVQ tables+24(FP), AX
	VMOVUPD 896(AX), Y15

row:
	VMOVUPD 0(SI), Y0
	VMOVUPD 32(SI), Y3
	EXP2x2(Y0, Y1, Y2, Y3, Y4, Y5)
	VMOVUPD Y0, 0(DI)
	VMOVUPD Y3, 32(DI)
	ADDQ $64, SI
	ADDQ $64, DI
	DECQ CX
	JNZ  row
	VZEROUPPER
	RET

// func turnVector(out, next, other *Row, otherStep, entries int, weights *float64, jump *Row, stay float64)
TEXT ·turnVector(SB), NOSPLIT, $0-64
	MOVQ out+0(FP), DI
	MOVQ next+8(FP), SI
	MOVQ other+16(FP), R8
	MOVQ otherStep+24(FP), R9
	MOVQ entries+32(FP), CX
	MOVQ weights+40(FP), BX
	MOVQ jump+48(FP), AX
	VMOVUPD 0(AX), Y14
	VMOVUPD 32(AX), Y15
	VBROADCASTSD stay+56(FP), Y13

entry:
	VBROADCASTSD (BX), Y0
	VMULPD 0(SI), Y13, Y1
	VMULPD 32(SI), Y13, Y2
	VMULPD Y14, Y0, Y3
	VMULPD Y15, Y0, Y4
	VFMADD231PD 0(R8), Y3, Y1
	VFMADD231PD 32(R8), Y4, Y2
	VMOVUPD Y1, 0(DI)
	VMOVUPD Y2, 32(DI)
	ADDQ $8, BX
	ADDQ $64, SI
	ADDQ $64, DI
	ADDQ R9, R8
	DECQ CX
	JNZ  entry
	VZEROUPPER
	RET

// func betweenVector(x *Row, rows int, low, high float64) (all int)
TEXT ·betweenVector(SB), NOSPLIT, $0-40
	MOVQ x+0(FP), SI
	MOVQ rows+8(FP), CX
	VBROADCASTSD low+16(FP), Y12
	VBROADCASTSD high+24(FP), Y13
	VPCMPEQQ Y0, Y0, Y0
	VMOVAPD Y0, Y1

row:
	VMOVUPD 0(SI), Y2
	VMOVUPD 32(SI), Y3
	VCMPPD $0x1d, Y12, Y2, Y4 // ≥, false for NaN
	VCMPPD $0x1d, Y12, Y3, Y5
	VCMPPD $0x12, Y13, Y2, Y6 // ≤, false for NaN
	VCMPPD $0x12, Y13, Y3, Y7
	VANDPD Y4, Y0, Y0
	VANDPD Y5, Y1, Y1
	VANDPD Y6, Y0, Y0
	VANDPD Y7, Y1, Y1
	ADDQ $64, SI
	DECQ CX
	JNZ  row
	VANDPD Y1, Y0, Y0
	VMOVMSKPD Y0, AX
	MOVQ AX, all+32(FP)
	VZEROUPPER
	RET

// TAP adds the row in Y8, Y9 times a coefficient to a sum.
#define TAP(c, lo, hi) \
	VBROADCASTSD c, Y10 \
	VFMADD231PD Y8, Y10, lo \
	VFMADD231PD Y9, Y10, hi

#define LOAD(p) \
	VMOVUPD 0(p), Y8 \
	VMOVUPD 32(p), Y9

#define ZERO(a, b) \
	VXORPD a, a, a \
	VXORPD b, b, b

// func correlateVector(out, z *Row, rows int, filter *float64, taps int)
// Four rows at a time, which share all but the first and the last three rows of their windows; rows is a multiple of 4 and taps ≥ 4.
TEXT ·correlateVector(SB), NOSPLIT, $0-40
	MOVQ out+0(FP), DI
	MOVQ z+8(FP), SI
	MOVQ rows+16(FP), CX
	MOVQ filter+24(FP), BX
	MOVQ taps+32(FP), R9

four:
	ZERO(Y0, Y1)
	ZERO(Y2, Y3)
	ZERO(Y4, Y5)
	ZERO(Y6, Y7)
	LOAD(SI)
	TAP(0(BX), Y0, Y1)
	LEAQ 64(SI), R12
	LOAD(R12)
	TAP(8(BX), Y0, Y1)
	TAP(0(BX), Y2, Y3)
	LEAQ 128(SI), R12
	LOAD(R12)
	TAP(16(BX), Y0, Y1)
	TAP(8(BX), Y2, Y3)
	TAP(0(BX), Y4, Y5)
	LEAQ 192(SI), R12
	MOVQ BX, R10
	LEAQ -3(R9), DX

tap:
	LOAD(R12)
	TAP(24(R10), Y0, Y1)
	TAP(16(R10), Y2, Y3)
	TAP(8(R10), Y4, Y5)
	TAP(0(R10), Y6, Y7)
	ADDQ $64, R12
	ADDQ $8, R10
	DECQ DX
	JNZ  tap

	LOAD(R12)
	TAP(16(R10), Y2, Y3)
	TAP(8(R10), Y4, Y5)
	TAP(0(R10), Y6, Y7)
	ADDQ $64, R12
	LOAD(R12)
	TAP(16(R10), Y4, Y5)
	TAP(8(R10), Y6, Y7)
	ADDQ $64, R12
	LOAD(R12)
	TAP(16(R10), Y6, Y7)
	VMOVUPD Y0, 0(DI)
	VMOVUPD Y1, 32(DI)
	VMOVUPD Y2, 64(DI)
	VMOVUPD Y3, 96(DI)
	VMOVUPD Y4, 128(DI)
	VMOVUPD Y5, 160(DI)
	VMOVUPD Y6, 192(DI)
	VMOVUPD Y7, 224(DI)
	ADDQ $256, SI
	ADDQ $256, DI
	SUBQ $4, CX
	JNZ  four
	VZEROUPPER
	RET

// func correlateRowVector(out, z *Row, filter *float64, taps int)
TEXT ·correlateRowVector(SB), NOSPLIT, $0-32
	MOVQ out+0(FP), DI
	MOVQ z+8(FP), SI
	MOVQ filter+16(FP), BX
	MOVQ taps+24(FP), CX
	ZERO(Y0, Y1)

tap:
	LOAD(SI)
	TAP((BX), Y0, Y1)
	ADDQ $64, SI
	ADDQ $8, BX
	DECQ CX
	JNZ  tap
	VMOVUPD Y0, 0(DI)
	VMOVUPD Y1, 32(DI)
	VZEROUPPER
	RET

// LOADS loads four rows, the i-th i·R8 bytes after SI; R9 is 3·R8.
#define LOADS \
	VMOVUPD 0(SI), Y0 \
	VMOVUPD 32(SI), Y1 \
	VMOVUPD (SI)(R8*1), Y2 \
	VMOVUPD 32(SI)(R8*1), Y3 \
	VMOVUPD (SI)(R8*2), Y4 \
	VMOVUPD 32(SI)(R8*2), Y5 \
	VMOVUPD (SI)(R9*1), Y6 \
	VMOVUPD 32(SI)(R9*1), Y7

#define STORES(at, re, im) \
	VMOVUPD re, 0 at \
	VMOVUPD im, 32 at

// SUMS makes of the rows a, b, c, d in Y0 … Y7 e = a+c in Y8, Y9, f = a-c in Y0, Y1 and g = b+d in Y10, Y11.
#define SUMS \
	VADDPD Y4, Y0, Y8 \
	VADDPD Y5, Y1, Y9 \
	VSUBPD Y4, Y0, Y0 \
	VSUBPD Y5, Y1, Y1 \
	VADDPD Y6, Y2, Y10 \
	VADDPD Y7, Y3, Y11

// FORTH makes h = -i(b-d) in Y4, Y5, BACK h = i(b-d).
#define FORTH \
	VSUBPD Y7, Y3, Y4 \
	VSUBPD Y2, Y6, Y5

#define BACK \
	VSUBPD Y3, Y7, Y4 \
	VSUBPD Y6, Y2, Y5

// RESULTS makes e+g in Y2, Y3, f+h in Y6, Y7, e-g in Y8, Y9 and f-h in Y0, Y1.
#define RESULTS \
	VADDPD Y10, Y8, Y2 \
	VADDPD Y11, Y9, Y3 \
	VADDPD Y4, Y0, Y6 \
	VADDPD Y5, Y1, Y7 \
	VSUBPD Y10, Y8, Y8 \
	VSUBPD Y11, Y9, Y9 \
	VSUBPD Y4, Y0, Y0 \
	VSUBPD Y5, Y1, Y1

// TIMES sets re, im to the complex numbers u, v times the one at off(DX); re and im are not u or v.
#define TIMES(off, u, v, re, im) \
	VBROADCASTSD off(DX), Y12 \
	VBROADCASTSD off+8(DX), Y13 \
	VMULPD Y13, v, re \
	VMULPD Y12, v, im \
	VFMSUB231PD Y12, u, re \
	VFMADD231PD Y13, u, im

// CONJ multiplies u, v with the conjugate of the complex number at off(DX).
#define CONJ(off, u, v) \
	VBROADCASTSD off(DX), Y12 \
	VBROADCASTSD off+8(DX), Y13 \
	VMULPD Y13, v, Y14 \
	VMULPD Y13, u, Y15 \
	VFMADD213PD Y14, Y12, u \
	VFMSUB213PD Y15, Y12, v

// func forwardVector(x *Row, quarter, blocks int, twiddles *twiddle)
TEXT ·forwardVector(SB), NOSPLIT, $0-32
	MOVQ x+0(FP), SI
	MOVQ quarter+8(FP), R10
	MOVQ blocks+16(FP), R11
	MOVQ twiddles+24(FP), BX
	MOVQ R10, R8
	SHLQ $6, R8
	LEAQ (R8)(R8*2), R9

block:
	MOVQ BX, DX
	MOVQ R10, CX

row:
	LOADS
	SUMS
	FORTH
	RESULTS
	STORES((SI), Y2, Y3)
	TIMES(0, Y6, Y7, Y14, Y15)
	STORES((SI)(R8*1), Y14, Y15)
	TIMES(16, Y8, Y9, Y4, Y5)
	STORES((SI)(R8*2), Y4, Y5)
	TIMES(32, Y0, Y1, Y10, Y11)
	STORES((SI)(R9*1), Y10, Y11)
	ADDQ $64, SI
	ADDQ $48, DX
	DECQ CX
	JNZ  row
	ADDQ R9, SI
	DECQ R11
	JNZ  block
	VZEROUPPER
	RET

// func backwardVector(x *Row, quarter, blocks int, twiddles *twiddle)
TEXT ·backwardVector(SB), NOSPLIT, $0-32
	MOVQ x+0(FP), SI
	MOVQ quarter+8(FP), R10
	MOVQ blocks+16(FP), R11
	MOVQ twiddles+24(FP), BX
	MOVQ R10, R8
	SHLQ $6, R8
	LEAQ (R8)(R8*2), R9

block:
	MOVQ BX, DX
	MOVQ R10, CX

row:
	LOADS
	CONJ(0, Y2, Y3)
	CONJ(16, Y4, Y5)
	CONJ(32, Y6, Y7)
	SUMS
	BACK
	RESULTS
	STORES((SI), Y2, Y3)
	STORES((SI)(R8*1), Y6, Y7)
	STORES((SI)(R8*2), Y8, Y9)
	STORES((SI)(R9*1), Y0, Y1)
	ADDQ $64, SI
	ADDQ $48, DX
	DECQ CX
	JNZ  row
	ADDQ R9, SI
	DECQ R11
	JNZ  block
	VZEROUPPER
	RET

// func leavesVector(x *Row, leaves int, spectrum *[4]complex128)
TEXT ·leavesVector(SB), NOSPLIT, $0-24
	MOVQ x+0(FP), SI
	MOVQ leaves+8(FP), CX
	MOVQ spectrum+16(FP), DX
	MOVQ $64, R8
	MOVQ $192, R9

leaf:
	LOADS
	SUMS
	FORTH
	RESULTS
	TIMES(32, Y8, Y9, Y4, Y5)
	TIMES(48, Y0, Y1, Y8, Y9)
	TIMES(0, Y2, Y3, Y0, Y1)
	TIMES(16, Y6, Y7, Y2, Y3)
	VMOVAPD Y8, Y6
	VMOVAPD Y9, Y7
	SUMS
	BACK
	RESULTS
	STORES((SI), Y2, Y3)
	STORES((SI)(R8*1), Y6, Y7)
	STORES((SI)(R8*2), Y8, Y9)
	STORES((SI)(R9*1), Y0, Y1)
	ADDQ $256, SI
	ADDQ $64, DX
	DECQ CX
	JNZ  leaf
	VZEROUPPER
	RET
