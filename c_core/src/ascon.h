/* SPDX-License-Identifier: MIT */
/* A keystream in pieces, for the rest of the core: peel_ascon_stream without a buffer for all of it. */
#ifndef PEEL_ASCON_H
#define PEEL_ASCON_H

#include <stdint.h>

typedef struct {
  uint64_t s[5];
  uint8_t block[16];
  uint8_t left; /* bytes of block not yet handed out */
} peel_keystream;

void peel_keystream_start(peel_keystream *stream, const uint8_t key[16], const uint8_t nonce[16]);

/* Write the next len bytes, at most 16. */
void peel_keystream_take(peel_keystream *stream, uint8_t *out, uint8_t len);

#endif
