#include "textflag.h"

// Each lane does what the portable functions do, in the same order: see kernels.go.

#include "fused_amd64.h"
#define NORMALS ·normals256(SB)
#include "normals256_amd64.h"

// The loops over rows with four doubles to a vector: a row of a panel is four of them.
#include "ymm_amd64.h"
#define FEEDBACK ·feedback256(SB)
#define FILTER ·filter256(SB)
#define BUFFERS ·buffers256(SB)
#include "panels_amd64.h"

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

// func round256(dst *float32, stride int, p *float64, rows int, scales *float64, magic, limit float64) (ok int)
TEXT ·round256(SB), NOSPLIT, $0-64
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
