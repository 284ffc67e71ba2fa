// A product is rounded before it is added. See fused_arm64.h.

#define SHORT $40

// PLUSTIMES uses V26.
#define PLUSTIMES(x, c, s) \
	VFMUL(x, c, 26) \
	VFADD(26, s, s)

#define NEXTTERM(p, x, q, Q) \
	VLD1.P 16(R5), [Q.D2] \
	VFMUL(x, p, p) \
	VFADD(p, q, q)
