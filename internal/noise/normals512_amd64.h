// The normals of words, eight doubles to a vector: see normals256_amd64.h.

// func normals(dst *float64, stride int, words *uint64, groups int, t *vectorTables, soon, later *float64) (short int)
// The eight pairs of a group at a time. Constants are broadcast from the tables. For each group the two lines at soon
// and the two at later are brought into the second level of cache.
TEXT NORMALS, NOSPLIT, $0-64
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
	TIMESPLUSALL(352(AX), Z9, Z10)
	TIMESPLUSALL(384(AX), Z9, Z10)
	TIMESPLUSALL(416(AX), Z9, Z10)
	TIMESPLUSALL(448(AX), Z9, Z10)
	TIMESPLUSALL(480(AX), Z9, Z10)
	TIMESPLUSALL(512(AX), Z9, Z10) // M(q)
	VMULPD Z9, Z8, Z11
	VMULPD.BCST 224(AX), Z8, Z12
	TIMESPLUS(Z12, Z11, Z10)
	VBROADCASTSD 192(AX), Z11
	TIMESMINUS(Z10, Z11, Z6)        // -2 ln U
	VSQRTPD Z6, Z6                  // R
	VPSRLQ $12, Z3, Z4
	VPORQ Z18, Z4, Z4
	VSUBPD Z18, Z4, Z4
	VADDPD.BCST 256(AX), Z4, Z4     // x
	VMULPD Z4, Z4, Z5               // y
	VBROADCASTSD 544(AX), Z7
	VBROADCASTSD 768(AX), Z8
	TIMESPLUSALL(576(AX), Z5, Z7)
	TIMESPLUSALL(800(AX), Z5, Z8)
	TIMESPLUSALL(608(AX), Z5, Z7)
	TIMESPLUSALL(832(AX), Z5, Z8)
	TIMESPLUSALL(640(AX), Z5, Z7)
	TIMESPLUSALL(864(AX), Z5, Z8)
	TIMESPLUSALL(672(AX), Z5, Z7)
	TIMESPLUSALL(896(AX), Z5, Z8)
	TIMESPLUSALL(704(AX), Z5, Z7)
	TIMESPLUSALL(928(AX), Z5, Z8)
	TIMESPLUSALL(736(AX), Z5, Z7)
	TIMESPLUSALL(960(AX), Z5, Z8) // cosine
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

	VPSRLQ SHORT, Z15, Z15
	VPTESTNMQ Z15, Z15, K1          // below the shortest word
	KMOVW K1, CX
	MOVQ CX, short+56(FP)
	VZEROUPPER
	RET
