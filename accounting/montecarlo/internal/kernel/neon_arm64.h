// Vectors of two doubles, by their numbers: the assembler knows no arithmetic on them but VFMLA.
// VFADD(m, n, d) is d = n + m, SUB d = n - m, DIV d = n / m, and so on, in the order of its own
// instructions. In the names that end in E, m is one lane of a vector.

#define VFADD(m, n, d) WORD $(0x4E60D400 | (m)<<16 | (n)<<5 | (d))
#define VFSUB(m, n, d) WORD $(0x4EE0D400 | (m)<<16 | (n)<<5 | (d))
#define VFMUL(m, n, d) WORD $(0x6E60DC00 | (m)<<16 | (n)<<5 | (d))
#define VFMULE(m, lane, n, d) WORD $(0x4FC09000 | (lane)<<11 | (m)<<16 | (n)<<5 | (d))
#define VFDIV(m, n, d) WORD $(0x6E60FC00 | (m)<<16 | (n)<<5 | (d))
#define VFMADD(m, n, d) WORD $(0x4E60CC00 | (m)<<16 | (n)<<5 | (d)) // d += n m, rounded once (FMLA)
#define VFMADDE(m, lane, n, d) WORD $(0x4FC01000 | (lane)<<11 | (m)<<16 | (n)<<5 | (d))
#define VFMSUB(m, n, d) WORD $(0x4EE0CC00 | (m)<<16 | (n)<<5 | (d)) // d -= n m, rounded once (FMLS)
#define VFSQRT(n, d) WORD $(0x6EE1F800 | (n)<<5 | (d))
#define VFNEG(n, d) WORD $(0x6EE0F800 | (n)<<5 | (d))
#define VFMIN(m, n, d) WORD $(0x4EE0F400 | (m)<<16 | (n)<<5 | (d)) // NaN if either is
#define VFMAX(m, n, d) WORD $(0x4E60F400 | (m)<<16 | (n)<<5 | (d)) // NaN if either is
#define VFCMGE(m, n, d) WORD $(0x6E60E400 | (m)<<16 | (n)<<5 | (d)) // ones where n >= m
