// The loops over the rows of panels, for vectors of either width and either arithmetic: see
// kernels.go. The file that includes this one has included one of ymm_amd64.h and zmm_amd64.h, which
// say what V0 to V14 are, and W, the bytes of one of them, and one of fused_amd64.h and
// apart_amd64.h. A row is four vectors: two from p on and two from across bytes further on, of the same panel or of the next.

#define ROW(p, across) \
	VMOVUPD 0(p), V8 \
	VMOVUPD W(p), V9 \
	VMOVUPD 0(p)(across*1), V10 \
	VMOVUPD W(p)(across*1), V11

// ACC adds the row times a broadcast coefficient to four sums.
#define ACC(c, s0, s1, s2, s3) \
	PLUSTIMES(V8, c, s0) \
	PLUSTIMES(V9, c, s1) \
	PLUSTIMES(V10, c, s2) \
	PLUSTIMES(V11, c, s3)

#define LOAD(p, across, s0, s1, s2, s3) \
	VMOVUPD 0(p), s0 \
	VMOVUPD W(p), s1 \
	VMOVUPD 0(p)(across*1), s2 \
	VMOVUPD W(p)(across*1), s3

#define STORE(p, across, s0, s1, s2, s3) \
	VMOVUPD s0, 0(p) \
	VMOVUPD s1, W(p) \
	VMOVUPD s2, 0(p)(across*1) \
	VMOVUPD s3, W(p)(across*1)

#define SCALED(p, across, c, s0, s1, s2, s3) \
	VMULPD 0(p), c, s0 \
	VMULPD W(p), c, s1 \
	VMULPD 0(p)(across*1), c, s2 \
	VMULPD W(p)(across*1), c, s3

#define ZERO(s0, s1, s2, s3) \
	VXORPD s0, s0, s0 \
	VXORPD s1, s1, s1 \
	VXORPD s2, s2, s2 \
	VXORPD s3, s3, s3

// NEXT moves a row on, in a ring from the last slot to the first.
#define NEXT(row) \
	ADDQ R8, row \
	CMPQ row, R9 \
	CMOVQEQ DI, row

// func feedback(rows *float64, across, stride, history, slot, slots, out, steps int, z, gain, f *float64)
// Two steps at a time: each earlier row is loaded once for both.
TEXT FEEDBACK, NOSPLIT, $0-88
	MOVQ rows+0(FP), DI
	MOVQ across+8(FP), R15
	SHLQ $3, R15
	MOVQ stride+16(FP), R8
	SHLQ $3, R8             // bytes from row to row
	MOVQ history+24(FP), CX
	MOVQ slot+32(FP), R10
	IMULQ R8, R10
	ADDQ DI, R10            // oldest row of step t
	MOVQ slots+40(FP), R9
	IMULQ R8, R9
	ADDQ DI, R9             // end of the ring
	MOVQ out+48(FP), R14
	IMULQ R8, R14
	ADDQ DI, R14            // place of the row of step t
	MOVQ steps+56(FP), DX
	MOVQ z+64(FP), R11      // normals of step t
	MOVQ gain+72(FP), BX
	MOVQ f+80(FP), SI       // coefficients of step t
	SUBQ $2, DX
	JLT  last

pair:
	VBROADCASTSD 0(BX), V12
	VBROADCASTSD 8(BX), V13
	SCALED(R11, R15, V12, V0, V1, V2, V3)
	ADDQ R8, R11
	SCALED(R11, R15, V13, V4, V5, V6, V7)
	ADDQ R8, R11
	LEAQ (SI)(CX*8), R13    // coefficients of step t+1
	ROW(R10, R15)
	VBROADCASTSD 0(SI), V12
	ACC(V12, V0, V1, V2, V3)
	NEXT(R10)
	MOVQ R10, R12
	MOVQ $1, AX
	CMPQ AX, CX
	JGE  newest

row:
	ROW(R12, R15)
	VBROADCASTSD (SI)(AX*8), V12
	VBROADCASTSD -8(R13)(AX*8), V13
	ACC(V12, V0, V1, V2, V3)
	ACC(V13, V4, V5, V6, V7)
	NEXT(R12)
	INCQ AX
	CMPQ AX, CX
	JLT  row

newest:
	NEXT(R10)
	STORE(R14, R15, V0, V1, V2, V3)
	NEXT(R14)
	VBROADCASTSD -8(R13)(AX*8), V13
	PLUSTIMES(V0, V13, V4)
	PLUSTIMES(V1, V13, V5)
	PLUSTIMES(V2, V13, V6)
	PLUSTIMES(V3, V13, V7)
	STORE(R14, R15, V4, V5, V6, V7)
	NEXT(R14)
	ADDQ $16, BX
	LEAQ (R13)(CX*8), SI
	SUBQ $2, DX
	JGE  pair

last:
	ADDQ $2, DX
	JEQ  done
	VBROADCASTSD 0(BX), V12
	SCALED(R11, R15, V12, V0, V1, V2, V3)
	XORQ AX, AX

lastrow:
	ROW(R10, R15)
	VBROADCASTSD (SI)(AX*8), V12
	ACC(V12, V0, V1, V2, V3)
	NEXT(R10)
	INCQ AX
	CMPQ AX, CX
	JLT  lastrow
	STORE(R14, R15, V0, V1, V2, V3)

done:
	VZEROUPPER
	RET

// func filter(p *float64, across, taps, steps int, h *float64)
TEXT FILTER, NOSPLIT, $0-40
	MOVQ p+0(FP), DI        // oldest row of step t, and where its result goes
	MOVQ across+8(FP), R15
	SHLQ $3, R15
	MOVQ taps+16(FP), CX
	MOVQ steps+24(FP), DX
	MOVQ h+32(FP), SI
	SUBQ $2, DX
	JLT  last

pair:
	ZERO(V0, V1, V2, V3)
	ZERO(V4, V5, V6, V7)
	ROW(DI, R15)
	VBROADCASTSD 0(SI), V12
	ACC(V12, V0, V1, V2, V3)
	LEAQ 128(DI), R12
	MOVQ $1, AX
	CMPQ AX, CX
	JGE  newest

row:
	ROW(R12, R15)
	VMOVAPD V12, V13        // the coefficient before
	VBROADCASTSD (SI)(AX*8), V12
	ACC(V12, V0, V1, V2, V3)
	ACC(V13, V4, V5, V6, V7)
	ADDQ $128, R12
	INCQ AX
	CMPQ AX, CX
	JLT  row

newest:
	ROW(R12, R15)
	ACC(V12, V4, V5, V6, V7)
	STORE(DI, R15, V0, V1, V2, V3)
	ADDQ $128, DI
	STORE(DI, R15, V4, V5, V6, V7)
	ADDQ $128, DI
	SUBQ $2, DX
	JGE  pair

last:
	ADDQ $2, DX
	JEQ  done
	ZERO(V0, V1, V2, V3)
	MOVQ DI, R12
	XORQ AX, AX

lastrow:
	ROW(R12, R15)
	VBROADCASTSD (SI)(AX*8), V12
	ACC(V12, V0, V1, V2, V3)
	ADDQ $128, R12
	INCQ AX
	CMPQ AX, CX
	JLT  lastrow
	STORE(DI, R15, V0, V1, V2, V3)

done:
	VZEROUPPER
	RET

// func buffers(p *float64, across, steps int, s *float64, acrossBuffers, n int, minusScales, decays *float64)
TEXT BUFFERS, NOSPLIT, $0-64
	MOVQ p+0(FP), DI
	MOVQ across+8(FP), R15
	SHLQ $3, R15
	MOVQ steps+16(FP), DX
	MOVQ s+24(FP), SI
	MOVQ acrossBuffers+32(FP), R13
	SHLQ $3, R13
	MOVQ n+40(FP), CX
	MOVQ minusScales+48(FP), R8
	MOVQ decays+56(FP), R9

step:
	LOAD(DI, R15, V0, V1, V2, V3)
	MOVQ SI, R12
	XORQ AX, AX

output:
	ROW(R12, R13)
	VBROADCASTSD (R8)(AX*8), V12
	ACC(V12, V0, V1, V2, V3)
	ADDQ $128, R12
	INCQ AX
	CMPQ AX, CX
	JLT  output

	STORE(DI, R15, V0, V1, V2, V3)
	MOVQ SI, R12
	XORQ AX, AX

buffer:
	ROW(R12, R13)
	VBROADCASTSD (R9)(AX*8), V12
	TIMESPLUS(V0, V12, V8)
	TIMESPLUS(V1, V12, V9)
	TIMESPLUS(V2, V12, V10)
	TIMESPLUS(V3, V12, V11)
	STORE(R12, R13, V8, V9, V10, V11)
	ADDQ $128, R12
	INCQ AX
	CMPQ AX, CX
	JLT  buffer

	ADDQ $128, DI
	DECQ DX
	JNZ  step
	VZEROUPPER
	RET
