#include "textflag.h"

// The kernels of kernels_amd64.s with eight doubles to a vector: the same operations in each lane.

#include "fused_amd64.h"
#define NORMALS ·normals512(SB)
#include "normals512_amd64.h"

// The loops over rows: two panels at a time.
#include "zmm_amd64.h"
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
