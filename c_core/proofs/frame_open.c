/* SPDX-License-Identifier: MIT */
/* Frames of WIDTH opened: any bytes, of every relevant length: 0, less than a header, a header, unsealed, sealed, more. */
#include "peel.h"
#include "unknown.h"

static uint8_t sealed[PEEL_FRAME_BYTES(WIDTH)], unsealed[PEEL_FRAME_BYTES(WIDTH) - PEEL_TAG_BYTES], longer[PEEL_FRAME_BYTES(WIDTH) + 1];
static uint8_t headless[PEEL_HEADER_BYTES - 1], header_only[PEEL_HEADER_BYTES];
static uint8_t trits[PEEL_TRIT_BYTES(WIDTH)], key[16];

int main(void) {
  peel_header header;
  uint32_t rule;
  UNKNOWN(sealed);
  UNKNOWN(unsealed);
  UNKNOWN(longer);
  UNKNOWN(headless);
  UNKNOWN(header_only);
  UNKNOWN(key);
  peel_header_read(&header, NULL, 0);
  peel_header_read(&header, headless, sizeof headless);
  peel_header_read(&header, header_only, sizeof header_only);
  peel_header_read(&header, sealed, sizeof sealed);
  peel_frame_open(&rule, trits, key, WIDTH, NULL, 0);
  peel_frame_open(&rule, trits, key, WIDTH, headless, sizeof headless);
  peel_frame_open(&rule, trits, key, WIDTH, header_only, sizeof header_only);
  peel_frame_open(&rule, trits, key, WIDTH, unsealed, sizeof unsealed);
  peel_frame_open(&rule, trits, key, WIDTH, sealed, sizeof sealed);
  peel_frame_open(&rule, trits, key, WIDTH, longer, sizeof longer);
  peel_frame_open(&rule, NULL, key, BAD_WIDTH(), sealed, sizeof sealed);
  peel_frame_open_unsealed(&rule, trits, WIDTH, NULL, 0);
  peel_frame_open_unsealed(&rule, trits, WIDTH, headless, sizeof headless);
  peel_frame_open_unsealed(&rule, trits, WIDTH, header_only, sizeof header_only);
  peel_frame_open_unsealed(&rule, trits, WIDTH, unsealed, sizeof unsealed);
  peel_frame_open_unsealed(&rule, trits, WIDTH, sealed, sizeof sealed);
  peel_frame_open_unsealed(&rule, trits, WIDTH, longer, sizeof longer);
  return peel_frame_open_unsealed(&rule, NULL, BAD_WIDTH(), unsealed, sizeof unsealed);
}
