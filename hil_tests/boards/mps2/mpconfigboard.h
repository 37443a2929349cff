/* SPDX-License-Identifier: MIT */
/* The QEMU port's settings, plus the module `time` (clock.c has the ticks). */
#include <mpconfigport.h>

#undef MICROPY_PY_TIME
#define MICROPY_PY_TIME (1)
