/* SPDX-License-Identifier: MIT */
/* Wrong calls must be refused, or give wrong output at worst. They must not touch a byte outside of the caller's buffers. Built with
 * sanitizers; each state is a heap block of its own, so that they detect the first byte before and after it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peel.h"

#define DRAWS 20000

static void require(int condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "misuse: %s\n", what);
  exit(1);
}

static peel_drbg *seeded_generator(void) {
  peel_drbg *drbg = calloc(1, sizeof *drbg);
  uint8_t entropy[48];
  require(drbg != NULL, "out of memory");
  for (size_t i = 0; i < sizeof entropy; i++) entropy[i] = (uint8_t)(167 * i + 13);
  require(peel_drbg_seed(drbg, entropy, sizeof entropy) == 0, "seed");
  return drbg;
}

static void damage_generator(void) {
  for (unsigned left = 0; left < 256; left++) {
    peel_drbg *drbg = seeded_generator();
    uint8_t out[64] = {0};
    drbg->left = (uint8_t)left;
    int sound = left <= sizeof drbg->block && left % 4 == 0;
    require(peel_drbg_bytes(drbg, out, sizeof out) == (sound ? PEEL_OK : PEEL_E_ENTROPY), "a damaged generator draws");
    free(drbg);
  }
}

static void *draw_many(void *drbg) {
  uint8_t out[20];
  for (int i = 0; i < DRAWS; i++) (void)peel_drbg_bytes(drbg, out, sizeof out);
  return NULL;
}

/* Two threads draw at once, against the contract. Words repeat then, but the memory around and the generator's form stay intact. */
static void share_generator(void) {
  peel_drbg *drbg = seeded_generator();
  uint8_t out[4];
  pthread_t threads[4];
  for (size_t i = 0; i < 4; i++) require(pthread_create(&threads[i], NULL, draw_many, drbg) == 0, "thread");
  for (size_t i = 0; i < 4; i++) require(pthread_join(threads[i], NULL) == 0, "join");
  require(peel_drbg_bytes(drbg, out, sizeof out) == PEEL_OK, "a shared generator is damaged");
  free(drbg);
}

static void damage_xof(void) {
  const uint8_t data[24] = {1};
  uint8_t out[24];
  for (unsigned fill = 0; fill < 256; fill++) {
    peel_xof xof;
    peel_xof_init(&xof);
    xof.fill = (uint8_t)fill;
    require(peel_xof_absorb(&xof, data, sizeof data) == PEEL_OK, "absorb");
    xof.fill = (uint8_t)fill;
    peel_xof_squeeze(&xof, out, sizeof out);
    xof.fill = (uint8_t)fill;
    peel_xof_squeeze(&xof, out, sizeof out);
  }
}

static void absorb_after_squeezing(void) {
  const uint8_t data[8] = {1};
  uint8_t out[8];
  peel_xof xof, before;
  peel_xof_init(&xof);
  peel_xof_squeeze(&xof, out, sizeof out);
  before = xof;
  require(peel_xof_absorb(&xof, data, sizeof data) == PEEL_E_ORDER, "absorbed after squeezing");
  require(memcmp(&xof, &before, sizeof xof) == 0, "a refused absorb changed the state");
}

/* Seven rows whose second byte no encoder produces: the first byte must not be written. */
static void unpack_bad_trits(void) {
  const uint8_t trits[2] = {121, 9};
  int8_t out[7], before[7];
  memset(out, 77, sizeof out);
  memcpy(before, out, sizeof out);
  require(peel_projection_unpack(out, 8, trits) == PEEL_E_TRITS, "bad trits unpacked");
  require(memcmp(out, before, sizeof out) == 0, "a refused unpack wrote");
}

int main(void) {
  damage_generator();
  share_generator();
  damage_xof();
  absorb_after_squeezing();
  unpack_bad_trits();
  puts("misuse: ok");
  return 0;
}
