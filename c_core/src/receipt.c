/* SPDX-License-Identifier: MIT */
/* Receipts: the report numbers of a device that a gateway has stored (SPEC section 11). */
#include <string.h>

#include "bytes.h"
#include "peel.h"

#define DEVICE_AT 1
#define UPTO_AT 5
#define RUNS_AT 11
#define NUMBER_BYTES 6
#define RUN_BYTES (2 * NUMBER_BYTES)
#define VERSION_BYTE (PEEL_WIRE_VERSION << 4)

static void store48(uint8_t b[6], uint64_t x) {
  store32(b, (uint32_t)x);
  b[4] = (uint8_t)(x >> 32);
  b[5] = (uint8_t)(x >> 40);
}

static uint64_t load48(const uint8_t b[6]) { return (uint64_t)load32(b) | (uint64_t)b[4] << 32 | (uint64_t)b[5] << 40; }

static void make_tag(uint8_t tag[PEEL_TAG_BYTES], const uint8_t receipt_key[16], const uint8_t *body, size_t len) {
  peel_xof xof;
  peel_hash_init(&xof, "peel/1 receipt");
  (void)peel_xof_absorb(&xof, receipt_key, PEEL_KEY_BYTES); /* cannot fail before a squeeze */
  (void)peel_xof_absorb(&xof, body, len);
  peel_xof_squeeze(&xof, tag, PEEL_TAG_BYTES);
  peel_wipe(&xof, sizeof xof);
}

static int check_runs(uint64_t upto, const peel_run *runs, size_t count) {
  if (upto > PEEL_NUMBER_MAX) return PEEL_E_NUMBER;
  for (size_t i = 0; i < count; i++) {
    if (runs[i].first <= upto + 1 || runs[i].last < runs[i].first || runs[i].last > PEEL_NUMBER_MAX) return PEEL_E_NUMBER;
    upto = runs[i].last;
  }
  return PEEL_OK;
}

int peel_receipt_write(uint8_t *out, size_t capacity, const uint8_t receipt_key[16], uint32_t device, uint64_t upto, const peel_run *runs,
                       size_t count) {
  if (count > PEEL_MAX_RECEIPT_RUNS || capacity < PEEL_RECEIPT_BYTES(count)) return PEEL_E_LENGTH;
  if (device == 0) return PEEL_E_DEVICE;
  int error = check_runs(upto, runs, count);
  if (error) return error;
  out[0] = VERSION_BYTE;
  store32(out + DEVICE_AT, device);
  store48(out + UPTO_AT, upto);
  size_t size = RUNS_AT;
  for (size_t i = 0; i < count; i++, size += RUN_BYTES) {
    store48(out + size, runs[i].first);
    store48(out + size + NUMBER_BYTES, runs[i].last);
  }
  make_tag(out + size, receipt_key, out, size);
  return (int)size + PEEL_TAG_BYTES;
}

int peel_receipt_read(uint64_t *upto, peel_run runs[PEEL_MAX_RECEIPT_RUNS], const uint8_t receipt_key[16], uint32_t device,
                      const uint8_t *receipt, size_t len) {
  uint8_t tag[PEEL_TAG_BYTES], difference = 0;
  size_t count = 0;
  while (count < PEEL_MAX_RECEIPT_RUNS && PEEL_RECEIPT_BYTES(count) < len) count++;
  if (len != PEEL_RECEIPT_BYTES(count)) return PEEL_E_LENGTH;
  if (receipt[0] != VERSION_BYTE) return PEEL_E_VERSION;
  if (load32(receipt + DEVICE_AT) != device) return PEEL_E_DEVICE;
  make_tag(tag, receipt_key, receipt, len - PEEL_TAG_BYTES);
  for (size_t i = 0; i < sizeof tag; i++) difference |= (uint8_t)(tag[i] ^ receipt[len - PEEL_TAG_BYTES + i]);
  if (difference) return PEEL_E_SEAL;
  *upto = load48(receipt + UPTO_AT);
  for (size_t i = 0; i < count; i++) {
    runs[i].first = load48(receipt + RUNS_AT + i * RUN_BYTES);
    runs[i].last = load48(receipt + RUNS_AT + i * RUN_BYTES + NUMBER_BYTES);
  }
  return (int)count;
}

/* ---- With coin fields (SPEC section 13.3) ---- */

#define COIN_VERSION_BYTE (PEEL_WIRE_VERSION << 4 | 1)
#define ERA_AT 11
#define APPROVED_AT 19
#define AUDIT_FIRST_AT 25
#define AUDIT_AT 31
#define OPENED_AT 35
#define COUNTS_AT 39
#define COIN_RUNS_AT 41
#define CHALLENGE_NUMBER_AT 16 /* from the challenge's seed */
#define CHALLENGE_RUNS_AT 22
#define CHALLENGE_RUN_BYTES 4
#define LONGEST_RUN 0xffff /* also the largest distance */

static int check_challenge(const peel_run *challenge, size_t count) {
  uint64_t end = 0; /* the number after the run before */
  for (size_t i = 0; i < count; i++) {
    uint64_t first = challenge[i].first, last = challenge[i].last;
    if (first == 0 || last < first || last > PEEL_NUMBER_MAX || last - first >= LONGEST_RUN) return PEEL_E_NUMBER;
    if (i > 0 && (first <= end || first - end > LONGEST_RUN)) return PEEL_E_NUMBER;
    end = last + 1;
  }
  return PEEL_OK;
}

static void store16(uint8_t b[2], uint64_t x) {
  b[0] = (uint8_t)x;
  b[1] = (uint8_t)(x >> 8);
}

static uint32_t load16(const uint8_t b[2]) { return (uint32_t)b[0] | (uint32_t)b[1] << 8; }

static void write_challenge(uint8_t *out, const uint8_t seed[16], const peel_run *challenge, size_t count) {
  uint64_t end = challenge[0].first;
  memcpy(out, seed, CHALLENGE_NUMBER_AT);
  store48(out + CHALLENGE_NUMBER_AT, end);
  out += CHALLENGE_RUNS_AT;
  for (size_t i = 0; i < count; i++, out += CHALLENGE_RUN_BYTES) {
    store16(out, challenge[i].first - end);
    store16(out + 2, challenge[i].last - challenge[i].first + 1);
    end = challenge[i].last + 1;
  }
}

static void read_challenge(uint8_t seed[16], peel_run *challenge, size_t count, const uint8_t *data) {
  uint64_t end = load48(data + CHALLENGE_NUMBER_AT);
  memcpy(seed, data, CHALLENGE_NUMBER_AT);
  data += CHALLENGE_RUNS_AT;
  for (size_t i = 0; i < count; i++, data += CHALLENGE_RUN_BYTES) {
    challenge[i].first = end + load16(data);
    end = challenge[i].first + load16(data + 2);
    challenge[i].last = end - 1;
  }
}

int peel_coin_receipt_write(uint8_t *out, size_t capacity, const uint8_t receipt_key[16], uint32_t device, uint64_t upto,
                            const peel_run *runs, size_t count, const peel_coin_fields *fields, const peel_run *challenge) {
  size_t asked = fields->challenge_runs;
  if (count > PEEL_MAX_RECEIPT_RUNS || asked > PEEL_MAX_CHALLENGE_RUNS) return PEEL_E_LENGTH;
  if (capacity < PEEL_COIN_RECEIPT_BYTES(count, asked)) return PEEL_E_LENGTH;
  if (device == 0) return PEEL_E_DEVICE;
  if (fields->approved > PEEL_NUMBER_MAX || fields->audit_first > PEEL_NUMBER_MAX) return PEEL_E_NUMBER;
  int error = check_runs(upto, runs, count);
  if (!error) error = check_challenge(challenge, asked);
  if (error) return error;
  out[0] = COIN_VERSION_BYTE;
  store32(out + DEVICE_AT, device);
  store48(out + UPTO_AT, upto);
  memcpy(out + ERA_AT, fields->era, sizeof fields->era);
  store48(out + APPROVED_AT, fields->approved);
  store48(out + AUDIT_FIRST_AT, fields->audit_first);
  store32(out + AUDIT_AT, fields->audit);
  store32(out + OPENED_AT, fields->opened);
  out[COUNTS_AT] = (uint8_t)count;
  out[COUNTS_AT + 1] = (uint8_t)asked;
  size_t size = COIN_RUNS_AT;
  for (size_t i = 0; i < count; i++, size += RUN_BYTES) {
    store48(out + size, runs[i].first);
    store48(out + size + NUMBER_BYTES, runs[i].last);
  }
  if (asked) {
    write_challenge(out + size, fields->challenge_seed, challenge, asked);
    size += CHALLENGE_RUNS_AT + CHALLENGE_RUN_BYTES * asked;
  }
  make_tag(out + size, receipt_key, out, size);
  return (int)size + PEEL_TAG_BYTES;
}

int peel_coin_receipt_read(uint64_t *upto, peel_run runs[PEEL_MAX_RECEIPT_RUNS], peel_coin_fields *fields,
                           peel_run challenge[PEEL_MAX_CHALLENGE_RUNS], const uint8_t receipt_key[16], uint32_t device,
                           const uint8_t *receipt, size_t len) {
  uint8_t tag[PEEL_TAG_BYTES], difference = 0;
  if (len < PEEL_COIN_RECEIPT_BYTES(0, 0)) return PEEL_E_LENGTH;
  size_t count = receipt[COUNTS_AT], asked = receipt[COUNTS_AT + 1];
  if (count > PEEL_MAX_RECEIPT_RUNS || asked > PEEL_MAX_CHALLENGE_RUNS) return PEEL_E_LENGTH;
  if (len != PEEL_COIN_RECEIPT_BYTES(count, asked)) return PEEL_E_LENGTH;
  if (receipt[0] != COIN_VERSION_BYTE) return PEEL_E_VERSION;
  if (load32(receipt + DEVICE_AT) != device) return PEEL_E_DEVICE;
  make_tag(tag, receipt_key, receipt, len - PEEL_TAG_BYTES);
  for (size_t i = 0; i < sizeof tag; i++) difference |= (uint8_t)(tag[i] ^ receipt[len - PEEL_TAG_BYTES + i]);
  if (difference) return PEEL_E_SEAL;
  *upto = load48(receipt + UPTO_AT);
  memcpy(fields->era, receipt + ERA_AT, sizeof fields->era);
  fields->approved = load48(receipt + APPROVED_AT);
  fields->audit_first = load48(receipt + AUDIT_FIRST_AT);
  fields->audit = load32(receipt + AUDIT_AT);
  fields->opened = load32(receipt + OPENED_AT);
  fields->challenge_runs = (uint32_t)asked;
  memset(fields->challenge_seed, 0, sizeof fields->challenge_seed);
  const uint8_t *at = receipt + COIN_RUNS_AT;
  for (size_t i = 0; i < count; i++, at += RUN_BYTES) {
    runs[i].first = load48(at);
    runs[i].last = load48(at + NUMBER_BYTES);
  }
  if (asked) read_challenge(fields->challenge_seed, challenge, asked, at);
  return (int)count;
}
