/* SPDX-License-Identifier: MIT */
/* One reading, or WIDTH of them, of any value; any mechanism, rule, k, domain and word; a generator in any state. */
#include "peel.h"
#include "unknown.h"

static int32_t readings[WIDTH], category[1];
static uint8_t key[16], header[16];
static peel_drbg drbg;

int main(void) {
  peel_symbol symbol;
  UNKNOWN(readings);
  UNKNOWN(category);
  UNKNOWN(key);
  UNKNOWN(header);
  UNKNOWN(drbg);
  peel_perturb(&symbol, ANY_U32(), ANY_U32(), ANY_U32(), ANY_U32(), ANY_U32(), readings, WIDTH, &drbg);
  peel_perturb(&symbol, ANY_U32(), ANY_U32(), ANY_U32(), ANY_U32(), ANY_U32(), category, 1, &drbg);
  peel_perturb(&symbol, ANY_U32(), ANY_U32(), ANY_U32(), ANY_U32(), ANY_U32(), NULL, 0, &drbg);
  peel_index_word(key, header);
  peel_index(key, header, ANY_U32());
  return 0;
}
