/* SPDX-License-Identifier: MIT */
#include "coins.h"

#include <string.h>

#define NAME PEEL_COIN_NAME_BYTES
#define HASH PEEL_COIN_HASH_BYTES

/* The size of a coin's table, from the odds in its name. */
static uint32_t table_size(const uint8_t *name) { return name[14] + (name[16] - 1u) * name[15]; }

void peel_coins_seeds(uint8_t *seeds, const uint8_t *secrets, const uint64_t *numbers, size_t count) {
  for (size_t i = 0; i < count; i++) peel_coin_seed(seeds + 16 * i, secrets + 16 * i, numbers[i]);
}

void peel_coins_mask(int8_t *masked, const uint8_t *seeds, const uint8_t *symbols, const uint8_t *answers, size_t count) {
  for (size_t i = 0; i < count; i++) masked[i] = (int8_t)peel_coin_mask(seeds + 16 * i, symbols[i], answers[i]);
}

void peel_coins_roots(uint8_t *roots, int8_t *codes, const uint8_t *names, const uint8_t *seeds, size_t count) {
  for (size_t i = 0; i < count; i++) {
    memset(roots + HASH * i, 0, HASH);
    codes[i] = (int8_t)peel_coin_root(roots + HASH * i, names + NAME * i, seeds + 16 * i);
  }
}

void peel_coins_open(uint8_t *openings, size_t stride, uint8_t *roots, int8_t *codes, const uint8_t *names, const uint8_t *seeds,
                     const uint8_t *indices, size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint8_t *row = openings + stride * i, *root = roots + HASH * i;
    memset(root, 0, HASH);
    memset(row, 0, stride);
    int size = peel_coin_open(row, stride, root, names + NAME * i, seeds + 16 * i, indices[i]);
    codes[i] = (int8_t)(size < 0 ? size : 0);
  }
}

/* Whether a row has nothing but zeros after the opening. */
static int is_padded(const uint8_t *row, size_t size, size_t stride) {
  uint8_t rest = 0;
  for (size_t at = size; at < stride; at++) rest |= row[at];
  return rest == 0;
}

/* Verify the opening at the front of a row of stride bytes. No opening is empty, so that a length of 0 is refused. */
static int verify_row(const uint8_t *root, const uint8_t *name, uint8_t index, const uint8_t *row, size_t stride) {
  int found = peel_coin_opening_bytes(table_size(name), index);
  size_t size = found > 0 ? (size_t)found : 0, len = size <= stride && is_padded(row, size, stride) ? size : 0;
  return peel_coin_verify(root, name, index, row, len);
}

void peel_coins_verify(int8_t *outcomes, const uint8_t *roots, const uint8_t *names, const uint8_t *indices, const uint8_t *openings,
                       size_t stride, size_t count) {
  for (size_t i = 0; i < count; i++) {
    outcomes[i] = (int8_t)verify_row(roots + HASH * i, names + NAME * i, indices[i], openings + stride * i, stride);
  }
}

void peel_coins_indices(uint8_t *indices, const uint8_t *challenge_seeds, const uint64_t *numbers, const uint8_t *sizes, size_t count) {
  for (size_t i = 0; i < count; i++) indices[i] = (uint8_t)peel_coin_index(challenge_seeds + 16 * i, numbers[i], sizes[i]);
}

static uint32_t choose(const uint8_t key[16], uint32_t left) {
  uint8_t words[4 * PEEL_BATCH_NUMBERS];
  const uint8_t nonce[16] = {0};
  uint32_t chosen = 0;
  peel_ascon_stream(words, sizeof words, key, nonce);
  for (uint32_t j = 0; j < PEEL_BATCH_NUMBERS; j++) {
    const uint8_t *b = words + 4 * j;
    uint64_t word = (uint64_t)b[0] | (uint64_t)b[1] << 8 | (uint64_t)b[2] << 16 | (uint64_t)b[3] << 24;
    if (word * (PEEL_BATCH_NUMBERS - j) >> 32 < left) {
      chosen |= 1u << j;
      left--;
    }
  }
  return chosen;
}

void peel_coins_audits(uint32_t *bitmaps, const uint8_t challenge_key[16], const uint8_t *headers, const uint8_t *roots,
                       const uint8_t *audits, size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint8_t key[16];
    peel_xof xof;
    peel_hash_init(&xof, "peel/1 audit");
    (void)peel_xof_absorb(&xof, challenge_key, 16); /* cannot fail before a squeeze */
    (void)peel_xof_absorb(&xof, headers + PEEL_HEADER_BYTES * i, PEEL_HEADER_BYTES);
    (void)peel_xof_absorb(&xof, roots + HASH * PEEL_BATCH_NUMBERS * i, HASH * PEEL_BATCH_NUMBERS);
    peel_xof_squeeze(&xof, key, sizeof key);
    bitmaps[i] = choose(key, audits[i]);
  }
}
