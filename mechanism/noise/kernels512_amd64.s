#include "textflag.h"

// The kernels of kernels_amd64.s with eight doubles to a vector: the same operations in each lane.

// func normals512(dst *float64, stride int, words *uint64, groups int, t *vectorTables, soon, later *float64) (short int)
// The eight pairs of a group at a time. Constants are broadcast from the tables. For each group the two lines at soon
// and the two at later are brought into the second level of cache.
TEXT ·normals512(SB), NOSPLIT, $0-64
	MOVQ dst+0(FP), DI
	MOVQ stride+8(FP), BX
	SHLQ $3, BX
	MOVQ words+16(FP), SI
	MOVQ groups+24(FP), CX
	MOVQ t+32(FP), AX
	MOVQ soon+40(FP), R8
	MOVQ later+48(FP), R9
	VPTERNLOGQ $0xff, Z15, Z15, Z15 // the least radius word
	VBROADCASTSD 0(AX), Z16
	VBROADCASTSD 96(AX), Z17
	VBROADCASTSD 160(AX), Z18
	VBROADCASTSD 288(AX), Z19
	VPSRLQ $63, Z15, Z20            // 1

group:
	PREFETCHT1 0(R8)
	PREFETCHT1 64(R8)
	PREFETCHT1 0(R9)
	PREFETCHT1 64(R9)
	VMOVDQU64 0(SI), Z0
	VMOVDQU64 64(SI), Z1
	VPUNPCKLQDQ Z1, Z0, Z2          // radius words of pairs 0, 4, 1, 5, 2, 6, 3, 7
	VPUNPCKHQDQ Z1, Z0, Z3          // angle words
	VPMINUQ Z2, Z15, Z15
	VCVTUQQ2PD Z2, Z5               // u
	VPSUBQ Z17, Z5, Z6
	VPSRLQ $52, Z6, Z6              // k
	VPSLLQ $52, Z6, Z7
	VPSUBQ Z7, Z5, Z7               // m
	VPORQ Z16, Z6, Z6
	VBROADCASTSD 128(AX), Z8
	VSUBPD Z6, Z8, Z6               // 64 - k
	VSUBPD Z18, Z7, Z8
	VADDPD Z18, Z7, Z9
	VDIVPD Z9, Z8, Z8               // s
	VMULPD Z8, Z8, Z9               // q
	VBROADCASTSD 320(AX), Z10
	VFMADD213PD.BCST 352(AX), Z9, Z10
	VFMADD213PD.BCST 384(AX), Z9, Z10
	VFMADD213PD.BCST 416(AX), Z9, Z10
	VFMADD213PD.BCST 448(AX), Z9, Z10
	VFMADD213PD.BCST 480(AX), Z9, Z10
	VFMADD213PD.BCST 512(AX), Z9, Z10 // M(q)
	VMULPD Z9, Z8, Z11
	VMULPD.BCST 224(AX), Z8, Z12
	VFMADD213PD Z12, Z11, Z10
	VBROADCASTSD 192(AX), Z11
	VFMSUB213PD Z10, Z11, Z6        // -2 ln U
	VSQRTPD Z6, Z6                  // R
	VPSRLQ $12, Z3, Z4
	VPORQ Z18, Z4, Z4
	VSUBPD Z18, Z4, Z4
	VADDPD.BCST 256(AX), Z4, Z4     // x
	VMULPD Z4, Z4, Z5               // y
	VBROADCASTSD 544(AX), Z7
	VBROADCASTSD 768(AX), Z8
	VFMADD213PD.BCST 576(AX), Z5, Z7
	VFMADD213PD.BCST 800(AX), Z5, Z8
	VFMADD213PD.BCST 608(AX), Z5, Z7
	VFMADD213PD.BCST 832(AX), Z5, Z8
	VFMADD213PD.BCST 640(AX), Z5, Z7
	VFMADD213PD.BCST 864(AX), Z5, Z8
	VFMADD213PD.BCST 672(AX), Z5, Z7
	VFMADD213PD.BCST 896(AX), Z5, Z8
	VFMADD213PD.BCST 704(AX), Z5, Z7
	VFMADD213PD.BCST 928(AX), Z5, Z8
	VFMADD213PD.BCST 736(AX), Z5, Z7
	VFMADD213PD.BCST 960(AX), Z5, Z8 // cosine
	VMULPD Z4, Z7, Z7               // sine
	VPTESTMQ Z20, Z3, K1            // bit 0
	VBLENDMPD Z7, Z8, K1, Z10
	VBLENDMPD Z8, Z7, K1, Z11
	VPSLLQ $62, Z3, Z12
	VPSLLQ $61, Z3, Z13
	VPTERNLOGQ $0x78, Z19, Z12, Z10 // xor (Z12 and the sign)
	VPTERNLOGQ $0x78, Z19, Z13, Z11
	VMULPD Z6, Z10, Z10
	VMULPD Z6, Z11, Z11
	VUNPCKLPD Z11, Z10, Z12         // pairs 0 to 3
	VUNPCKHPD Z11, Z10, Z13         // pairs 4 to 7
	VMOVUPD Z12, 0(DI)
	VMOVUPD Z13, 64(DI)
	ADDQ $128, SI
	ADDQ $128, R8
	ADDQ $128, R9
	ADDQ BX, DI
	DECQ CX
	JNZ  group

	VPSRLQ $52, Z15, Z15
	VPTESTNMQ Z15, Z15, K1          // below 2^52
	KMOVW K1, CX
	MOVQ CX, short+56(FP)
	VZEROUPPER
	RET

// The loops over rows: two panels at a time.
#define W 64
#define V0 Z0
#define V1 Z1
#define V2 Z2
#define V3 Z3
#define V4 Z4
#define V5 Z5
#define V6 Z6
#define V7 Z7
#define V8 Z8
#define V9 Z9
#define V10 Z10
#define V11 Z11
#define V12 Z12
#define V13 Z13
#define FEEDBACK ·feedback512(SB)
#define FILTER ·filter512(SB)
#define BUFFERS ·buffers512(SB)
#include "panels_amd64.h"

// func round512(dst *float32, stride int, p *float64, rows int, scales *float64, magic, limit float64) (bad int)
// Values below 2 to the power 63 as words are ordered as their absolute values, NaN after infinity.
TEXT ·round512(SB), NOSPLIT, $0-64
	MOVQ dst+0(FP), DI
	MOVQ stride+8(FP), BX
	SHLQ $2, BX
	MOVQ p+16(FP), SI
	MOVQ rows+24(FP), CX
	MOVQ scales+32(FP), DX
	VBROADCASTSD magic+40(FP), Z13
	VPTERNLOGQ $0xff, Z11, Z11, Z11
	VPSRLQ $1, Z11, Z11     // mask of absolute values
	VPXORQ Z15, Z15, Z15    // the largest

row:
	VBROADCASTSD (DX), Z12
	VMULPD 0(SI), Z12, Z0
	VMULPD 64(SI), Z12, Z1
	VADDPD Z13, Z0, Z0
	VADDPD Z13, Z1, Z1
	VSUBPD Z13, Z0, Z0
	VSUBPD Z13, Z1, Z1
	VPANDQ Z11, Z0, Z2
	VPANDQ Z11, Z1, Z3
	VPMAXUQ Z2, Z15, Z15
	VPMAXUQ Z3, Z15, Z15
	VCVTPD2PS Z0, Y0
	VCVTPD2PS Z1, Y1
	VMOVUPS Y0, 0(DI)
	VMOVUPS Y1, 32(DI)
	ADDQ $128, SI
	ADDQ $8, DX
	ADDQ BX, DI
	DECQ CX
	JNZ  row

	VPBROADCASTQ limit+48(FP), Z14
	VPCMPUQ $6, Z14, Z15, K1 // beyond the limit
	KMOVW K1, AX
	MOVQ AX, bad+56(FP)
	VZEROUPPER
	RET
