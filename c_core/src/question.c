/* SPDX-License-Identifier: MIT */
/* Questions, their assignment and their randomisers (SPEC sections 6 and 7). Readings decide no branch and no number of draws. */
#include "question.h"

#include "bytes.h"
#include "drbg.h"
#include "peel.h"

/* 1 if a < b, without a branch */
static uint32_t below(uint32_t a, uint32_t b) { return (uint32_t)(((uint64_t)a - b) >> 63); }

/* a if mask is all ones, b if it is 0 */
static uint32_t either(uint32_t mask, uint32_t a, uint32_t b) { return (a & mask) | (b & ~mask); }

/* floor(word k / 2^32) in 32 bits, for k up to 2^16 */
static uint32_t assign(uint32_t word, uint32_t k) { return ((word >> 16) * k + ((word & 0xffff) * k >> 16)) >> 16; }

/* Draw a number below count, which is at most 2^18. */
static int uniform(uint32_t *value, uint32_t count, peel_drbg *drbg) {
  uint32_t mask = count - 1;
  mask |= mask >> 1;
  mask |= mask >> 2;
  mask |= mask >> 4;
  mask |= mask >> 8;
  mask |= mask >> 16;
  do {
    int error = drbg_word(value, drbg);
    if (error) return error;
    *value &= mask;
  } while (*value >= count);
  return PEEL_OK;
}

/* The coin of section 6.1: keep the answer, or turn it into another one of g. The loop adds up the pattern's offset at u in a time that
 * depends on g alone. All differences stay below 2^31. */
static int toss(uint32_t *answer, const peel_block *block, peel_drbg *drbg) {
  uint32_t u, g = peel_outcomes(block), result = *answer, end = block->keep;
  int error = uniform(&u, end + (g - 1) * block->change, drbg);
  if (error) return error;
  for (uint32_t offset = 1; offset < g; offset++, end += block->change) result += 1 - ((u - end) >> 31);
  result -= g;
  *answer = result + (g & (0 - (result >> 31)));
  return PEEL_OK;
}

/* Hide the answer: by the coin, or under the mask of a verified one. */
static int hide(uint32_t *answer, const peel_block *block, const uint8_t *seed, peel_drbg *drbg) {
  if (!seed) return toss(answer, block, drbg);
  int masked = peel_coin_mask(seed, peel_outcomes(block), *answer);
  if (masked < 0) return masked;
  *answer = (uint32_t)masked;
  return PEEL_OK;
}

/* The reading in steps above the lowest one: from 0 to 2 PEEL_READING_ONE. */
static uint32_t level(int32_t reading) {
  uint32_t steps = (uint32_t)reading + PEEL_READING_ONE, negative = (uint32_t)reading >> 31;
  uint32_t low = negative & (steps >> 31), high = ~negative & below(2 * PEEL_READING_ONE, steps);
  return either(0 - high, 2 * PEEL_READING_ONE, steps & (low - 1));
}

/* Round the reading to 0 or 1 at random, in proportion, and hide it. */
static int sign(peel_symbol *symbol, const peel_block *block, int32_t reading, const uint8_t *seed, peel_drbg *drbg) {
  uint32_t v, answer;
  int error = drbg_word(&v, drbg);
  if (error) return error;
  answer = below(v >> 16, level(reading));
  error = hide(&answer, block, seed, drbg);
  if (error) return error;
  symbol->index = 0;
  symbol->minus = answer ^ 1;
  return PEEL_OK;
}

/* floor(2^16 / k): small cores divide slowly, or by a library call */
static uint32_t inverse_of(uint32_t k) {
  uint32_t inverse = 0, rest = 1;
  for (int bit = 0; bit < 16; bit++) {
    rest <<= 1;
    inverse <<= 1;
    if (rest >= k) rest -= k, inverse |= 1;
  }
  return inverse;
}

/* Divide x, below 2^16, in place, and return the remainder. The estimate is too low by at most one, corrected without a branch. */
static uint32_t divide(uint32_t *x, uint32_t k, uint32_t inverse) {
  uint32_t quotient = *x * inverse >> 16;
  uint32_t rest = *x - quotient * k;
  uint32_t low = 1 ^ below(rest, k);
  *x = quotient + low;
  return rest - (k & (0 - low));
}

/* h_a(category), digit by digit: the hash's digits from the first, the category's from the last. The sum stays below 2^16. */
static uint32_t hashed(uint32_t word, uint32_t k, uint32_t domain, uint32_t category) {
  uint32_t inverse = inverse_of(k), sum = 0;
  for (uint32_t reach = 1; reach < domain; reach *= k) {
    sum += assign(word, k) * divide(&category, k, inverse);
    word *= k;
  }
  return divide(&sum, k, inverse);
}

/* ---- Blocks ---- */

static int check_block(const peel_block *block, uint32_t columns_left) {
  uint32_t is_sign = block->form == PEEL_SIGN, is_hashed = block->form == PEEL_HASHED;
  if (!is_sign && !is_hashed && block->form != PEEL_CHOICE) return PEEL_E_BLOCK;
  if (block->weight == 0 || block->weight > PEEL_MAX_WEIGHT) return PEEL_E_BLOCK;
  if (is_sign ? block->questions == 0 : block->questions != 1) return PEEL_E_BLOCK;
  if (is_sign ? block->symbols != 1 : block->symbols < 2) return PEEL_E_WIDTH;
  if (is_hashed && block->symbols > PEEL_MAX_HASH_SYMBOLS) return PEEL_E_WIDTH;
  if ((uint32_t)block->questions * block->symbols > columns_left) return PEEL_E_WIDTH;
  if (is_hashed ? block->domain < 2 : block->domain != 0) return PEEL_E_DOMAIN;
  if (block->change == 0 || block->change >= block->keep) return PEEL_E_ODDS;
  return PEEL_OK;
}

static uint32_t slots_of(const peel_block *block) { return (uint32_t)block->questions * block->weight; }

/* At most PEEL_MAX_WIDTH questions of weight PEEL_MAX_WEIGHT: the slots stay below 2^16. */
int peel_blocks_sum(peel_sums *sums, const peel_block *blocks, size_t block_count, uint32_t width) {
  uint32_t slots = 0, questions = 0, columns = 0;
  if (block_count == 0 || block_count > PEEL_MAX_BLOCKS) return PEEL_E_BLOCK;
  if (width < 2 || width > PEEL_MAX_WIDTH) return PEEL_E_WIDTH;
  for (size_t i = 0; i < block_count; i++) {
    int error = check_block(&blocks[i], width - columns);
    if (error) return error;
    slots += slots_of(&blocks[i]);
    questions += blocks[i].questions;
    columns += (uint32_t)blocks[i].questions * blocks[i].symbols;
  }
  sums->slots = slots;
  sums->questions = questions;
  sums->columns = columns;
  return PEEL_OK;
}

int peel_blocks_check(const peel_block *blocks, size_t block_count, uint32_t width) {
  peel_sums sums;
  return peel_blocks_sum(&sums, blocks, block_count, width);
}

/* ---- Assignment (section 7) ---- */

void peel_index_words(uint32_t words[2], const uint8_t index_key[16], const uint8_t header[16]) {
  uint8_t stream[8];
  peel_ascon_stream(stream, sizeof stream, index_key, header);
  words[0] = load32(stream);
  words[1] = load32(stream + 4);
}

typedef struct {
  const peel_block *block;
  uint32_t within;   /* its place in the block */
  uint32_t question; /* the first question, column and unit of the block */
  uint32_t column;
  uint32_t unit;
} assigned;

static uint32_t units_of(const peel_block *block) {
  uint32_t hashes = 1;
  if (block->form != PEEL_HASHED) return block->questions;
  while (hashes < block->domain) hashes *= block->symbols;
  return hashes;
}

/* Find the question that owns a slot. with_units is a constant of the caller, so that devices count no hashes. */
static inline assigned find(const peel_block *blocks, size_t block_count, uint32_t slot, int with_units) {
  assigned found = {blocks, 0, 0, 0, 0};
  for (; --block_count && slot >= slots_of(found.block); found.block++) {
    slot -= slots_of(found.block);
    found.question += found.block->questions;
    found.column += (uint32_t)found.block->questions * found.block->symbols;
    if (with_units) found.unit += units_of(found.block);
  }
  divide(&slot, found.block->weight, inverse_of(found.block->weight));
  found.within = slot;
  return found;
}

uint32_t peel_unit(const peel_block *blocks, size_t block_count, const uint32_t words[2]) {
  uint32_t slots = 0;
  for (size_t i = 0; i < block_count; i++) slots += slots_of(&blocks[i]);
  assigned found = find(blocks, block_count, assign(words[0], slots), 1);
  if (found.block->form != PEEL_HASHED) return found.unit + found.within;
  return found.unit + (uint32_t)((uint64_t)words[1] * units_of(found.block) >> 32);
}

const peel_block *peel_assigned_block(const peel_sums *sums, const peel_block *blocks, size_t block_count, const uint32_t words[2]) {
  return find(blocks, block_count, assign(words[0], sums->slots), 0).block;
}

/* ---- Answers ---- */

/* Hide a category. One that is out of range is refused before anything is drawn. */
static int categorical(peel_symbol *symbol, const peel_block *block, uint32_t word, uint32_t category, const uint8_t *seed,
                       peel_drbg *drbg) {
  uint32_t is_hashed = block->form == PEEL_HASHED;
  if (category >= (is_hashed ? block->domain : block->symbols)) return PEEL_E_READING;
  if (is_hashed) category = hashed(word, block->symbols, block->domain, category);
  symbol->index = category;
  return hide(&symbol->index, block, seed, drbg);
}

/* A missing reading takes the path of a present one: the same draws, and another column in the end. */
int peel_answer(peel_symbol *symbol, uint32_t *rule, const peel_sums *sums, const peel_block *blocks, size_t block_count, uint32_t width,
                const uint32_t words[2], const int32_t *readings, size_t count, const uint8_t *seed, peel_drbg *drbg) {
  peel_symbol answer = {0, 0};
  assigned found = find(blocks, block_count, assign(words[0], sums->slots), 0);
  uint32_t place = found.question + found.within;
  if (count != sums->questions || place >= count) return PEEL_E_READING;
  uint32_t missing = below((uint32_t)readings[place] ^ (uint32_t)PEEL_NO_READING, 1);
  if (sums->columns == width && missing) return PEEL_E_READING;
  int error = found.block->form == PEEL_SIGN
                  ? sign(&answer, found.block, readings[place], seed, drbg)
                  : categorical(&answer, found.block, words[1], (uint32_t)readings[place] & (missing - 1), seed, drbg);
  if (error) return error;
  symbol->index = either(0 - missing, sums->columns, found.column + found.within + answer.index);
  symbol->minus = answer.minus & (missing - 1);
  *rule = PEEL_RULE(found.block->keep, found.block->change);
  return PEEL_OK;
}

int peel_perturb(peel_symbol *symbol, const peel_block *blocks, size_t block_count, uint32_t width, const uint32_t words[2],
                 const int32_t *readings, size_t count, peel_drbg *drbg) {
  peel_sums sums;
  uint32_t rule;
  int error = peel_blocks_sum(&sums, blocks, block_count, width);
  return error ? error : peel_answer(symbol, &rule, &sums, blocks, block_count, width, words, readings, count, NULL, drbg);
}
