/* SPDX-License-Identifier: MIT */
/* Reports of WIDTH: any encoder of that width with up to four blocks, any number, any readings, with and without a verified coin, a
 * generator in any state. */
#include "peel.h"
#include "unknown.h"

static uint8_t out[PEEL_FRAME_BYTES(WIDTH)];
static peel_block blocks[4];
static int32_t readings[WIDTH], category[1];
static uint32_t rows[WIDTH - 1];
static uint8_t seed[16], name[PEEL_COIN_NAME_BYTES];
static peel_drbg drbg;
static peel_encoder encoder;

int main(void) {
  UNKNOWN(encoder);
  UNKNOWN(blocks);
  UNKNOWN(rows);
  UNKNOWN(readings);
  UNKNOWN(category);
  UNKNOWN(drbg);
  UNKNOWN(seed);
  encoder.rows = EITHER(rows, NULL);
  encoder.coin_seed = EITHER(seed, NULL);
  encoder.blocks = blocks;
  encoder.block_count = Frama_C_unsigned_char_interval(0, 4);
  encoder.width = BAD_WIDTH();
  peel_encoder_check(&encoder);
  peel_encode(NULL, 0, &encoder, ANY_U64(), NULL, 0, &drbg);
  encoder.width = WIDTH;
  peel_encoder_check(&encoder);
  peel_encoder_coin(name, &encoder, ANY_U64());
  peel_encode(out, ANY_SIZE(sizeof out), &encoder, ANY_U64(), readings, WIDTH, &drbg);
  peel_encode(out, sizeof out, &encoder, ANY_U64(), category, 1, &drbg);
  return peel_encode(out, sizeof out, &encoder, ANY_U64(), NULL, 0, &drbg);
}
