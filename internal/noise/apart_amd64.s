#include "textflag.h"

// The kernels of kernels_amd64.s with products that are rounded before they are added.

#include "apart_amd64.h"
#define NORMALS ·normals256Apart(SB)
#include "normals256_amd64.h"

// The loops over rows with four doubles to a vector: a row of a panel is four of them.
#include "ymm_amd64.h"
#define FEEDBACK ·feedback256Apart(SB)
#define FILTER ·filter256Apart(SB)
#define BUFFERS ·buffers256Apart(SB)
#include "panels_amd64.h"
