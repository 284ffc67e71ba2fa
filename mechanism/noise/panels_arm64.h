// The loops over the rows of a panel: see kernels.go. The file that includes this one has included neon_arm64.h and one of
// fused_arm64.h and apart_arm64.h. A row is eight vectors.

// ROW loads a row into V16 to V23.
#define ROW(p) \
	MOVD p, R20 \
	VLD1.P 64(R20), [V16.D2, V17.D2, V18.D2, V19.D2] \
	VLD1 (R20), [V20.D2, V21.D2, V22.D2, V23.D2]

// ACCA adds the row times V24 to the sums V0 to V7, ACCB times V25 to V8 to V15.
#define ACCA \
	PLUSTIMES(16, 24, 0) \
	PLUSTIMES(17, 24, 1) \
	PLUSTIMES(18, 24, 2) \
	PLUSTIMES(19, 24, 3) \
	PLUSTIMES(20, 24, 4) \
	PLUSTIMES(21, 24, 5) \
	PLUSTIMES(22, 24, 6) \
	PLUSTIMES(23, 24, 7)

#define ACCB \
	PLUSTIMES(16, 25, 8) \
	PLUSTIMES(17, 25, 9) \
	PLUSTIMES(18, 25, 10) \
	PLUSTIMES(19, 25, 11) \
	PLUSTIMES(20, 25, 12) \
	PLUSTIMES(21, 25, 13) \
	PLUSTIMES(22, 25, 14) \
	PLUSTIMES(23, 25, 15)

#define STOREA(p) \
	MOVD p, R20 \
	VST1.P [V0.D2, V1.D2, V2.D2, V3.D2], 64(R20) \
	VST1 [V4.D2, V5.D2, V6.D2, V7.D2], (R20)

#define STOREB(p) \
	MOVD p, R20 \
	VST1.P [V8.D2, V9.D2, V10.D2, V11.D2], 64(R20) \
	VST1 [V12.D2, V13.D2, V14.D2, V15.D2], (R20)

// TIMESA sets V0 to V7 to the row times V24, TIMESB V8 to V15 to it times V25.
#define TIMESA \
	VFMUL(24, 16, 0) \
	VFMUL(24, 17, 1) \
	VFMUL(24, 18, 2) \
	VFMUL(24, 19, 3) \
	VFMUL(24, 20, 4) \
	VFMUL(24, 21, 5) \
	VFMUL(24, 22, 6) \
	VFMUL(24, 23, 7)

#define TIMESB \
	VFMUL(25, 16, 8) \
	VFMUL(25, 17, 9) \
	VFMUL(25, 18, 10) \
	VFMUL(25, 19, 11) \
	VFMUL(25, 20, 12) \
	VFMUL(25, 21, 13) \
	VFMUL(25, 22, 14) \
	VFMUL(25, 23, 15)

#define ZEROA \
	VEOR V0.B16, V0.B16, V0.B16 \
	VEOR V1.B16, V1.B16, V1.B16 \
	VEOR V2.B16, V2.B16, V2.B16 \
	VEOR V3.B16, V3.B16, V3.B16 \
	VEOR V4.B16, V4.B16, V4.B16 \
	VEOR V5.B16, V5.B16, V5.B16 \
	VEOR V6.B16, V6.B16, V6.B16 \
	VEOR V7.B16, V7.B16, V7.B16

#define ZEROB \
	VEOR V8.B16, V8.B16, V8.B16 \
	VEOR V9.B16, V9.B16, V9.B16 \
	VEOR V10.B16, V10.B16, V10.B16 \
	VEOR V11.B16, V11.B16, V11.B16 \
	VEOR V12.B16, V12.B16, V12.B16 \
	VEOR V13.B16, V13.B16, V13.B16 \
	VEOR V14.B16, V14.B16, V14.B16 \
	VEOR V15.B16, V15.B16, V15.B16

// NEXT moves a row on, in a ring from the last slot to the first.
#define NEXT(row) \
	ADD R8, row \
	CMP R9, row \
	CSEL EQ, R0, row, row

// func feedback(rows *float64, across, stride, history, slot, slots, out, steps int, z, gain, f *float64)
// Two steps at a time: each earlier row is loaded once for both.
TEXT FEEDBACK, NOSPLIT, $0-88
	MOVD rows+0(FP), R0
	MOVD stride+16(FP), R8
	LSL $3, R8               // bytes from row to row
	MOVD history+24(FP), R3
	MOVD slot+32(FP), R10
	MADD R8, R0, R10, R10    // oldest row of step t
	MOVD slots+40(FP), R9
	MADD R8, R0, R9, R9      // end of the ring
	MOVD out+48(FP), R14
	MADD R8, R0, R14, R14    // place of the row of step t
	MOVD steps+56(FP), R4
	MOVD z+64(FP), R11       // normals of step t
	MOVD gain+72(FP), R6
	MOVD f+80(FP), R7        // coefficients of step t
	SUBS $2, R4
	BLT last

pair:
	VLD1R.P 8(R6), [V24.D2]
	VLD1R.P 8(R6), [V25.D2]
	ROW(R11)
	TIMESA
	ADD R8, R11
	ROW(R11)
	TIMESB
	ADD R8, R11
	ADD R3<<3, R7, R13       // coefficients of step t+1
	ROW(R10)
	VLD1R.P 8(R7), [V24.D2]
	ACCA
	NEXT(R10)
	MOVD R10, R12
	SUBS $1, R3, R2
	BEQ newest

row:
	ROW(R12)
	VLD1R.P 8(R7), [V24.D2]
	VLD1R.P 8(R13), [V25.D2]
	ACCA
	ACCB
	NEXT(R12)
	SUBS $1, R2
	BNE row

newest:
	NEXT(R10)
	STOREA(R14)
	NEXT(R14)
	VLD1R.P 8(R13), [V25.D2]
	PLUSTIMES(0, 25, 8)
	PLUSTIMES(1, 25, 9)
	PLUSTIMES(2, 25, 10)
	PLUSTIMES(3, 25, 11)
	PLUSTIMES(4, 25, 12)
	PLUSTIMES(5, 25, 13)
	PLUSTIMES(6, 25, 14)
	PLUSTIMES(7, 25, 15)
	STOREB(R14)
	NEXT(R14)
	MOVD R13, R7
	SUBS $2, R4
	BGE pair

last:
	ADDS $2, R4
	BEQ done
	VLD1R (R6), [V24.D2]
	ROW(R11)
	TIMESA

lastrow:
	ROW(R10)
	VLD1R.P 8(R7), [V24.D2]
	ACCA
	NEXT(R10)
	SUBS $1, R3
	BNE lastrow
	STOREA(R14)

done:
	RET

// func filter(p *float64, across, taps, steps int, h *float64)
TEXT FILTER, NOSPLIT, $0-40
	MOVD p+0(FP), R0         // oldest row of step t, and where its result goes
	MOVD taps+16(FP), R3
	MOVD steps+24(FP), R4
	MOVD h+32(FP), R7
	SUBS $2, R4
	BLT last

pair:
	ZEROA
	ZEROB
	MOVD R7, R13
	VLD1R.P 8(R13), [V24.D2]
	ROW(R0)
	ACCA
	ADD $128, R0, R12
	SUBS $1, R3, R2
	BEQ newest

row:
	ROW(R12)
	VMOV V24.B16, V25.B16    // the coefficient before
	VLD1R.P 8(R13), [V24.D2]
	ACCA
	ACCB
	ADD $128, R12
	SUBS $1, R2
	BNE row

newest:
	VMOV V24.B16, V25.B16
	ROW(R12)
	ACCB
	STOREA(R0)
	ADD $128, R0
	STOREB(R0)
	ADD $128, R0
	SUBS $2, R4
	BGE pair

last:
	ADDS $2, R4
	BEQ done
	ZEROA
	MOVD R0, R12

lastrow:
	ROW(R12)
	VLD1R.P 8(R7), [V24.D2]
	ACCA
	ADD $128, R12
	SUBS $1, R3
	BNE lastrow
	STOREA(R0)

done:
	RET

// func buffers(p *float64, across, steps int, s *float64, acrossBuffers, n int, minusScales, decays *float64)
TEXT BUFFERS, NOSPLIT, $0-64
	MOVD p+0(FP), R0
	MOVD steps+16(FP), R4
	MOVD s+24(FP), R10
	MOVD n+40(FP), R3
	MOVD minusScales+48(FP), R6
	MOVD decays+56(FP), R7

step:
	MOVD R0, R20
	VLD1.P 64(R20), [V0.D2, V1.D2, V2.D2, V3.D2]
	VLD1 (R20), [V4.D2, V5.D2, V6.D2, V7.D2]
	MOVD R10, R12
	MOVD R6, R13
	MOVD R3, R2

output:
	ROW(R12)
	VLD1R.P 8(R13), [V24.D2]
	ACCA
	ADD $128, R12
	SUBS $1, R2
	BNE output

	STOREA(R0)
	MOVD R10, R12
	MOVD R7, R13
	MOVD R3, R2

buffer:
	ROW(R12)
	VLD1R.P 8(R13), [V25.D2]
	VMOV V0.B16, V8.B16
	VMOV V1.B16, V9.B16
	VMOV V2.B16, V10.B16
	VMOV V3.B16, V11.B16
	VMOV V4.B16, V12.B16
	VMOV V5.B16, V13.B16
	VMOV V6.B16, V14.B16
	VMOV V7.B16, V15.B16
	ACCB
	STOREB(R12)
	ADD $128, R12
	SUBS $1, R2
	BNE buffer

	ADD $128, R0
	SUBS $1, R4
	BNE step
	RET
