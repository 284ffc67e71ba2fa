// The normals of words, two doubles to a vector: see kernels.go. The file that includes this one has said how products are added,
// by fused_arm64.h or apart_arm64.h, and what NORMALS is.

// func normals(dst *float64, stride int, words *uint64, groups int, t *vectorTables) (short int)
// Two pairs at a time. V27 collects which radius words are short, V28 is one, V29 the bits of √½, V30 64, V31 the sign.
TEXT NORMALS, NOSPLIT, $0-48
	MOVD dst+0(FP), R0
	MOVD stride+8(FP), R8
	LSL $3, R8
	MOVD words+16(FP), R1
	MOVD groups+24(FP), R3
	MOVD t+32(FP), R4
	VEOR V27.B16, V27.B16, V27.B16
	VEOR V26.B16, V26.B16, V26.B16
	VLD1.P 64(R4), [V28.D2, V29.D2, V30.D2, V31.D2]
	VLD1.P 64(R4), [V22.D2, V23.D2, V24.D2, V25.D2] // 2 ln 2, 4, 2⁻⁵³, the integer 1

group:
	MOVD R0, R6
	MOVD $4, R2

pairs:
	VLD2.P 32(R1), [V0.D2, V1.D2] // radius words, angle words
	MOVD R4, R5
	VUSHR SHORT, V0.D2, V2.D2
	VEOR V3.B16, V3.B16, V3.B16
	VCMEQ V3.D2, V2.D2, V2.D2
	VORR V2.B16, V27.B16, V27.B16
	VUCVTF(0, 0)            // u
	VSUB V29.D2, V0.D2, V2.D2
	VUSHR $52, V2.D2, V2.D2       // k
	VSHL $52, V2.D2, V3.D2
	VSUB V3.D2, V0.D2, V3.D2      // m
	VSUB V2.D2, V30.D2, V2.D2
	VSCVTF(2, 2)              // 64 - k
	VFSUB(28, 3, 4)
	VFADD(28, 3, 5)
	VFDIV(5, 4, 4)                  // s
	VFMUL(4, 4, 5)                  // q
	VLD1.P 16(R5), [V6.D2]
	NEXTTERM(6, 5, 7, V7)
	NEXTTERM(7, 5, 6, V6)
	NEXTTERM(6, 5, 7, V7)
	NEXTTERM(7, 5, 6, V6)
	NEXTTERM(6, 5, 7, V7)
	NEXTTERM(7, 5, 6, V6)         // M(q)
	VFMUL(5, 4, 5)
	VFMUL(23, 4, 4)
	PLUSTIMES(5, 6, 4)
	VFNEG(4, 4)
	PLUSTIMES(2, 22, 4)           // -2 ln U
	VFSQRT(4, 4)                    // R
	VUSHR $12, V1.D2, V5.D2
	VORR V28.B16, V5.B16, V5.B16
	VFSUB(28, 5, 5)
	VFADD(24, 5, 5)                 // x
	VFMUL(5, 5, 6)                  // y
	VLD1.P 16(R5), [V7.D2]
	NEXTTERM(7, 6, 16, V16)
	NEXTTERM(16, 6, 7, V7)
	NEXTTERM(7, 6, 16, V16)
	NEXTTERM(16, 6, 7, V7)
	NEXTTERM(7, 6, 16, V16)
	NEXTTERM(16, 6, 7, V7)
	VFMUL(5, 7, 7)                  // sine
	VLD1.P 16(R5), [V16.D2]
	NEXTTERM(16, 6, 17, V17)
	NEXTTERM(17, 6, 16, V16)
	NEXTTERM(16, 6, 17, V17)
	NEXTTERM(17, 6, 16, V16)
	NEXTTERM(16, 6, 17, V17)
	NEXTTERM(17, 6, 16, V16)      // cosine
	VAND V25.B16, V1.B16, V2.B16
	VEOR V3.B16, V3.B16, V3.B16
	VSUB V2.D2, V3.D2, V2.D2      // ones where they change places
	VMOV V16.B16, V18.B16
	VMOV V7.B16, V19.B16
	VBIT V2.B16, V7.B16, V18.B16
	VBIT V2.B16, V16.B16, V19.B16
	VSHL $62, V1.D2, V2.D2
	VSHL $61, V1.D2, V3.D2
	VAND V31.B16, V2.B16, V2.B16
	VAND V31.B16, V3.B16, V3.B16
	VEOR V2.B16, V18.B16, V18.B16
	VEOR V3.B16, V19.B16, V19.B16
	VFMUL(4, 18, 18)
	VFMUL(4, 19, 19)
	VST2.P [V18.D2, V19.D2], 32(R6)
	SUBS $1, R2
	BNE pairs

	ADD R8, R0
	SUBS $1, R3
	BNE group

	VMOV V27.D[0], R2
	VMOV V27.D[1], R3
	ORR R2, R3
	MOVD R3, short+40(FP)
	RET
