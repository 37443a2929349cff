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

/* |reading|, at most full scale */
static uint32_t magnitude(int32_t reading) {
  uint32_t negative = (uint32_t)reading >> 31;
  uint32_t size = ((uint32_t)reading ^ (0 - negative)) + negative;
  return either(0 - below(PEEL_READING_ONE, size), PEEL_READING_ONE, size);
}

/* floor(word k / 2^32) in 32 bits, for k up to 2^16 */
static uint32_t assign(uint32_t word, uint32_t k) { return ((word >> 16) * k + ((word & 0xffff) * k >> 16)) >> 16; }

/* P(+) = 1/2 (1 + x tau): Nguyen et al. 2016, in 32-bit integers. */
static int sign(peel_symbol *symbol, uint32_t rule, int32_t reading, peel_drbg *drbg) {
  uint32_t u, x, shift, negative, threshold;
  int error = drbg_word(&u, drbg);
  if (error) return error;
  x = magnitude(reading);
  shift = 2 * x * (rule >> 16) + (x * (rule & 0xffff) >> 15); /* floor(x rule / 2^15) */
  negative = (uint32_t)reading >> 31;
  threshold = PEEL_RULE_ONE + ((shift ^ (0 - negative)) + negative);
  symbol->index = 0;
  symbol->minus = 1 ^ below(u, threshold);
  return PEEL_OK;
}

static int uniform(uint32_t *value, uint32_t k, peel_drbg *drbg) {
  uint32_t mask = k - 1;
  mask |= mask >> 1;
  mask |= mask >> 2;
  mask |= mask >> 4;
  mask |= mask >> 8;
  do {
    int error = drbg_word(value, drbg);
    if (error) return error;
    *value &= mask;
  } while (*value >= k);
  return PEEL_OK;
}

/* Keep the category with probability rule / 2^31, otherwise take a random one of all k. */
static int choice(peel_symbol *symbol, uint32_t rule, uint32_t k, uint32_t category, peel_drbg *drbg) {
  uint32_t u, other;
  int error = drbg_word(&u, drbg);
  if (!error) error = uniform(&other, k, drbg);
  if (error) return error;
  symbol->index = either(0 - below(u, 2 * rule), category, other);
  symbol->minus = 0;
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
  if (block->rule == 0 || block->rule >= PEEL_RULE_ONE) return PEEL_E_RULE;
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

/* ---- Answers ---- */

/* Randomise a category. One that is out of range is refused before anything is drawn. */
static int categorical(peel_symbol *symbol, const peel_block *block, uint32_t word, uint32_t category, peel_drbg *drbg) {
  uint32_t is_hashed = block->form == PEEL_HASHED;
  if (category >= (is_hashed ? block->domain : block->symbols)) return PEEL_E_READING;
  if (is_hashed) category = hashed(word, block->symbols, block->domain, category);
  return choice(symbol, block->rule, block->symbols, category, drbg);
}

/* A missing reading takes the path of a present one: the same draws, and another column in the end. */
int peel_answer(peel_symbol *symbol, uint32_t *rule, const peel_sums *sums, const peel_block *blocks, size_t block_count, uint32_t width,
                const uint32_t words[2], const int32_t *readings, size_t count, peel_drbg *drbg) {
  peel_symbol answer = {0, 0};
  assigned found = find(blocks, block_count, assign(words[0], sums->slots), 0);
  uint32_t place = found.question + found.within;
  if (count != sums->questions || place >= count) return PEEL_E_READING;
  uint32_t missing = below((uint32_t)readings[place] ^ (uint32_t)PEEL_NO_READING, 1);
  if (sums->columns == width && missing) return PEEL_E_READING;
  int error = found.block->form == PEEL_SIGN ? sign(&answer, found.block->rule, readings[place], drbg)
                                             : categorical(&answer, found.block, words[1], (uint32_t)readings[place] & (missing - 1), drbg);
  if (error) return error;
  symbol->index = either(0 - missing, sums->columns, found.column + found.within + answer.index);
  symbol->minus = answer.minus & (missing - 1);
  *rule = found.block->rule;
  return PEEL_OK;
}

int peel_perturb(peel_symbol *symbol, const peel_block *blocks, size_t block_count, uint32_t width, const uint32_t words[2],
                 const int32_t *readings, size_t count, peel_drbg *drbg) {
  peel_sums sums;
  uint32_t rule;
  int error = peel_blocks_sum(&sums, blocks, block_count, width);
  return error ? error : peel_answer(symbol, &rule, &sums, blocks, block_count, width, words, readings, count, drbg);
}
