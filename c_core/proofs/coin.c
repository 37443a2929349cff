/* SPDX-License-Identifier: MIT */
/* Tables of SIZE outcomes, with the fewest and the most symbols that such a table can have: roots, and every outcome opened and
 * verified. Other odds change numbers that are neither addresses nor bounds of loops over memory. */
#include "coins.h"
#include "peel.h"
#include "unknown.h"

static uint8_t few[PEEL_COIN_NAME_BYTES], many[PEEL_COIN_NAME_BYTES], seed[16], root[16];
static uint8_t opening[PEEL_MAX_OPENING_BYTES];
static uint8_t names[2 * PEEL_COIN_NAME_BYTES], seeds[2 * 16], roots[2 * 16], rows[2 * 100], bytes[2], headers[2 * 16], batches[2 * 512];
static uint8_t reports[3 * 23];
static uint64_t numbers[2];
static const uint64_t report_ends[2] = {1, 3};
static uint32_t bitmaps[2], words[2];
static int8_t codes[2];

/* keep : 1 */
static void set_odds(uint8_t *name, uint8_t keep, uint8_t symbols) {
  name[14] = keep;
  name[15] = 1;
  name[16] = symbols;
  name[17] = 0;
  name[18] = 0;
  name[19] = 0;
}

/* Two coins at once. */
static void make_two(void) {
  UNKNOWN(names);
  UNKNOWN(seeds);
  UNKNOWN(rows);
  UNKNOWN(bytes);
  UNKNOWN(headers);
  UNKNOWN(batches);
  UNKNOWN(numbers);
  UNKNOWN(reports);
  UNKNOWN(words);
  set_odds(names, SIZE - 1, 2);
  set_odds(names + PEEL_COIN_NAME_BYTES, 2, SIZE - 1);
  peel_coins_seeds(seeds, roots, numbers, 2);
  peel_coins_mask(codes, seeds, bytes, bytes, 2);
  peel_coins_indices(bytes, seeds, numbers, bytes, 2);
  peel_coins_challenges(roots, seed, words, words, reports, report_ends, 2);
  peel_coins_audits(bitmaps, seed, headers, batches, bytes, 2);
  peel_coins_roots(roots, codes, names, seeds, 2);
  bytes[0] = 0;
  bytes[1] = SIZE - 1;
  peel_coins_open(rows, 100, roots, codes, names, seeds, bytes, 2);
  UNKNOWN(rows);
  peel_coins_verify(codes, roots, names, bytes, rows, 100, 2);
}

int main(void) {
  UNKNOWN(few);
  UNKNOWN(many);
  UNKNOWN(seed);
  UNKNOWN(root);
  UNKNOWN(opening);
  set_odds(few, SIZE - 1, 2);
  set_odds(many, 2, SIZE - 1);
  peel_coin_root(root, many, seed);
  for (uint32_t index = 0; index <= SIZE; index++) {
    int size = peel_coin_opening_bytes(SIZE, index);
    size_t len = size < 0 ? 0 : (size_t)size;
    uint8_t *exact = opening + sizeof opening - len; /* so that a byte more is beyond the object */
    peel_coin_open(exact, len, root, few, seed, index);
    //@ slevel merge;
    peel_coin_verify(root, few, index, exact, len);
  }
  make_two();
  return peel_coin_open(opening + sizeof opening - 13, 13, root, few, seed, 0);
}
