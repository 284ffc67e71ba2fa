// A product is rounded before it is added. See fused_amd64.h.

#define SHORT $40

#define TIMESPLUS(c, x, p) \
	VMULPD x, p, p \
	VADDPD c, p, p

#define TIMESPLUSALL(c, x, p) \
	VMULPD x, p, p \
	VADDPD.BCST c, p, p

#define TIMESMINUS(c, x, p) \
	VMULPD x, p, p \
	VSUBPD c, p, p

// PLUSTIMES uses V14.
#define PLUSTIMES(x, c, s) \
	VMULPD x, c, V14 \
	VADDPD V14, s, s
