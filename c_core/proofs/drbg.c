/* SPDX-License-Identifier: MIT */
/* Entropy and output of SIZE bytes; a generator in any state, even a corrupt one. */
#include "peel.h"
#include "unknown.h"

BYTES(out, SIZE);
BYTES(entropy, SIZE);
static peel_drbg drbg;

int main(void) {
  UNKNOWN(entropy_and_end);
  UNKNOWN(drbg);
  peel_drbg_bytes(&drbg, out, SIZE);
  UNKNOWN(drbg);
  return peel_drbg_seed(&drbg, entropy, SIZE);
}
