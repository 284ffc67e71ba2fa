// A product and the sum that it is added to are rounded once. SHORT is the shift that leaves nothing of a short word.

#define SHORT $52

// PLUSTIMES is s += x c.
#define PLUSTIMES(x, c, s) VFMADD(x, c, s)

// NEXTTERM takes a step of Horner's rule: it reads the next coefficient into q, and adds p x.
#define NEXTTERM(p, x, q, Q) \
	VLD1.P 16(R5), [Q.D2] \
	VFMADD(x, p, q)
