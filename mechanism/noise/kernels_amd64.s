#include "textflag.h"

// Each lane does what the portable functions do, in the same order: see kernels.go. Y registers hold four lanes,
// a row of a panel is four of them.

// NORMALS4 makes the normals of four pairs from the eight words at src(SI) into eight doubles at out(DI).
// AX holds the tables, Y15 collects which radius words are short. It uses Y0-Y14.
#define NORMALS4(src, out) \
	VMOVDQU src(SI), Y0 \
	VMOVDQU src+32(SI), Y1 \
	VPUNPCKLQDQ Y1, Y0, Y2 /* radius words of pairs 0, 2, 1, 3 */ \
	VPUNPCKHQDQ Y1, Y0, Y3 /* angle words */ \
	VPSRLQ $52, Y2, Y4 \
	VPXOR Y5, Y5, Y5 \
	VPCMPEQQ Y5, Y4, Y4 \
	VPOR Y4, Y15, Y15 \
	VPBLENDD $0xaa, 0(AX), Y2, Y4 /* 2^52 + low half */ \
	VPSRLQ $32, Y2, Y5 \
	VPOR 32(AX), Y5, Y5 /* 2^84 + high half 2^32 */ \
	VSUBPD 64(AX), Y5, Y5 \
	VADDPD Y4, Y5, Y5 /* u */ \
	VPSUBQ 96(AX), Y5, Y6 \
	VPSRLQ $52, Y6, Y6 /* k */ \
	VPSLLQ $52, Y6, Y7 \
	VPSUBQ Y7, Y5, Y7 /* m */ \
	VPOR 0(AX), Y6, Y6 \
	VMOVUPD 128(AX), Y8 \
	VSUBPD Y6, Y8, Y6 /* 64 - k */ \
	VSUBPD 160(AX), Y7, Y8 \
	VADDPD 160(AX), Y7, Y9 \
	VDIVPD Y9, Y8, Y8 /* s */ \
	VMULPD Y8, Y8, Y9 /* q */ \
	VMOVUPD 320(AX), Y10 \
	VFMADD213PD 352(AX), Y9, Y10 \
	VFMADD213PD 384(AX), Y9, Y10 \
	VFMADD213PD 416(AX), Y9, Y10 \
	VFMADD213PD 448(AX), Y9, Y10 \
	VFMADD213PD 480(AX), Y9, Y10 \
	VFMADD213PD 512(AX), Y9, Y10 /* M(q) */ \
	VMULPD Y9, Y8, Y11 \
	VMULPD 224(AX), Y8, Y12 \
	VFMADD213PD Y12, Y11, Y10 \
	VMOVUPD 192(AX), Y11 \
	VFMSUB213PD Y10, Y11, Y6 /* -2 ln U */ \
	VSQRTPD Y6, Y6 /* R */ \
	VPSRLQ $12, Y3, Y4 \
	VPOR 160(AX), Y4, Y4 \
	VSUBPD 160(AX), Y4, Y4 \
	VADDPD 256(AX), Y4, Y4 /* x */ \
	VMULPD Y4, Y4, Y5 /* y */ \
	VMOVUPD 544(AX), Y7 \
	VMOVUPD 768(AX), Y8 \
	VFMADD213PD 576(AX), Y5, Y7 \
	VFMADD213PD 800(AX), Y5, Y8 \
	VFMADD213PD 608(AX), Y5, Y7 \
	VFMADD213PD 832(AX), Y5, Y8 \
	VFMADD213PD 640(AX), Y5, Y7 \
	VFMADD213PD 864(AX), Y5, Y8 \
	VFMADD213PD 672(AX), Y5, Y7 \
	VFMADD213PD 896(AX), Y5, Y8 \
	VFMADD213PD 704(AX), Y5, Y7 \
	VFMADD213PD 928(AX), Y5, Y8 \
	VFMADD213PD 736(AX), Y5, Y7 \
	VFMADD213PD 960(AX), Y5, Y8 /* cosine */ \
	VMULPD Y4, Y7, Y7 /* sine */ \
	VPSLLQ $63, Y3, Y9 \
	VBLENDVPD Y9, Y7, Y8, Y10 \
	VBLENDVPD Y9, Y8, Y7, Y11 \
	VPSLLQ $62, Y3, Y12 \
	VPSLLQ $61, Y3, Y13 \
	VPAND 288(AX), Y12, Y12 \
	VPAND 288(AX), Y13, Y13 \
	VXORPD Y12, Y10, Y10 \
	VXORPD Y13, Y11, Y11 \
	VMULPD Y6, Y10, Y10 \
	VMULPD Y6, Y11, Y11 \
	VUNPCKLPD Y11, Y10, Y12 /* pairs 0, 1 */ \
	VUNPCKHPD Y11, Y10, Y13 /* pairs 2, 3 */ \
	VMOVUPD Y12, out(DI) \
	VMOVUPD Y13, out+32(DI)

// func normalsVector(dst *float64, stride int, words *uint64, groups int, t *vectorTables) (short int)
TEXT ·normalsVector(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ stride+8(FP), BX
	SHLQ $3, BX
	MOVQ words+16(FP), SI
	MOVQ groups+24(FP), CX
	MOVQ t+32(FP), AX
	VPXOR Y15, Y15, Y15

group:
	NORMALS4(0, 0)
	NORMALS4(64, 64)
	ADDQ $128, SI
	ADDQ BX, DI
	DECQ CX
	JNZ  group

	VMOVMSKPD Y15, CX
	MOVQ CX, short+40(FP)
	VZEROUPPER
	RET

// ROW loads a row of a panel, ACC adds it times a broadcast coefficient to four sums.
#define ROW(p) \
	VMOVUPD 0(p), Y8 \
	VMOVUPD 32(p), Y9 \
	VMOVUPD 64(p), Y10 \
	VMOVUPD 96(p), Y11

#define ACC(c, s0, s1, s2, s3) \
	VFMADD231PD Y8, c, s0 \
	VFMADD231PD Y9, c, s1 \
	VFMADD231PD Y10, c, s2 \
	VFMADD231PD Y11, c, s3

#define STORE(p, s0, s1, s2, s3) \
	VMOVUPD s0, 0(p) \
	VMOVUPD s1, 32(p) \
	VMOVUPD s2, 64(p) \
	VMOVUPD s3, 96(p)

#define SCALED(p, c, s0, s1, s2, s3) \
	VMULPD 0(p), c, s0 \
	VMULPD 32(p), c, s1 \
	VMULPD 64(p), c, s2 \
	VMULPD 96(p), c, s3

#define ZERO(s0, s1, s2, s3) \
	VXORPD s0, s0, s0 \
	VXORPD s1, s1, s1 \
	VXORPD s2, s2, s2 \
	VXORPD s3, s3, s3

// func feedbackVector(p *float64, history, steps int, gain, f *float64)
// Two steps at a time: each earlier row is loaded once for both.
TEXT ·feedbackVector(SB), NOSPLIT, $0-40
	MOVQ p+0(FP), DI        // oldest row of step t
	MOVQ history+8(FP), CX
	MOVQ steps+16(FP), DX
	MOVQ gain+24(FP), BX
	MOVQ f+32(FP), SI       // coefficients of step t
	MOVQ CX, R8
	SHLQ $7, R8             // bytes of history rows
	MOVQ CX, R9
	SHLQ $3, R9             // bytes of coefficients of a step
	SUBQ $2, DX
	JLT  last

pair:
	LEAQ (DI)(R8*1), R10    // row of step t
	VBROADCASTSD 0(BX), Y12
	VBROADCASTSD 8(BX), Y13
	SCALED(R10, Y12, Y0, Y1, Y2, Y3)
	LEAQ 128(R10), R13
	SCALED(R13, Y13, Y4, Y5, Y6, Y7)
	LEAQ (SI)(R9*1), R11    // coefficients of step t+1
	ROW(DI)
	VBROADCASTSD 0(SI), Y12
	ACC(Y12, Y0, Y1, Y2, Y3)
	LEAQ 128(DI), R12
	MOVQ $1, AX
	CMPQ AX, CX
	JGE  newest

row:
	ROW(R12)
	VBROADCASTSD (SI)(AX*8), Y12
	VBROADCASTSD -8(R11)(AX*8), Y13
	ACC(Y12, Y0, Y1, Y2, Y3)
	ACC(Y13, Y4, Y5, Y6, Y7)
	ADDQ $128, R12
	INCQ AX
	CMPQ AX, CX
	JLT  row

newest:
	STORE(R10, Y0, Y1, Y2, Y3)
	VBROADCASTSD -8(R11)(AX*8), Y13
	VFMADD231PD Y0, Y13, Y4
	VFMADD231PD Y1, Y13, Y5
	VFMADD231PD Y2, Y13, Y6
	VFMADD231PD Y3, Y13, Y7
	STORE(R13, Y4, Y5, Y6, Y7)
	ADDQ $256, DI
	ADDQ $16, BX
	LEAQ (R11)(R9*1), SI
	SUBQ $2, DX
	JGE  pair

last:
	ADDQ $2, DX
	JEQ  done
	LEAQ (DI)(R8*1), R10
	VBROADCASTSD 0(BX), Y12
	SCALED(R10, Y12, Y0, Y1, Y2, Y3)
	XORQ AX, AX

lastrow:
	ROW(DI)
	VBROADCASTSD (SI)(AX*8), Y12
	ACC(Y12, Y0, Y1, Y2, Y3)
	ADDQ $128, DI
	INCQ AX
	CMPQ AX, CX
	JLT  lastrow
	STORE(R10, Y0, Y1, Y2, Y3)

done:
	VZEROUPPER
	RET

// NEXT moves a row of a ring on, from the last slot to the first.
#define NEXT(row) \
	ADDQ R8, row \
	CMPQ row, R9 \
	CMOVQEQ DI, row

// func ringVector(ring *float64, stride, history, slot, steps int, z, gain, f *float64)
// As feedbackVector, with the earlier rows in a ring: step t takes the slot of its oldest row.
TEXT ·ringVector(SB), NOSPLIT, $0-64
	MOVQ ring+0(FP), DI
	MOVQ stride+8(FP), R8
	SHLQ $3, R8             // bytes from row to row
	MOVQ history+16(FP), CX
	MOVQ CX, R9
	IMULQ R8, R9
	ADDQ DI, R9             // end of the ring
	MOVQ slot+24(FP), R10
	IMULQ R8, R10
	ADDQ DI, R10            // oldest row of step t, and the place of its own
	MOVQ steps+32(FP), DX
	MOVQ z+40(FP), R11      // normals of step t
	MOVQ gain+48(FP), BX
	MOVQ f+56(FP), SI       // coefficients of step t
	SUBQ $2, DX
	JLT  last

pair:
	VBROADCASTSD 0(BX), Y12
	VBROADCASTSD 8(BX), Y13
	SCALED(R11, Y12, Y0, Y1, Y2, Y3)
	ADDQ R8, R11
	SCALED(R11, Y13, Y4, Y5, Y6, Y7)
	ADDQ R8, R11
	LEAQ (SI)(CX*8), R13    // coefficients of step t+1
	ROW(R10)
	VBROADCASTSD 0(SI), Y12
	ACC(Y12, Y0, Y1, Y2, Y3)
	MOVQ R10, R12
	NEXT(R12)
	MOVQ $1, AX
	CMPQ AX, CX
	JGE  newest

row:
	ROW(R12)
	VBROADCASTSD (SI)(AX*8), Y12
	VBROADCASTSD -8(R13)(AX*8), Y13
	ACC(Y12, Y0, Y1, Y2, Y3)
	ACC(Y13, Y4, Y5, Y6, Y7)
	NEXT(R12)
	INCQ AX
	CMPQ AX, CX
	JLT  row

newest:
	STORE(R10, Y0, Y1, Y2, Y3)
	NEXT(R10)
	VBROADCASTSD -8(R13)(AX*8), Y13
	VFMADD231PD Y0, Y13, Y4
	VFMADD231PD Y1, Y13, Y5
	VFMADD231PD Y2, Y13, Y6
	VFMADD231PD Y3, Y13, Y7
	STORE(R10, Y4, Y5, Y6, Y7)
	NEXT(R10)
	ADDQ $16, BX
	LEAQ (R13)(CX*8), SI
	SUBQ $2, DX
	JGE  pair

last:
	ADDQ $2, DX
	JEQ  done
	VBROADCASTSD 0(BX), Y12
	SCALED(R11, Y12, Y0, Y1, Y2, Y3)
	MOVQ R10, R12
	XORQ AX, AX

lastrow:
	ROW(R12)
	VBROADCASTSD (SI)(AX*8), Y12
	ACC(Y12, Y0, Y1, Y2, Y3)
	NEXT(R12)
	INCQ AX
	CMPQ AX, CX
	JLT  lastrow
	STORE(R10, Y0, Y1, Y2, Y3)

done:
	VZEROUPPER
	RET

// func filterVector(p *float64, taps, steps int, h *float64)
TEXT ·filterVector(SB), NOSPLIT, $0-32
	MOVQ p+0(FP), DI        // oldest row of step t, and where its result goes
	MOVQ taps+8(FP), CX
	MOVQ steps+16(FP), DX
	MOVQ h+24(FP), SI
	SUBQ $2, DX
	JLT  last

pair:
	ZERO(Y0, Y1, Y2, Y3)
	ZERO(Y4, Y5, Y6, Y7)
	ROW(DI)
	VBROADCASTSD 0(SI), Y12
	ACC(Y12, Y0, Y1, Y2, Y3)
	LEAQ 128(DI), R12
	MOVQ $1, AX
	CMPQ AX, CX
	JGE  newest

row:
	ROW(R12)
	VMOVAPD Y12, Y13        // the coefficient before
	VBROADCASTSD (SI)(AX*8), Y12
	ACC(Y12, Y0, Y1, Y2, Y3)
	ACC(Y13, Y4, Y5, Y6, Y7)
	ADDQ $128, R12
	INCQ AX
	CMPQ AX, CX
	JLT  row

newest:
	ROW(R12)
	ACC(Y12, Y4, Y5, Y6, Y7)
	STORE(DI, Y0, Y1, Y2, Y3)
	ADDQ $128, DI
	STORE(DI, Y4, Y5, Y6, Y7)
	ADDQ $128, DI
	SUBQ $2, DX
	JGE  pair

last:
	ADDQ $2, DX
	JEQ  done
	ZERO(Y0, Y1, Y2, Y3)
	MOVQ DI, R12
	XORQ AX, AX

lastrow:
	ROW(R12)
	VBROADCASTSD (SI)(AX*8), Y12
	ACC(Y12, Y0, Y1, Y2, Y3)
	ADDQ $128, R12
	INCQ AX
	CMPQ AX, CX
	JLT  lastrow
	STORE(DI, Y0, Y1, Y2, Y3)

done:
	VZEROUPPER
	RET

// func buffersVector(p *float64, steps int, s *float64, n int, minusScales, decays *float64)
TEXT ·buffersVector(SB), NOSPLIT, $0-48
	MOVQ p+0(FP), DI
	MOVQ steps+8(FP), DX
	MOVQ s+16(FP), SI
	MOVQ n+24(FP), CX
	MOVQ minusScales+32(FP), R8
	MOVQ decays+40(FP), R9

step:
	VMOVUPD 0(DI), Y0
	VMOVUPD 32(DI), Y1
	VMOVUPD 64(DI), Y2
	VMOVUPD 96(DI), Y3
	MOVQ SI, R12
	XORQ AX, AX

output:
	ROW(R12)
	VBROADCASTSD (R8)(AX*8), Y12
	ACC(Y12, Y0, Y1, Y2, Y3)
	ADDQ $128, R12
	INCQ AX
	CMPQ AX, CX
	JLT  output

	STORE(DI, Y0, Y1, Y2, Y3)
	MOVQ SI, R12
	XORQ AX, AX

buffer:
	ROW(R12)
	VBROADCASTSD (R9)(AX*8), Y12
	VFMADD213PD Y0, Y12, Y8
	VFMADD213PD Y1, Y12, Y9
	VFMADD213PD Y2, Y12, Y10
	VFMADD213PD Y3, Y12, Y11
	STORE(R12, Y8, Y9, Y10, Y11)
	ADDQ $128, R12
	INCQ AX
	CMPQ AX, CX
	JLT  buffer

	ADDQ $128, DI
	DECQ DX
	JNZ  step
	VZEROUPPER
	RET

// ROUND8 rounds the eight values at src(SI) into eight float32 at out(DI): Y12 scale, Y13 magic, Y14 limit,
// Y11 the mask of absolute values, Y15 collects what is within the limit.
#define ROUND8(src, out) \
	VMULPD src(SI), Y12, Y0 \
	VMULPD src+32(SI), Y12, Y1 \
	VADDPD Y13, Y0, Y0 \
	VADDPD Y13, Y1, Y1 \
	VSUBPD Y13, Y0, Y0 \
	VSUBPD Y13, Y1, Y1 \
	VANDPD Y11, Y0, Y2 \
	VANDPD Y11, Y1, Y3 \
	VCMPPD $2, Y14, Y2, Y2 \
	VCMPPD $2, Y14, Y3, Y3 \
	VANDPD Y2, Y15, Y15 \
	VANDPD Y3, Y15, Y15 \
	VCVTPD2PSY Y0, X0 \
	VCVTPD2PSY Y1, X1 \
	VINSERTF128 $1, X1, Y0, Y0 \
	VMOVUPS Y0, out(DI)

// func round32Vector(dst *float32, stride int, p *float64, rows int, scales *float64, magic, limit float64) (ok int)
TEXT ·round32Vector(SB), NOSPLIT, $0-64
	MOVQ dst+0(FP), DI
	MOVQ stride+8(FP), BX
	SHLQ $2, BX
	MOVQ p+16(FP), SI
	MOVQ rows+24(FP), CX
	MOVQ scales+32(FP), DX
	VBROADCASTSD magic+40(FP), Y13
	VBROADCASTSD limit+48(FP), Y14
	VPCMPEQQ Y15, Y15, Y15
	VPSRLQ $1, Y15, Y11

row:
	VBROADCASTSD (DX), Y12
	ROUND8(0, 0)
	ROUND8(64, 32)
	ADDQ $128, SI
	ADDQ $8, DX
	ADDQ BX, DI
	DECQ CX
	JNZ  row

	VMOVMSKPD Y15, AX
	MOVQ AX, ok+56(FP)
	VZEROUPPER
	RET
