/* SPDX-License-Identifier: MIT */
/* Batch loops over the Peel core for hosts: many reports per call, so that Python touches none of them one by one. */
#ifndef PEEL_BATCH_H
#define PEEL_BATCH_H

#include "peel.h"

typedef struct {
  uint32_t id;
  uint32_t width;
  uint32_t mechanism;
  uint32_t assignments; /* how many things a number can assign; 0 or 1 where it assigns nothing */
} peel_batch_profile;

/* Who may report what, and under which keys. devices is sorted. The bundles of device i, by their first numbers, are those from ends[i - 1]
 * (from 0 where i is 0) to before ends[i]; first_numbers, last_numbers and profile_of have one entry per bundle, and keys lie 16 bytes
 * apart. */
typedef struct {
  const peel_batch_profile *profiles;
  size_t profile_count;
  const uint32_t *devices;
  const uint32_t *ends;
  size_t device_count;
  const uint64_t *first_numbers;
  const uint64_t *last_numbers;
  const int32_t *profile_of;
  const uint8_t *seal_keys;
  const uint8_t *index_keys;
  int accept_unsealed;
} peel_batch_keyring;

/* One row per piece: a frame, or the rest of a payload that cannot be split. Fields that a fault left unknown are 0, -1 for profile and
 * slot. */
typedef struct {
  int32_t *message;
  int32_t *offset;
  int32_t *length;
  int8_t *code;
  uint8_t *flags;
  uint32_t *device;
  uint64_t *number;
  int32_t *profile;
  int32_t *slot;
  uint32_t *rule;
  uint32_t *index; /* what the number assigns; 0 where it assigns nothing */
  uint8_t *packed; /* the trits as they came, five to a byte (SPEC section 8), in rows of stride bytes */
  size_t stride;
} peel_batch_rows;

/* Number of pieces in count payloads, laid end to end; payload i is data[ends[i-1] .. ends[i]]. */
size_t peel_batch_count(const peel_batch_keyring *keyring, const uint8_t *data, const uint64_t *ends, size_t count);

/* The bundles whose keys count reports have (SPEC section 3): positions in the keyring, -1 where there is none. */
void peel_batch_find(int32_t *out, const peel_batch_keyring *keyring, const uint32_t *devices, const uint64_t *numbers, size_t count);

/* Parse and open every piece. rows has room for peel_batch_count of them, and their packed trits are zero. */
void peel_batch_open(peel_batch_rows *rows, const peel_batch_keyring *keyring, const uint8_t *data, const uint64_t *ends, size_t count);

/* Encode count reports of one profile into frames laid end to end. encoder holds all but device and keys. Stops at the first
 * failure: returns its code, with its position in failed. */
int peel_batch_encode(uint8_t *frames, size_t *failed, const peel_encoder *encoder, const uint32_t *devices, const uint8_t *seal_keys,
                      const uint8_t *index_keys, const uint64_t *numbers, const int32_t *readings, size_t readings_each, size_t count,
                      peel_drbg *drbg);

/* Toss the coins of count reports (SPEC section 6): no frames, no keys. signs are +1 and -1, words has one WORD of SPEC section 7 per
 * report. Stops at the first failure: returns its code, with its position in failed. */
int peel_batch_perturb(int32_t *indices, int8_t *signs, size_t *failed, uint32_t mechanism, uint32_t rule, uint32_t k, uint32_t domain,
                       const uint32_t *words, const int32_t *readings, size_t readings_each, size_t count, peel_drbg *drbg);

/* Codewords of count symbols as width - 1 trits each. rows is a filled cache. Returns 0 or PEEL_E_WIDTH. */
int peel_batch_project(int8_t *out, uint32_t width, const uint32_t *rows, const uint32_t *indices, const uint8_t *minus, size_t count);

/* What the numbers of count reports assign, below limit; devices, keys and numbers one per report. UINT32_MAX where no such report can be.
 */
void peel_batch_index(uint32_t *out, uint8_t flags, uint8_t mechanism, uint32_t profile, uint32_t limit, const uint32_t *devices,
                      const uint8_t *index_keys, const uint64_t *numbers, size_t count);

/* The keys of count bundles (SPEC section 3), given by device, first number and 16 bytes of salt each. fleet_len is at most 255. */
void peel_batch_derive(uint8_t *seal_keys, uint8_t *index_keys, uint8_t *receipt_keys, const uint8_t master[32], const uint8_t *fleet,
                       size_t fleet_len, const uint32_t *devices, const uint64_t *first_numbers, const uint8_t *salts, size_t count);

/* Receipts of count devices laid end to end (SPEC section 11); those of device i speak of runs[run_ends[i-1] .. run_ends[i]]. out has room
 * for PEEL_RECEIPT_BYTES of each. Stops at the first failure: returns its code, with its position in failed. */
int peel_batch_receipts(uint8_t *out, size_t *failed, const uint32_t *devices, const uint8_t *receipt_keys, const uint64_t *upto,
                        const peel_run *runs, const uint64_t *run_ends, size_t count);

#endif
