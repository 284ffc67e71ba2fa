#include "textflag.h"

// The kernels of kernels_arm64.s with products that are rounded before they are added.

#include "neon_arm64.h"
#include "apart_arm64.h"
#define NORMALS ·normals128Apart(SB)
#include "normals_arm64.h"
#define FEEDBACK ·feedback128Apart(SB)
#define FILTER ·filter128Apart(SB)
#define BUFFERS ·buffers128Apart(SB)
#include "panels_arm64.h"
