// Vectors of two doubles, by their numbers: the assembler knows no arithmetic on them but VFMLA. VFADD(m, n, d) is d = n + m,
// SUB d = n - m, DIV d = n / m, and so on, in the order of its own instructions.

#define VFADD(m, n, d) WORD $(0x4E60D400 | (m)<<16 | (n)<<5 | (d))
#define VFSUB(m, n, d) WORD $(0x4EE0D400 | (m)<<16 | (n)<<5 | (d))
#define VFMUL(m, n, d) WORD $(0x6E60DC00 | (m)<<16 | (n)<<5 | (d))
#define VFDIV(m, n, d) WORD $(0x6E60FC00 | (m)<<16 | (n)<<5 | (d))
#define VFMADD(m, n, d) WORD $(0x4E60CC00 | (m)<<16 | (n)<<5 | (d)) // d += n m, rounded once
#define VFSQRT(n, d) WORD $(0x6EE1F800 | (n)<<5 | (d))
#define VFNEG(n, d) WORD $(0x6EE0F800 | (n)<<5 | (d))
#define VFABS(n, d) WORD $(0x4EE0F800 | (n)<<5 | (d))
#define VFCMGE(m, n, d) WORD $(0x6E60E400 | (m)<<16 | (n)<<5 | (d)) // ones where n >= m
#define VSCVTF(n, d) WORD $(0x4E61D800 | (n)<<5 | (d))
#define VUCVTF(n, d) WORD $(0x6E61D800 | (n)<<5 | (d))
#define VFCVTN(n, d) WORD $(0x0E616800 | (n)<<5 | (d)) // to the first half of d
#define VFCVTN2(n, d) WORD $(0x4E616800 | (n)<<5 | (d))
