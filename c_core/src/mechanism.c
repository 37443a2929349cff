/* SPDX-License-Identifier: MIT */
/* The randomisers (SPEC section 6). A reading decides no branch, and no number of draws. */
#include "bytes.h"
#include "peel.h"

/* 1 when a < b, without a branch */
static uint32_t below(uint32_t a, uint32_t b) { return (uint32_t)(((uint64_t)a - b) >> 63); }

/* |reading|, at most full scale */
static uint32_t magnitude(int32_t reading) {
  uint32_t negative = (uint32_t)reading >> 31;
  uint32_t size = ((uint32_t)reading ^ (0 - negative)) + negative;
  uint32_t over = 0 - below(PEEL_READING_ONE, size);
  return (PEEL_READING_ONE & over) | (size & ~over);
}

static int draw(uint32_t *word, peel_drbg *drbg) {
  uint8_t bytes[4];
  int error = peel_drbg_bytes(drbg, bytes, sizeof bytes);
  *word = load32(bytes);
  return error;
}

/* P(+) = 1/2 (1 + x tau): Nguyen et al. 2016, in 32-bit integers. */
static int harmony(peel_symbol *symbol, uint32_t rule, uint32_t assigned, const int32_t *readings, peel_drbg *drbg) {
  uint32_t u, x, shift, negative, threshold;
  int error = draw(&u, drbg);
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
    int error = draw(value, drbg);
    if (error) return error;
    *value &= mask;
  } while (*value >= k);
  return PEEL_OK;
}

/* Keep the category with probability rule / 2^31, otherwise take any of the k, the true one included. */
static int krr(peel_symbol *symbol, uint32_t rule, uint32_t k, uint32_t category, peel_drbg *drbg) {
  uint32_t u, other, keep;
  int error = draw(&u, drbg);
  if (!error) error = uniform(&other, k, drbg);
  if (error) return error;
  keep = 0 - below(u, 2 * rule);
  symbol->index = (category & keep) | (other & ~keep);
  symbol->minus = 0;
  return PEEL_OK;
}

int peel_perturb(peel_symbol *symbol, uint32_t mechanism, uint32_t rule, uint32_t k, uint32_t assigned, const int32_t *readings,
                 size_t count, peel_drbg *drbg) {
  if (rule == 0 || rule >= PEEL_RULE_ONE) return PEEL_E_RULE;
  if (k < 2 || k > PEEL_MAX_WIDTH) return PEEL_E_WIDTH;
  switch (mechanism) {
    case PEEL_HARMONY:
      if (count != k || assigned >= k) return PEEL_E_READING;
      return harmony(symbol, rule, assigned, readings, drbg);
    case PEEL_KRR:
      if (count != 1 || readings[0] < 0 || (uint32_t)readings[0] >= k) return PEEL_E_READING;
      return krr(symbol, rule, k, (uint32_t)readings[0], drbg);
    default:
      return PEEL_E_MECHANISM;
  }
}

uint32_t peel_index(const uint8_t index_key[16], const uint8_t header[16], uint32_t k) {
  uint8_t stream[4];
  peel_ascon_stream(stream, sizeof stream, index_key, header);
  uint32_t w = load32(stream);
  return ((w >> 16) * k + ((w & 0xffff) * k >> 16)) >> 16; /* floor(w k / 2^32) in 32 bits */
}
