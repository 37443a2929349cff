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
