#include "textflag.h"

// ChaCha12 in four blocks side by side: register i holds word i of each of them. See chacha.go.

DATA chachaLanes<>+0(SB)/4, $0
DATA chachaLanes<>+4(SB)/4, $1
DATA chachaLanes<>+8(SB)/4, $2
DATA chachaLanes<>+12(SB)/4, $3
GLOBL chachaLanes<>(SB), RODATA|NOPTR, $16

DATA chachaLeft8<>+0(SB)/8, $0x0605040702010003
DATA chachaLeft8<>+8(SB)/8, $0x0e0d0c0f0a09080b
GLOBL chachaLeft8<>(SB), RODATA|NOPTR, $16

// ADDXOR is a += b, d ^= a for four quarter rounds; the exclusive ors go to x.
#define ADDXOR(a0, a1, a2, a3, b0, b1, b2, b3, d0, d1, d2, d3, x0, x1, x2, x3) \
	VADD b0.S4, a0.S4, a0.S4 \
	VADD b1.S4, a1.S4, a1.S4 \
	VADD b2.S4, a2.S4, a2.S4 \
	VADD b3.S4, a3.S4, a3.S4 \
	VEOR a0.B16, d0.B16, x0.B16 \
	VEOR a1.B16, d1.B16, x1.B16 \
	VEOR a2.B16, d2.B16, x2.B16 \
	VEOR a3.B16, d3.B16, x3.B16

// LEFT sets b to V16 to V19, rotated by n; right is 32 - n.
#define LEFT(n, right, b0, b1, b2, b3) \
	VSHL n, V16.S4, b0.S4 \
	VSHL n, V17.S4, b1.S4 \
	VSHL n, V18.S4, b2.S4 \
	VSHL n, V19.S4, b3.S4 \
	VSRI right, V16.S4, b0.S4 \
	VSRI right, V17.S4, b1.S4 \
	VSRI right, V18.S4, b2.S4 \
	VSRI right, V19.S4, b3.S4

#define QUARTERS(a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3) \
	ADDXOR(a0, a1, a2, a3, b0, b1, b2, b3, d0, d1, d2, d3, d0, d1, d2, d3) \
	VREV32 d0.H8, d0.H8 \
	VREV32 d1.H8, d1.H8 \
	VREV32 d2.H8, d2.H8 \
	VREV32 d3.H8, d3.H8 \
	ADDXOR(c0, c1, c2, c3, d0, d1, d2, d3, b0, b1, b2, b3, V16, V17, V18, V19) \
	LEFT($12, $20, b0, b1, b2, b3) \
	ADDXOR(a0, a1, a2, a3, b0, b1, b2, b3, d0, d1, d2, d3, d0, d1, d2, d3) \
	VTBL V31.B16, [d0.B16], d0.B16 \
	VTBL V31.B16, [d1.B16], d1.B16 \
	VTBL V31.B16, [d2.B16], d2.B16 \
	VTBL V31.B16, [d3.B16], d3.B16 \
	ADDXOR(c0, c1, c2, c3, d0, d1, d2, d3, b0, b1, b2, b3, V16, V17, V18, V19) \
	LEFT($7, $25, b0, b1, b2, b3)

// BROADCAST sets r to the words of s, four of each.
#define BROADCAST(s, r0, r1, r2, r3) \
	VDUP s.S[0], r0.S4 \
	VDUP s.S[1], r1.S4 \
	VDUP s.S[2], r2.S4 \
	VDUP s.S[3], r3.S4

// FOUR turns words w to w+3 of four blocks, in r, into the same words of block k in the k-th of r.
#define FOUR(r0, r1, r2, r3) \
	VTRN1 r1.S4, r0.S4, V16.S4 \
	VTRN2 r1.S4, r0.S4, V17.S4 \
	VTRN1 r3.S4, r2.S4, V18.S4 \
	VTRN2 r3.S4, r2.S4, V19.S4 \
	VTRN1 V18.D2, V16.D2, r0.D2 \
	VTRN1 V19.D2, V17.D2, r1.D2 \
	VTRN2 V18.D2, V16.D2, r2.D2 \
	VTRN2 V19.D2, V17.D2, r3.D2

// STORE adds the state to the words of a block and stores them. It goes to the number of the next
// one.
#define STORE(r0, r1, r2, r3, f0, f1, f2, f3) \
	VADD V24.S4, r0.S4, r0.S4 \
	VADD V25.S4, r1.S4, r1.S4 \
	VADD V26.S4, r2.S4, r2.S4 \
	VADD V27.S4, r3.S4, r3.S4 \
	VADD V28.S4, V27.S4, V27.S4 \
	FSTPQ.P (f0, f1), 32(R0) \
	FSTPQ.P (f2, f3), 32(R0)

// func chacha128(dst *uint64, state *[16]uint32, groups int)
// V24 to V27 have the state of the next block, V28 one in word 12, V29 the numbers of the blocks
// within the group.
TEXT ·chacha128(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD state+8(FP), R1
	MOVD groups+16(FP), R2
	VLD1 (R1), [V24.S4, V25.S4, V26.S4, V27.S4]
	MOVD $1, R4
	VEOR V28.B16, V28.B16, V28.B16
	VMOV R4, V28.S[0]
	MOVD $chachaLanes<>(SB), R4
	VLD1 (R4), [V29.S4]
	MOVD $chachaLeft8<>(SB), R4
	VLD1 (R4), [V31.B16]

group:
	BROADCAST(V24, V0, V1, V2, V3)
	BROADCAST(V25, V4, V5, V6, V7)
	BROADCAST(V26, V8, V9, V10, V11)
	BROADCAST(V27, V12, V13, V14, V15)
	VADD V29.S4, V12.S4, V12.S4
	MOVD $6, R3

rounds:
	QUARTERS(V0, V1, V2, V3, V4, V5, V6, V7, V8, V9, V10, V11, V12, V13, V14, V15)
	QUARTERS(V0, V1, V2, V3, V5, V6, V7, V4, V10, V11, V8, V9, V15, V12, V13, V14)
	SUBS $1, R3
	BNE rounds

	FOUR(V0, V1, V2, V3)
	FOUR(V4, V5, V6, V7)
	FOUR(V8, V9, V10, V11)
	FOUR(V12, V13, V14, V15)
	STORE(V0, V4, V8, V12, F0, F4, F8, F12)
	STORE(V1, V5, V9, V13, F1, F5, F9, F13)
	STORE(V2, V6, V10, V14, F2, F6, F10, F14)
	STORE(V3, V7, V11, V15, F3, F7, F11, F15)
	SUBS $1, R2
	BNE group
	RET
