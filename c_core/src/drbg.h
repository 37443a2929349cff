/* SPDX-License-Identifier: MIT */
/* Random words for the rest of the core. Inline, as most words are already in the block. */
#ifndef PEEL_DRBG_H
#define PEEL_DRBG_H

#include <stdint.h>

#include "bytes.h"
#include "peel.h"

/* Make a new block, and replace the key that made it. */
void peel_drbg_refill(peel_drbg *drbg);

static inline int drbg_usable(const peel_drbg *drbg) { return drbg->seeded && drbg->left <= sizeof drbg->block && drbg->left % 4 == 0; }

/* Masked, so that the word lies in the block even if another thread changes left meanwhile, against the contract. */
static inline uint32_t drbg_draw(peel_drbg *drbg) {
  if (drbg->left == 0) peel_drbg_refill(drbg);
  uint8_t *place = drbg->block + ((sizeof drbg->block - drbg->left) & 12);
  uint32_t word = load32(place);
  drbg->left = (uint8_t)((drbg->left - 4) & 12);
  wipe(place, 4);
  return word;
}

/* Draw the next four bytes of peel_drbg_bytes as a little-endian number. Returns 0 or PEEL_E_ENTROPY. */
static inline int drbg_word(uint32_t *word, peel_drbg *drbg) {
  if (!drbg_usable(drbg)) return PEEL_E_ENTROPY;
  *word = drbg_draw(drbg);
  return PEEL_OK;
}

#endif
