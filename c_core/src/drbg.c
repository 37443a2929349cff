/* SPDX-License-Identifier: MIT */
/* The device's random generator: Ascon keystream, with a new key for every block (SPEC section 4). */
#include "drbg.h"

#include <string.h>

#include "bytes.h"

#define STUCK_RUN 6

static int stuck(const uint8_t *e, size_t len) {
  size_t run = 1;
  for (size_t i = 1; i < len; i++) {
    run = e[i] == e[i - 1] ? run + 1 : 1;
    if (run == STUCK_RUN) return 1;
  }
  return 0;
}

static int skewed(const uint8_t *e, size_t len) {
  for (size_t i = 0; i < len; i++) {
    size_t count = 0;
    for (size_t j = 0; j < len; j++) count += e[j] == e[i];
    if (count * 4 >= len) return 1;
  }
  return 0;
}

static int repeating(const uint8_t *e, size_t len) {
  for (size_t period = 1; period <= len / 2; period++) {
    size_t i = period;
    while (i < len && e[i] == e[i - period]) i++;
    if (i == len) return 1;
  }
  return 0;
}

static int equal(const uint8_t *a, const uint8_t *b, size_t len) {
  uint8_t difference = 0;
  for (size_t i = 0; i < len; i++) difference |= (uint8_t)(a[i] ^ b[i]);
  return difference == 0;
}

int peel_drbg_seed(peel_drbg *drbg, const uint8_t *entropy, size_t len) {
  peel_xof xof;
  uint8_t last[sizeof drbg->last];
  if (len < PEEL_ENTROPY_MIN_BYTES || stuck(entropy, len) || skewed(entropy, len) || repeating(entropy, len)) return PEEL_E_ENTROPY;
  peel_hash_init(&xof, "peel/1 drbg input");
  peel_xof_absorb(&xof, entropy, len);
  peel_xof_squeeze(&xof, last, sizeof last);
  if (drbg->seeded && equal(last, drbg->last, sizeof last)) return PEEL_E_ENTROPY;

  peel_hash_init(&xof, "peel/1 drbg");
  peel_xof_absorb(&xof, drbg->key, sizeof drbg->key);
  peel_xof_absorb(&xof, entropy, len);
  peel_xof_squeeze(&xof, drbg->key, sizeof drbg->key);
  wipe(&xof, sizeof xof);
  wipe(drbg->block, sizeof drbg->block);
  memcpy(drbg->last, last, sizeof last);
  drbg->left = 0;
  drbg->seeded = 1;
  return PEEL_OK;
}

void peel_drbg_refill(peel_drbg *drbg) {
  static const uint8_t nonce[16] = {0}; /* each key makes one block, so the nonce may stay the same */
  uint8_t stream[32];
  peel_ascon_stream(stream, sizeof stream, drbg->key, nonce);
  memcpy(drbg->key, stream, 16);
  memcpy(drbg->block, stream + 16, 16);
  wipe(stream, sizeof stream);
  drbg->left = sizeof drbg->block;
}

int peel_drbg_bytes(peel_drbg *drbg, uint8_t *out, size_t len) {
  if (!drbg_usable(drbg)) return PEEL_E_ENTROPY;
  for (; len >= 4; len -= 4, out += 4) store32(out, drbg_draw(drbg));
  if (len > 0) {
    uint8_t last[4];
    store32(last, drbg_draw(drbg));
    memcpy(out, last, len);
    wipe(last, sizeof last);
  }
  return PEEL_OK;
}
