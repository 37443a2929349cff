/* SPDX-License-Identifier: MIT */
/* Frames of WIDTH made from any parts, into any capacity. */
#include "peel.h"
#include "unknown.h"

static uint8_t sealed[PEEL_FRAME_BYTES(WIDTH)], unsealed[PEEL_FRAME_BYTES(WIDTH) - PEEL_TAG_BYTES];
static uint8_t header_only[PEEL_HEADER_BYTES], trits[PEEL_TRIT_BYTES(WIDTH)], key[16];
static peel_header header;

int main(void) {
  UNKNOWN(trits);
  UNKNOWN(header);
  UNKNOWN(key);
  peel_header_write(header_only, &header);
  peel_frame_bytes(ANY_U32(), ANY_U8());
  peel_frame_seal(sealed, ANY_SIZE(sizeof sealed), key, &header, ANY_U32(), WIDTH, trits);
  peel_frame_seal(NULL, 0, key, &header, ANY_U32(), BAD_WIDTH(), NULL);
  header.flags = PEEL_FLAG_UNSEALED;
  return peel_frame_seal(unsealed, ANY_SIZE(sizeof unsealed), NULL, &header, ANY_U32(), WIDTH, trits);
}
