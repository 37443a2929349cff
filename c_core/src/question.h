/* SPDX-License-Identifier: MIT */
/* Blocks of questions, for the encoder. */
#ifndef PEEL_QUESTION_H
#define PEEL_QUESTION_H

#include <stddef.h>
#include <stdint.h>

#include "peel.h"

/* The sizes of all blocks together. */
typedef struct {
  uint32_t slots;
  uint32_t questions;
  uint32_t columns;
} peel_sums;

/* Check blocks and add them up. Returns 0 or PEEL_E_BLOCK, _WIDTH, _DOMAIN, _ODDS. */
int peel_blocks_sum(peel_sums *sums, const peel_block *blocks, size_t block_count, uint32_t width);

/* Return the block of the question that these words assign. */
const peel_block *peel_assigned_block(const peel_sums *sums, const peel_block *blocks, size_t block_count, const uint32_t words[2]);

/* The outcomes of a block's coin. */
static inline uint32_t peel_outcomes(const peel_block *block) { return block->form == PEEL_SIGN ? 2 : block->symbols; }

/* Like peel_perturb, for blocks that were checked. Also returns the rule of the question: its odds as a frame has them. With a seed,
 * which is not NULL for verified coins, the answer is masked. */
int peel_answer(peel_symbol *symbol, uint32_t *rule, const peel_sums *sums, const peel_block *blocks, size_t block_count, uint32_t width,
                const uint32_t words[2], const int32_t *readings, size_t count, const uint8_t *seed, peel_drbg *drbg);

#endif
