#include "textflag.h"

// ChaCha12 in many blocks side by side: register i holds word i of each of them. See chacha.go.

DATA chachaLanes<>+0(SB)/4, $0
DATA chachaLanes<>+4(SB)/4, $1
DATA chachaLanes<>+8(SB)/4, $2
DATA chachaLanes<>+12(SB)/4, $3
DATA chachaLanes<>+16(SB)/4, $4
DATA chachaLanes<>+20(SB)/4, $5
DATA chachaLanes<>+24(SB)/4, $6
DATA chachaLanes<>+28(SB)/4, $7
DATA chachaLanes<>+32(SB)/4, $8
DATA chachaLanes<>+36(SB)/4, $9
DATA chachaLanes<>+40(SB)/4, $10
DATA chachaLanes<>+44(SB)/4, $11
DATA chachaLanes<>+48(SB)/4, $12
DATA chachaLanes<>+52(SB)/4, $13
DATA chachaLanes<>+56(SB)/4, $14
DATA chachaLanes<>+60(SB)/4, $15
GLOBL chachaLanes<>(SB), RODATA|NOPTR, $64

DATA chachaLeft16<>+0(SB)/8, $0x0504070601000302
DATA chachaLeft16<>+8(SB)/8, $0x0d0c0f0e09080b0a
DATA chachaLeft16<>+16(SB)/8, $0x0504070601000302
DATA chachaLeft16<>+24(SB)/8, $0x0d0c0f0e09080b0a
GLOBL chachaLeft16<>(SB), RODATA|NOPTR, $32

DATA chachaLeft8<>+0(SB)/8, $0x0605040702010003
DATA chachaLeft8<>+8(SB)/8, $0x0e0d0c0f0a09080b
DATA chachaLeft8<>+16(SB)/8, $0x0605040702010003
DATA chachaLeft8<>+24(SB)/8, $0x0e0d0c0f0a09080b
GLOBL chachaLeft8<>(SB), RODATA|NOPTR, $32

// ADDXOR is a += b, d ^= a for four quarter rounds.
#define ADDXOR512(a0, a1, a2, a3, b0, b1, b2, b3, d0, d1, d2, d3) \
	VPADDD b0, a0, a0 \
	VPADDD b1, a1, a1 \
	VPADDD b2, a2, a2 \
	VPADDD b3, a3, a3 \
	VPXORD a0, d0, d0 \
	VPXORD a1, d1, d1 \
	VPXORD a2, d2, d2 \
	VPXORD a3, d3, d3

#define LEFT512(n, d0, d1, d2, d3) \
	VPROLD n, d0, d0 \
	VPROLD n, d1, d1 \
	VPROLD n, d2, d2 \
	VPROLD n, d3, d3

#define QUARTERS512(a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3) \
	ADDXOR512(a0, a1, a2, a3, b0, b1, b2, b3, d0, d1, d2, d3) \
	LEFT512($16, d0, d1, d2, d3) \
	ADDXOR512(c0, c1, c2, c3, d0, d1, d2, d3, b0, b1, b2, b3) \
	LEFT512($12, b0, b1, b2, b3) \
	ADDXOR512(a0, a1, a2, a3, b0, b1, b2, b3, d0, d1, d2, d3) \
	LEFT512($8, d0, d1, d2, d3) \
	ADDXOR512(c0, c1, c2, c3, d0, d1, d2, d3, b0, b1, b2, b3) \
	LEFT512($7, b0, b1, b2, b3)

// FOUR512 turns words w to w+3 of 16 blocks, in r0 to r3, into the same words of blocks 4k, 4k+1, 4k+2 and 4k+3
// in lane k, of 128 bits, of r0, r1, r2 and r3.
#define FOUR512(r0, r1, r2, r3) \
	VPUNPCKLDQ r1, r0, Z17 \
	VPUNPCKHDQ r1, r0, Z18 \
	VPUNPCKLDQ r3, r2, Z19 \
	VPUNPCKHDQ r3, r2, Z20 \
	VPUNPCKLQDQ Z19, Z17, r0 \
	VPUNPCKHQDQ Z19, Z17, r1 \
	VPUNPCKLQDQ Z20, Z18, r2 \
	VPUNPCKHQDQ Z20, Z18, r3

// STORE512 stores blocks j, 4+j, 8+j and 12+j from the lanes of r0 to r3, which have four words each.
#define STORE512(r0, r1, r2, r3, at) \
	VSHUFI32X4 $0x88, r1, r0, Z17 \
	VSHUFI32X4 $0xdd, r1, r0, Z18 \
	VSHUFI32X4 $0x88, r3, r2, Z19 \
	VSHUFI32X4 $0xdd, r3, r2, Z20 \
	VSHUFI32X4 $0x88, Z19, Z17, Z21 \
	VSHUFI32X4 $0x88, Z20, Z18, Z22 \
	VSHUFI32X4 $0xdd, Z19, Z17, Z23 \
	VSHUFI32X4 $0xdd, Z20, Z18, Z24 \
	VMOVDQU32 Z21, at(DI) \
	VMOVDQU32 Z22, at+256(DI) \
	VMOVDQU32 Z23, at+512(DI) \
	VMOVDQU32 Z24, at+768(DI)

// func chacha512(dst *uint64, state *[16]uint32, groups int)
TEXT ·chacha512(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ state+8(FP), SI
	MOVQ groups+16(FP), DX
	VPBROADCASTD 48(SI), Z16
	VPADDD chachaLanes<>(SB), Z16, Z16 // number of each block
	MOVL $16, AX
	VPBROADCASTD AX, Z25

group:
	VPBROADCASTD 0(SI), Z0
	VPBROADCASTD 4(SI), Z1
	VPBROADCASTD 8(SI), Z2
	VPBROADCASTD 12(SI), Z3
	VPBROADCASTD 16(SI), Z4
	VPBROADCASTD 20(SI), Z5
	VPBROADCASTD 24(SI), Z6
	VPBROADCASTD 28(SI), Z7
	VPBROADCASTD 32(SI), Z8
	VPBROADCASTD 36(SI), Z9
	VPBROADCASTD 40(SI), Z10
	VPBROADCASTD 44(SI), Z11
	VMOVDQA32 Z16, Z12
	VPBROADCASTD 52(SI), Z13
	VPBROADCASTD 56(SI), Z14
	VPBROADCASTD 60(SI), Z15
	MOVQ $6, CX

rounds:
	QUARTERS512(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15)
	QUARTERS512(Z0, Z1, Z2, Z3, Z5, Z6, Z7, Z4, Z10, Z11, Z8, Z9, Z15, Z12, Z13, Z14)
	DECQ CX
	JNZ  rounds

	VPADDD.BCST 0(SI), Z0, Z0
	VPADDD.BCST 4(SI), Z1, Z1
	VPADDD.BCST 8(SI), Z2, Z2
	VPADDD.BCST 12(SI), Z3, Z3
	VPADDD.BCST 16(SI), Z4, Z4
	VPADDD.BCST 20(SI), Z5, Z5
	VPADDD.BCST 24(SI), Z6, Z6
	VPADDD.BCST 28(SI), Z7, Z7
	VPADDD.BCST 32(SI), Z8, Z8
	VPADDD.BCST 36(SI), Z9, Z9
	VPADDD.BCST 40(SI), Z10, Z10
	VPADDD.BCST 44(SI), Z11, Z11
	VPADDD Z16, Z12, Z12
	VPADDD.BCST 52(SI), Z13, Z13
	VPADDD.BCST 56(SI), Z14, Z14
	VPADDD.BCST 60(SI), Z15, Z15
	VPADDD Z25, Z16, Z16

	FOUR512(Z0, Z1, Z2, Z3)
	FOUR512(Z4, Z5, Z6, Z7)
	FOUR512(Z8, Z9, Z10, Z11)
	FOUR512(Z12, Z13, Z14, Z15)
	STORE512(Z0, Z4, Z8, Z12, 0)
	STORE512(Z1, Z5, Z9, Z13, 64)
	STORE512(Z2, Z6, Z10, Z14, 128)
	STORE512(Z3, Z7, Z11, Z15, 192)
	ADDQ $1024, DI
	DECQ DX
	JNZ  group
	VZEROUPPER
	RET

// QUARTERS256 is two quarter rounds, with Y10 and Y11 for rotations.
#define QUARTERS256(a0, a1, b0, b1, c0, c1, d0, d1) \
	VPADDD b0, a0, a0 \
	VPADDD b1, a1, a1 \
	VPXOR a0, d0, d0 \
	VPXOR a1, d1, d1 \
	VPSHUFB chachaLeft16<>(SB), d0, d0 \
	VPSHUFB chachaLeft16<>(SB), d1, d1 \
	VPADDD d0, c0, c0 \
	VPADDD d1, c1, c1 \
	VPXOR c0, b0, b0 \
	VPXOR c1, b1, b1 \
	VPSLLD $12, b0, Y10 \
	VPSLLD $12, b1, Y11 \
	VPSRLD $20, b0, b0 \
	VPSRLD $20, b1, b1 \
	VPOR Y10, b0, b0 \
	VPOR Y11, b1, b1 \
	VPADDD b0, a0, a0 \
	VPADDD b1, a1, a1 \
	VPXOR a0, d0, d0 \
	VPXOR a1, d1, d1 \
	VPSHUFB chachaLeft8<>(SB), d0, d0 \
	VPSHUFB chachaLeft8<>(SB), d1, d1 \
	VPADDD d0, c0, c0 \
	VPADDD d1, c1, c1 \
	VPXOR c0, b0, b0 \
	VPXOR c1, b1, b1 \
	VPSLLD $7, b0, Y10 \
	VPSLLD $7, b1, Y11 \
	VPSRLD $25, b0, b0 \
	VPSRLD $25, b1, b1 \
	VPOR Y10, b0, b0 \
	VPOR Y11, b1, b1

// ADDED256 stores word i, which r holds, plus that of the state.
#define ADDED256(r, i) \
	VPBROADCASTD (4*i)(SI), Y10 \
	VPADDD Y10, r, r \
	VMOVDQU r, (32*i)(SP)

// EIGHT256 stores words w to w+7 of 8 blocks, the rows from (32*w)(SP) on, each block's at its place.
#define EIGHT256(w) \
	VMOVDQU (32*w)(SP), Y0 \
	VMOVDQU (32*w+64)(SP), Y2 \
	VMOVDQU (32*w+128)(SP), Y4 \
	VMOVDQU (32*w+192)(SP), Y6 \
	VPUNPCKHDQ (32*w+32)(SP), Y0, Y1 \
	VPUNPCKLDQ (32*w+32)(SP), Y0, Y0 \
	VPUNPCKHDQ (32*w+96)(SP), Y2, Y3 \
	VPUNPCKLDQ (32*w+96)(SP), Y2, Y2 \
	VPUNPCKHDQ (32*w+160)(SP), Y4, Y5 \
	VPUNPCKLDQ (32*w+160)(SP), Y4, Y4 \
	VPUNPCKHDQ (32*w+224)(SP), Y6, Y7 \
	VPUNPCKLDQ (32*w+224)(SP), Y6, Y6 \
	VPUNPCKLQDQ Y2, Y0, Y8 \
	VPUNPCKHQDQ Y2, Y0, Y9 \
	VPUNPCKLQDQ Y3, Y1, Y10 \
	VPUNPCKHQDQ Y3, Y1, Y11 \
	VPUNPCKLQDQ Y6, Y4, Y12 \
	VPUNPCKHQDQ Y6, Y4, Y13 \
	VPUNPCKLQDQ Y7, Y5, Y14 \
	VPUNPCKHQDQ Y7, Y5, Y15 \
	VPERM2I128 $0x20, Y12, Y8, Y0 \
	VPERM2I128 $0x20, Y13, Y9, Y1 \
	VPERM2I128 $0x20, Y14, Y10, Y2 \
	VPERM2I128 $0x20, Y15, Y11, Y3 \
	VPERM2I128 $0x31, Y12, Y8, Y4 \
	VPERM2I128 $0x31, Y13, Y9, Y5 \
	VPERM2I128 $0x31, Y14, Y10, Y6 \
	VPERM2I128 $0x31, Y15, Y11, Y7 \
	VMOVDQU Y0, (4*w)(DI) \
	VMOVDQU Y1, (4*w+64)(DI) \
	VMOVDQU Y2, (4*w+128)(DI) \
	VMOVDQU Y3, (4*w+192)(DI) \
	VMOVDQU Y4, (4*w+256)(DI) \
	VMOVDQU Y5, (4*w+320)(DI) \
	VMOVDQU Y6, (4*w+384)(DI) \
	VMOVDQU Y7, (4*w+448)(DI)

// func chacha256(dst *uint64, state *[16]uint32, groups int)
// Of words 8 to 11, which take turns in the quarter rounds, two are in Y8 and Y9 and two on the stack, from 512 on.
TEXT ·chacha256(SB), 0, $672-24
	MOVQ dst+0(FP), DI
	MOVQ state+8(FP), SI
	MOVQ groups+16(FP), DX
	VPBROADCASTD 48(SI), Y12
	VPADDD chachaLanes<>(SB), Y12, Y12
	VMOVDQU Y12, 640(SP) // number of each block

group:
	VPBROADCASTD 40(SI), Y0
	VPBROADCASTD 44(SI), Y1
	VMOVDQU Y0, 576(SP)
	VMOVDQU Y1, 608(SP)
	VPBROADCASTD 0(SI), Y0
	VPBROADCASTD 4(SI), Y1
	VPBROADCASTD 8(SI), Y2
	VPBROADCASTD 12(SI), Y3
	VPBROADCASTD 16(SI), Y4
	VPBROADCASTD 20(SI), Y5
	VPBROADCASTD 24(SI), Y6
	VPBROADCASTD 28(SI), Y7
	VPBROADCASTD 32(SI), Y8
	VPBROADCASTD 36(SI), Y9
	VMOVDQU 640(SP), Y12
	VPBROADCASTD 52(SI), Y13
	VPBROADCASTD 56(SI), Y14
	VPBROADCASTD 60(SI), Y15
	MOVQ $6, CX

rounds:
	QUARTERS256(Y0, Y1, Y4, Y5, Y8, Y9, Y12, Y13)
	VMOVDQU Y8, 512(SP)
	VMOVDQU Y9, 544(SP)
	VMOVDQU 576(SP), Y8
	VMOVDQU 608(SP), Y9
	QUARTERS256(Y2, Y3, Y6, Y7, Y8, Y9, Y14, Y15)
	QUARTERS256(Y0, Y1, Y5, Y6, Y8, Y9, Y15, Y12)
	VMOVDQU Y8, 576(SP)
	VMOVDQU Y9, 608(SP)
	VMOVDQU 512(SP), Y8
	VMOVDQU 544(SP), Y9
	QUARTERS256(Y2, Y3, Y7, Y4, Y8, Y9, Y13, Y14)
	DECQ CX
	JNZ  rounds

	VPADDD 640(SP), Y12, Y12
	VMOVDQU Y12, 384(SP)
	ADDED256(Y0, 0)
	ADDED256(Y1, 1)
	ADDED256(Y2, 2)
	ADDED256(Y3, 3)
	ADDED256(Y4, 4)
	ADDED256(Y5, 5)
	ADDED256(Y6, 6)
	ADDED256(Y7, 7)
	ADDED256(Y8, 8)
	ADDED256(Y9, 9)
	ADDED256(Y13, 13)
	ADDED256(Y14, 14)
	ADDED256(Y15, 15)
	VMOVDQU 576(SP), Y8
	VMOVDQU 608(SP), Y9
	ADDED256(Y8, 10)
	ADDED256(Y9, 11)
	MOVL $8, AX
	MOVQ AX, X0
	VPBROADCASTD X0, Y0
	VPADDD 640(SP), Y0, Y0
	VMOVDQU Y0, 640(SP)
	EIGHT256(0)
	EIGHT256(8)
	ADDQ $512, DI
	DECQ DX
	JNZ  group
	VZEROUPPER
	RET
