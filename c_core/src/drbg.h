/* SPDX-License-Identifier: MIT */
/* What the rest of the core draws. */
#ifndef PEEL_DRBG_H
#define PEEL_DRBG_H

#include <stdint.h>

#include "peel.h"

/* The next four bytes of peel_drbg_bytes, as a little-endian number. Returns 0 or PEEL_E_ENTROPY. */
int peel_drbg_word(uint32_t *word, peel_drbg *drbg);

#endif
