#include "textflag.h"

// The kernels of kernels512_amd64.s with products that are rounded before they are added.

#include "apart_amd64.h"
#define NORMALS ·normals512Apart(SB)
#include "normals512_amd64.h"

// The loops over rows: two panels at a time.
#include "zmm_amd64.h"
#define FEEDBACK ·feedback512Apart(SB)
#define FILTER ·filter512Apart(SB)
#define BUFFERS ·buffers512Apart(SB)
#include "panels_amd64.h"
