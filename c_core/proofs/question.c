/* SPDX-License-Identifier: MIT */
/* One reading, or WIDTH of them, of any value; any blocks, as many as there can be, and any words; a generator in any state. */
#include "peel.h"
#include "unknown.h"

static peel_block blocks[PEEL_MAX_BLOCKS];
static int32_t readings[WIDTH], category[1];
static uint32_t words[2];
static uint8_t key[16], header[16];
static peel_drbg drbg;

int main(void) {
  peel_symbol symbol;
  UNKNOWN(blocks);
  UNKNOWN(readings);
  UNKNOWN(category);
  UNKNOWN(key);
  UNKNOWN(header);
  UNKNOWN(drbg);
  peel_index_words(words, key, header);
  peel_blocks_check(blocks, ANY_SIZE(PEEL_MAX_BLOCKS), ANY_U32());
  peel_blocks_check(NULL, EITHER(0, PEEL_MAX_BLOCKS + 1), ANY_U32());
  peel_unit(blocks, Frama_C_size_t_interval(1, PEEL_MAX_BLOCKS), words);
  peel_perturb(&symbol, blocks, ANY_SIZE(PEEL_MAX_BLOCKS), ANY_U32(), words, readings, WIDTH, &drbg);
  peel_perturb(&symbol, blocks, ANY_SIZE(PEEL_MAX_BLOCKS), ANY_U32(), words, category, 1, &drbg);
  return peel_perturb(&symbol, blocks, ANY_SIZE(PEEL_MAX_BLOCKS), ANY_U32(), words, NULL, 0, &drbg);
}
