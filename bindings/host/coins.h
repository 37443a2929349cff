/* SPDX-License-Identifier: MIT */
/* Batch loops over verified coins (SPEC section 13). Arrays have one row per coin: 20 bytes of name, 16 of seed, secret or root. */
#ifndef PEEL_COINS_H
#define PEEL_COINS_H

#include "peel.h"

/* Compute the seeds of count numbers from the secrets of their batches. */
void peel_coins_seeds(uint8_t *seeds, const uint8_t *secrets, const uint64_t *numbers, size_t count);

/* Mask count answers. masked gets the masked answer, or a negative code of peel_coin_mask. */
void peel_coins_mask(int8_t *masked, const uint8_t *seeds, const uint8_t *symbols, const uint8_t *answers, size_t count);

/* Compute the roots of count tables. codes gets 0, or a negative code; the root is then zero. */
void peel_coins_roots(uint8_t *roots, int8_t *codes, const uint8_t *names, const uint8_t *seeds, size_t count);

/* Open one outcome of each of count tables into rows of stride bytes, with zeros after the opening. codes gets 0, or a negative code of
 * peel_coin_open; root and row are then zero. */
void peel_coins_open(uint8_t *openings, size_t stride, uint8_t *roots, int8_t *codes, const uint8_t *names, const uint8_t *seeds,
                     const uint8_t *indices, size_t count);

/* Verify count openings in rows of stride bytes, with zeros after the opening. outcomes gets the outcome, or a negative code of
 * peel_coin_verify; other bytes after an opening are PEEL_E_LENGTH. */
void peel_coins_verify(int8_t *outcomes, const uint8_t *roots, const uint8_t *names, const uint8_t *indices, const uint8_t *openings,
                       size_t stride, size_t count);

/* Compute the indices that challenges pick: one seed of 16 bytes, number and size of the table for each. */
void peel_coins_indices(uint8_t *indices, const uint8_t *challenge_seeds, const uint64_t *numbers, const uint8_t *sizes, size_t count);

/* Compute the seeds of count challenges (SPEC section 13.5). Challenge i is the one with this count of its device, about the reports
 * ends[i-1] .. ends[i], in 23 bytes each: number, root and masked answer. */
void peel_coins_challenges(uint8_t *seeds, const uint8_t challenge_key[16], const uint32_t *devices, const uint32_t *counts,
                           const uint8_t *reports, const uint64_t *ends, size_t count);

/* Choose the audits of count commitments (SPEC section 13.5): headers of 16 bytes, roots of 512, and how many numbers to audit. */
void peel_coins_audits(uint32_t *bitmaps, const uint8_t challenge_key[16], const uint8_t *headers, const uint8_t *roots,
                       const uint8_t *audits, size_t count);

#endif
