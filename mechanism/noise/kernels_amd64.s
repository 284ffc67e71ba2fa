#include "textflag.h"

// Each lane does what the portable functions do, in the same order: see kernels.go.

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

// func normals256(dst *float64, stride int, words *uint64, groups int, t *vectorTables) (short int)
TEXT ·normals256(SB), NOSPLIT, $0-48
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

// The loops over rows with four doubles to a vector: a row of a panel is four of them.
#define W 32
#define V0 Y0
#define V1 Y1
#define V2 Y2
#define V3 Y3
#define V4 Y4
#define V5 Y5
#define V6 Y6
#define V7 Y7
#define V8 Y8
#define V9 Y9
#define V10 Y10
#define V11 Y11
#define V12 Y12
#define V13 Y13
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
