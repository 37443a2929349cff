/* SPDX-License-Identifier: MIT */
/* The randomisers (SPEC section 6). Readings decide no branch and no number of draws. */
#include "mechanism.h"

#include "bytes.h"
#include "drbg.h"
#include "peel.h"

/* 1 if a < b, without a branch */
static uint32_t below(uint32_t a, uint32_t b) { return (uint32_t)(((uint64_t)a - b) >> 63); }

/* |reading|, at most full scale */
static uint32_t magnitude(int32_t reading) {
  uint32_t negative = (uint32_t)reading >> 31;
  uint32_t size = ((uint32_t)reading ^ (0 - negative)) + negative;
  uint32_t over = 0 - below(PEEL_READING_ONE, size);
  return (PEEL_READING_ONE & over) | (size & ~over);
}

/* floor(word k / 2^32) in 32 bits, for k up to 2^16 */
static uint32_t assign(uint32_t word, uint32_t k) { return ((word >> 16) * k + ((word & 0xffff) * k >> 16)) >> 16; }

/* P(+) = 1/2 (1 + x tau): Nguyen et al. 2016, in 32-bit integers. */
static int harmony(peel_symbol *symbol, uint32_t rule, uint32_t assigned, const int32_t *readings, peel_drbg *drbg) {
  uint32_t u, x, shift, negative, threshold;
  int error = drbg_word(&u, drbg);
  if (error) return error;
  x = magnitude(readings[assigned]);
  shift = 2 * x * (rule >> 16) + (x * (rule & 0xffff) >> 15); /* floor(x rule / 2^15) */
  negative = (uint32_t)readings[assigned] >> 31;
  threshold = PEEL_RULE_ONE + ((shift ^ (0 - negative)) + negative);
  symbol->index = assigned;
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
static int krr(peel_symbol *symbol, uint32_t rule, uint32_t k, uint32_t category, peel_drbg *drbg) {
  uint32_t u, other, keep;
  int error = drbg_word(&u, drbg);
  if (!error) error = uniform(&other, k, drbg);
  if (error) return error;
  keep = 0 - below(u, 2 * rule);
  symbol->index = (category & keep) | (other & ~keep);
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

int peel_mechanism_known(uint32_t mechanism) { return mechanism == PEEL_HARMONY || mechanism == PEEL_KRR || mechanism == PEEL_HASHING; }

int peel_mechanism_assigns(uint32_t mechanism) { return mechanism == PEEL_HARMONY || mechanism == PEEL_HASHING; }

int peel_mechanism_check(uint32_t mechanism, uint32_t k, uint32_t domain, uint32_t width) {
  uint32_t least = 2, most = PEEL_MAX_WIDTH, has_domain = 0;
  switch (mechanism) {
    case PEEL_HARMONY:
      least = 1;
      break;
    case PEEL_KRR:
      break;
    case PEEL_HASHING:
      most = PEEL_MAX_HASH_SYMBOLS;
      has_domain = 1;
      break;
    default:
      return PEEL_E_MECHANISM;
  }
  if (k < least || k > most || k > width || width < 2 || width > PEEL_MAX_WIDTH) return PEEL_E_WIDTH;
  if (has_domain ? domain < 2 || domain > PEEL_MAX_DOMAIN : domain != 0) return PEEL_E_DOMAIN;
  return PEEL_OK;
}

/* The one category among the readings. */
static int category_of(uint32_t *category, uint32_t categories, const int32_t *readings, size_t count) {
  if (count != 1 || readings[0] < 0 || (uint32_t)readings[0] >= categories) return PEEL_E_READING;
  *category = (uint32_t)readings[0];
  return PEEL_OK;
}

int peel_perturb(peel_symbol *symbol, uint32_t mechanism, uint32_t rule, uint32_t k, uint32_t domain, uint32_t word,
                 const int32_t *readings, size_t count, peel_drbg *drbg) {
  uint32_t category;
  int error = peel_mechanism_check(mechanism, k, domain, PEEL_MAX_WIDTH);
  if (error) return error;
  if (rule == 0 || rule >= PEEL_RULE_ONE) return PEEL_E_RULE;
  switch (mechanism) {
    case PEEL_HARMONY:
      if (count != k) return PEEL_E_READING;
      return harmony(symbol, rule, assign(word, k), readings, drbg);
    case PEEL_KRR:
      error = category_of(&category, k, readings, count);
      return error ? error : krr(symbol, rule, k, category, drbg);
    case PEEL_HASHING:
      error = category_of(&category, domain, readings, count);
      return error ? error : krr(symbol, rule, k, hashed(word, k, domain, category), drbg);
    default:
      return PEEL_E_MECHANISM;
  }
}

uint32_t peel_index_word(const uint8_t index_key[16], const uint8_t header[16]) {
  uint8_t stream[4];
  peel_ascon_stream(stream, sizeof stream, index_key, header);
  return load32(stream);
}

uint32_t peel_index(const uint8_t index_key[16], const uint8_t header[16], uint32_t limit) {
  return (uint32_t)((uint64_t)peel_index_word(index_key, header) * limit >> 32);
}
