/* SPDX-License-Identifier: MIT */
/* Codewords of WIDTH of any symbol, from any seed and any row cache; any packed bytes unpacked. Other widths are refused unread. */
#include "peel.h"
#include "unknown.h"

static uint32_t rows[WIDTH - 1];
static uint8_t trits[PEEL_TRIT_BYTES(WIDTH)];
static int8_t unpacked[WIDTH - 1];

int main(void) {
  peel_symbol symbol;
  UNKNOWN(symbol);
  peel_projection_rows(rows, ANY_U32(), WIDTH);
  peel_projection_rows(NULL, ANY_U32(), BAD_WIDTH());
  UNKNOWN(rows);
  peel_projection_encode(trits, ANY_U32(), WIDTH, EITHER(rows, NULL), symbol);
  peel_projection_encode(NULL, ANY_U32(), BAD_WIDTH(), NULL, symbol);
  UNKNOWN(trits);
  peel_projection_check(WIDTH, trits);
  peel_projection_check(BAD_WIDTH(), NULL);
  peel_projection_unpack(unpacked, WIDTH, trits);
  return peel_projection_unpack(NULL, BAD_WIDTH(), NULL);
}
