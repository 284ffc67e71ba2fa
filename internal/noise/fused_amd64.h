// A product and the sum that it is added to are rounded once. SHORT is the shift that leaves nothing of a short word.

#define SHORT $52

// TIMESPLUS is p = p x + c, with c in each lane; TIMESPLUSALL has c once, in memory; TIMESMINUS is p = p x - c.
#define TIMESPLUS(c, x, p) VFMADD213PD c, x, p
#define TIMESPLUSALL(c, x, p) VFMADD213PD.BCST c, x, p
#define TIMESMINUS(c, x, p) VFMSUB213PD c, x, p

// PLUSTIMES is s += x c.
#define PLUSTIMES(x, c, s) VFMADD231PD x, c, s
