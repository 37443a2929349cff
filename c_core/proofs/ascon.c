/* SPDX-License-Identifier: MIT */
/* Any texts, associated data, inputs and outputs of SIZE bytes, under any key and from any state. */
#include "../src/ascon.h"

#include "peel.h"
#include "unknown.h"

BYTES(out, SIZE);
BYTES(text, SIZE);
BYTES(ad, SIZE);
static uint8_t key[16], nonce[16], tag[16];
static char label[256];
static peel_xof xof;
static peel_keystream stream;
static uint8_t piece[16];

int main(void) {
  UNKNOWN(out_and_end);
  UNKNOWN(text_and_end);
  UNKNOWN(ad_and_end);
  UNKNOWN(key);
  UNKNOWN(nonce);
  UNKNOWN(tag);
  UNKNOWN(label);
  label[255] = 0; /* shorter than 256, as the header requires */
  peel_ascon_seal(out, tag, key, nonce, ad, SIZE, text, SIZE);
  peel_ascon_seal(text, tag, key, nonce, NULL, 0, text, SIZE);
  peel_ascon_open(out, key, nonce, ad, SIZE, text, SIZE, tag, ANY_SIZE(sizeof tag));
  peel_ascon_open(text, key, nonce, NULL, 0, text, SIZE, tag, 8);
  peel_ascon_open(out, key, nonce, NULL, 0, text, SIZE, NULL, Frama_C_size_t_interval(17, SIZE_MAX));
  peel_ascon_stream(out, SIZE, key, nonce);
  peel_hash_init(&xof, label);
  peel_xof_absorb(&xof, text, SIZE);
  peel_xof_squeeze(&xof, out, SIZE);
  UNKNOWN(xof);
  peel_xof_absorb(&xof, text, SIZE);
  UNKNOWN(xof);
  peel_xof_squeeze(&xof, out, SIZE);
  peel_xof_init(&xof);
  peel_keystream_start(&stream, key, nonce);
  for (int i = 0; i < 6; i++) peel_keystream_take(&stream, piece, SIZE % 17);
  peel_wipe(out, SIZE);
  return 0;
}
