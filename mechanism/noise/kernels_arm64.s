#include "textflag.h"

// Each lane does what the portable functions do, in the same order: see kernels.go.

#include "neon_arm64.h"
#include "fused_arm64.h"
#define NORMALS ·normals128(SB)
#include "normals_arm64.h"
#define FEEDBACK ·feedback128(SB)
#define FILTER ·filter128(SB)
#define BUFFERS ·buffers128(SB)
#include "panels_arm64.h"

// ROUND8 rounds eight values at R2 into eight float32 at R6: V12 scale, V13 magic, V14 limit; V15 collects what is within it.
#define ROUND8 \
	VLD1.P 64(R2), [V0.D2, V1.D2, V2.D2, V3.D2] \
	VFMUL(12, 0, 0) \
	VFMUL(12, 1, 1) \
	VFMUL(12, 2, 2) \
	VFMUL(12, 3, 3) \
	VFADD(13, 0, 0) \
	VFADD(13, 1, 1) \
	VFADD(13, 2, 2) \
	VFADD(13, 3, 3) \
	VFSUB(13, 0, 0) \
	VFSUB(13, 1, 1) \
	VFSUB(13, 2, 2) \
	VFSUB(13, 3, 3) \
	VFABS(0, 4) \
	VFABS(1, 5) \
	VFABS(2, 6) \
	VFABS(3, 7) \
	VFCMGE(4, 14, 4) \
	VFCMGE(5, 14, 5) \
	VFCMGE(6, 14, 6) \
	VFCMGE(7, 14, 7) \
	VAND V4.B16, V5.B16, V4.B16 \
	VAND V6.B16, V7.B16, V6.B16 \
	VAND V4.B16, V15.B16, V15.B16 \
	VAND V6.B16, V15.B16, V15.B16 \
	VFCVTN(0, 0) \
	VFCVTN2(1, 0) \
	VFCVTN(2, 1) \
	VFCVTN2(3, 1) \
	VST1.P [V0.S4, V1.S4], 32(R6)

// func round128(dst *float32, stride int, p *float64, rows int, scales *float64, magic, limit float64) (ok int)
TEXT ·round128(SB), NOSPLIT, $0-64
	MOVD dst+0(FP), R0
	MOVD stride+8(FP), R1
	LSL $2, R1
	MOVD p+16(FP), R2
	MOVD rows+24(FP), R3
	MOVD scales+32(FP), R4
	MOVD magic+40(FP), R5
	VDUP R5, V13.D2
	MOVD limit+48(FP), R5
	VDUP R5, V14.D2
	VCMEQ V15.D2, V15.D2, V15.D2

row:
	VLD1R.P 8(R4), [V12.D2]
	MOVD R0, R6
	ROUND8
	ROUND8
	ADD R1, R0
	SUBS $1, R3
	BNE row

	VMOV V15.D[0], R2
	VMOV V15.D[1], R3
	AND R2, R3
	AND $15, R3
	MOVD R3, ok+56(FP)
	RET
