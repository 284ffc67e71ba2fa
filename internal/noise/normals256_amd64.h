// The normals of words, four doubles to a vector: see kernels.go. The file that includes this one has said how
// products are added, by fused_amd64.h or apart_amd64.h, and what NORMALS is.

// NORMALS4 makes the normals of four pairs from the eight words at src(SI) into eight doubles at out(DI).
// AX holds the tables, Y15 collects which radius words are short. It uses Y0-Y14.
#define NORMALS4(src, out) \
	VMOVDQU src(SI), Y0 \
	VMOVDQU src+32(SI), Y1 \
	VPUNPCKLQDQ Y1, Y0, Y2 /* radius words of pairs 0, 2, 1, 3 */ \
	VPUNPCKHQDQ Y1, Y0, Y3 /* angle words */ \
	VPSRLQ SHORT, Y2, Y4 \
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
	TIMESPLUS(352(AX), Y9, Y10) \
	TIMESPLUS(384(AX), Y9, Y10) \
	TIMESPLUS(416(AX), Y9, Y10) \
	TIMESPLUS(448(AX), Y9, Y10) \
	TIMESPLUS(480(AX), Y9, Y10) \
	TIMESPLUS(512(AX), Y9, Y10) /* M(q) */ \
	VMULPD Y9, Y8, Y11 \
	VMULPD 224(AX), Y8, Y12 \
	TIMESPLUS(Y12, Y11, Y10) \
	VMOVUPD 192(AX), Y11 \
	TIMESMINUS(Y10, Y11, Y6) /* -2 ln U */ \
	VSQRTPD Y6, Y6 /* R */ \
	VPSRLQ $12, Y3, Y4 \
	VPOR 160(AX), Y4, Y4 \
	VSUBPD 160(AX), Y4, Y4 \
	VADDPD 256(AX), Y4, Y4 /* x */ \
	VMULPD Y4, Y4, Y5 /* y */ \
	VMOVUPD 544(AX), Y7 \
	VMOVUPD 768(AX), Y8 \
	TIMESPLUS(576(AX), Y5, Y7) \
	TIMESPLUS(800(AX), Y5, Y8) \
	TIMESPLUS(608(AX), Y5, Y7) \
	TIMESPLUS(832(AX), Y5, Y8) \
	TIMESPLUS(640(AX), Y5, Y7) \
	TIMESPLUS(864(AX), Y5, Y8) \
	TIMESPLUS(672(AX), Y5, Y7) \
	TIMESPLUS(896(AX), Y5, Y8) \
	TIMESPLUS(704(AX), Y5, Y7) \
	TIMESPLUS(928(AX), Y5, Y8) \
	TIMESPLUS(736(AX), Y5, Y7) \
	TIMESPLUS(960(AX), Y5, Y8) /* cosine */ \
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

// func normals(dst *float64, stride int, words *uint64, groups int, t *vectorTables) (short int)
TEXT NORMALS, NOSPLIT, $0-48
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
