/* SPDX-License-Identifier: MIT */
/* Ascon on several states side by side, for verified coins: a gateway hashes many short messages of equal length. c_core has the same
 * for one state; the tests compare both. */
#ifndef PEEL_LANES_H
#define PEEL_LANES_H

#include <stddef.h>
#include <stdint.h>

/* One where the compiler has no vectors; the proofs read the code so. */
#if defined(__GNUC__) && !defined(__FRAMAC__)
#define PEEL_LANES 8
#else
#define PEEL_LANES 1
#endif

/* A state of Ascon-XOF128 that has absorbed whole blocks of 8 bytes. */
typedef struct {
  uint64_t word[5];
} peel_lane_state;

/* A message to be hashed to 16 bytes: what the state has absorbed, and data behind it. */
typedef struct {
  const peel_lane_state *state;
  const uint8_t *data;
  uint8_t *hash;
} peel_lane_job;

/* Absorb len bytes, a multiple of 8, into count states, each from its own row of data. */
void peel_lanes_absorb(peel_lane_state *states, const uint8_t *data, size_t len, size_t count);

/* Hash count messages, at most PEEL_LANES, of len bytes behind their states. */
void peel_lanes_hash(const peel_lane_job *jobs, size_t len, size_t count);

/* Write the first blocks * 16 bytes of the keystreams of count keys, at most PEEL_LANES, under one nonce (SPEC section 2). Row i of out
 * begins at out + stride * i. */
void peel_lanes_stream(uint8_t *out, size_t stride, size_t blocks, const uint8_t *keys, const uint8_t nonce[16], size_t count);

#endif
