/* SPDX-License-Identifier: MIT */
/* Batch loops over the Peel core for hosts: one call handles many reports, so that Python does not loop over them. */
#ifndef PEEL_BATCH_H
#define PEEL_BATCH_H

#include "peel.h"

typedef struct {
  uint32_t id;
  uint32_t width;
  const peel_block *blocks; /* must pass peel_blocks_check */
  size_t block_count;
  uint32_t units;   /* how many units a number can assign; 1 if it assigns nothing */
  uint32_t audits;  /* of a batch of verified coins, at most 32; 0 if the profile has none */
  uint32_t opening; /* bytes of the longest opening, at most PEEL_MAX_OPENING_BYTES */
} peel_batch_profile;

/* Devices with their bundles, keys and profiles. devices is sorted. The bundles of device i, sorted by first number, are those from
 * ends[i - 1] (0 for device 0) to ends[i] - 1. first_numbers, last_numbers and profile_of have one entry per bundle; keys are 16 bytes
 * each. */
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
  const uint8_t *coin_keys;
  int accept_unsealed;
} peel_batch_keyring;

/* One row per piece: a frame, or the rest of a payload that cannot be split. Fields that a fault leaves unknown are 0, or -1 for profile
 * and slot. */
typedef struct {
  int32_t *message;
  int32_t *offset;
  int32_t *length;
  int8_t *code;
  uint8_t *flags;
  uint8_t *type; /* 0 for a report, or an enum peel_message_type */
  uint32_t *device;
  uint64_t *number;
  int32_t *profile;
  int32_t *slot;
  uint32_t *rule;
  uint32_t *unit;  /* the unit that the number assigns (peel_unit) */
  uint8_t *packed; /* the trits as received, five to a byte (SPEC section 8), in rows of stride bytes */
  size_t stride;
  uint8_t *bodies; /* as many bytes as there are data: the bodies of messages, at the places where the data have them */
} peel_batch_rows;

/* Return the number of pieces in count concatenated payloads; payload i is data[ends[i-1] .. ends[i]]. */
size_t peel_batch_count(const peel_batch_keyring *keyring, const uint8_t *data, const uint64_t *ends, size_t count);

/* Find the bundles of count reports (SPEC section 3): positions in the keyring, or -1 if there is no bundle. */
void peel_batch_find(int32_t *out, const peel_batch_keyring *keyring, const uint32_t *devices, const uint64_t *numbers, size_t count);

/* Parse and open every piece. rows has room for peel_batch_count of them; their packed trits must be zero. */
void peel_batch_open(peel_batch_rows *rows, const peel_batch_keyring *keyring, const uint8_t *data, const uint64_t *ends, size_t count);

/* Encode count reports of one profile into concatenated frames. encoder holds everything except device and keys. Its coin_seed is
 * NULL, or has 16 bytes per report. Stops at the first failure: returns its code and sets failed to its position. */
int peel_batch_encode(uint8_t *frames, size_t *failed, const peel_encoder *encoder, const uint32_t *devices, const uint8_t *seal_keys,
                      const uint8_t *index_keys, const uint64_t *numbers, const int32_t *readings, size_t readings_each, size_t count,
                      peel_drbg *drbg);

/* Toss the coins of count reports (SPEC section 6), without frames and keys. signs are +1 and -1; words has two words (peel_index_words)
 * per report. Stops at the first failure: returns its code and sets failed to its position. */
int peel_batch_perturb(int32_t *indices, int8_t *signs, size_t *failed, const peel_block *blocks, size_t block_count, uint32_t width,
                       const uint32_t *words, const int32_t *readings, size_t readings_each, size_t count, peel_drbg *drbg);

/* Write the codewords of count symbols as width - 1 trits each. rows is a filled cache. Returns 0 or PEEL_E_WIDTH. */
int peel_batch_project(int8_t *out, uint32_t width, const uint32_t *rows, const uint32_t *indices, const uint8_t *minus, size_t count);

/* Compute the unit that each of count report numbers assigns. UINT32_MAX for a report that cannot exist. The blocks must have passed
 * peel_blocks_check. */
void peel_batch_index(uint32_t *out, uint8_t flags, uint32_t profile, const peel_block *blocks, size_t block_count, const uint32_t *devices,
                      const uint8_t *index_keys, const uint64_t *numbers, size_t count);

/* Derive the keys of count bundles (SPEC section 3), each given by device, first number and a salt of 16 bytes. fleet_len is at most
 * 255. */
void peel_batch_derive(uint8_t *seal_keys, uint8_t *index_keys, uint8_t *receipt_keys, uint8_t *coin_keys, const uint8_t master[32],
                       const uint8_t *fleet, size_t fleet_len, const uint32_t *devices, const uint64_t *first_numbers, const uint8_t *salts,
                       size_t count);

/* Write the receipts of count devices, concatenated (SPEC section 11). Device i has the runs runs[run_ends[i-1] .. run_ends[i]]. out has
 * room for PEEL_RECEIPT_BYTES of each. Stops at the first failure: returns its code and sets failed to its position. */
int peel_batch_receipts(uint8_t *out, size_t *failed, const uint32_t *devices, const uint8_t *receipt_keys, const uint64_t *upto,
                        const peel_run *runs, const uint64_t *run_ends, size_t count);

/* Write the receipts of count devices with verified coins, likewise (SPEC section 13.3). The runs of the challenge of device i are
 * asked[asked_ends[i-1] .. asked_ends[i]], as many as fields[i] says. */
int peel_batch_coin_receipts(uint8_t *out, size_t *failed, const uint32_t *devices, const uint8_t *receipt_keys, const uint64_t *upto,
                             const peel_run *runs, const uint64_t *run_ends, const peel_coin_fields *fields, const peel_run *asked,
                             const uint64_t *asked_ends, size_t count);

#endif
