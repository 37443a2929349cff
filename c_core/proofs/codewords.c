/* SPDX-License-Identifier: MIT */
/* Reports of any trits of WIDTH, of any profile and code, looked up among any three codewords with any attached values. */
#include "codewords.h"

#include "peel.h"
#include "unknown.h"

#define BYTES_EACH PEEL_TRIT_BYTES(WIDTH)
#define CODEWORDS 3
#define REPORTS 2

static uint8_t packed[CODEWORDS * BYTES_EACH], reports[REPORTS * (BYTES_EACH + 1)];
static int64_t indices[CODEWORDS], signs[CODEWORDS];
static float residuals[CODEWORDS];
static uint32_t slots[8];

static int64_t index[REPORTS], sign[REPORTS];
static float residual[REPORTS];
static int32_t profiles[REPORTS];
static int8_t codes[REPORTS];

int main(void) {
  UNKNOWN(packed);
  UNKNOWN(reports);
  UNKNOWN(indices);
  UNKNOWN(signs);
  UNKNOWN(profiles);
  UNKNOWN(codes);
  const peel_codewords codewords = {packed, BYTES_EACH, CODEWORDS, indices, signs, residuals, slots, sizeof slots / sizeof slots[0]};
  peel_codewords_enter(&codewords);
  peel_codewords_decode(index, sign, residual, &codewords, 1, reports, BYTES_EACH + 1, profiles, codes, REPORTS);
  return 0;
}
