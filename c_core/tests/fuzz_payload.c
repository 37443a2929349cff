/* SPDX-License-Identifier: MIT */
/* Coverage-guided fuzzing of payloads: split into pieces and opened, as host batches do it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"

#define STRIDE PEEL_TRIT_BYTES(60)

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition) {
  if (!condition) abort();
}

/* Profiles and devices with small ids, so that a fuzzer finds them; unsealed frames are accepted, so that it gets past the seal. */
static const peel_block few = {PEEL_SIGN, 1, 4, 1, 0, 8, 3}, choice = {PEEL_CHOICE, 1, 1, 5, 0, 8, 3};
static const peel_block mixed[] = {{PEEL_SIGN, 2, 50, 1, 0, 8, 3}, {PEEL_CHOICE, 1, 1, 7, 0, 8, 3}, {PEEL_HASHED, 3, 1, 3, 500, 8, 3}};
static const peel_batch_profile profiles[] = {
    {.id = 1, .width = 7, .blocks = &few, .block_count = 1, .units = 4},
    {.id = 2, .width = 60, .blocks = mixed, .block_count = 3, .units = 50 + 1 + 729},
    {.id = 3, .width = 48, .blocks = &choice, .block_count = 1, .units = 1, .audits = 8, .opening = 62},
};
static const uint32_t devices[] = {1, 2, 3};
static const uint32_t bundle_ends[] = {1, 3, 4};
static const uint64_t first_numbers[] = {1, 1, 256, 2};
static const uint64_t last_numbers[] = {PEEL_NUMBER_MAX, 128, PEEL_NUMBER_MAX, PEEL_NUMBER_MAX};
static const int32_t profile_of[] = {0, 1, 0, 2};
static const uint8_t keys[4 * 16] = {9};
static const peel_batch_keyring keyring = {profiles,     3,          devices, bundle_ends, 3,    first_numbers,
                                           last_numbers, profile_of, keys,    keys,        keys, 1};

static void *filled(size_t count, size_t each) {
  void *memory = calloc(count ? count : 1, each);
  require(memory != NULL);
  return memory;
}

static void check_row(const peel_batch_rows *rows, size_t row) {
  require(rows->length[row] >= 0);
  if (rows->code[row] != 0) return;
  require(rows->type[row] <= PEEL_OPENING);
  if (rows->type[row]) return;
  require(rows->profile[row] >= 0 && rows->slot[row] >= 0);
  require(peel_projection_check(profiles[rows->profile[row]].width, rows->packed + row * STRIDE) == PEEL_OK);
  require(rows->unit[row] < profiles[rows->profile[row]].units);
}

/* Open length bytes as two payloads, split at cut. Returns how many frames opened. */
static size_t open_payloads(const uint8_t *data, size_t length, size_t cut) {
  uint8_t *exact = malloc(length ? length : 1); /* so that the sanitizer sees a read past the end */
  require(exact != NULL);
  memcpy(exact, data, length);
  const uint64_t ends[2] = {cut, length};
  size_t count = peel_batch_count(&keyring, exact, ends, 2), total = 0, opened = 0;
  require(count >= 2);
  peel_batch_rows rows = {
      .message = filled(count, 4),
      .offset = filled(count, 4),
      .length = filled(count, 4),
      .code = filled(count, 1),
      .flags = filled(count, 1),
      .type = filled(count, 1),
      .device = filled(count, 4),
      .number = filled(count, 8),
      .profile = filled(count, 4),
      .slot = filled(count, 4),
      .rule = filled(count, 4),
      .unit = filled(count, 4),
      .packed = filled(count * STRIDE, 1),
      .stride = STRIDE,
      .bodies = filled(length, 1),
  };
  peel_batch_open(&rows, &keyring, exact, ends, 2);
  for (size_t row = 0; row < count; row++) {
    check_row(&rows, row);
    total += (size_t)rows.length[row];
    opened += rows.code[row] == 0;
  }
  require(total == length); /* every byte belongs to one piece */
  void *all[] = {rows.message, rows.offset, rows.length, rows.code,   rows.flags, rows.device, rows.number, rows.profile,
                 rows.slot,    rows.rule,   rows.unit,   rows.packed, rows.type,  rows.bodies, exact};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
  return opened;
}

/* Check before the first input that frames can open; otherwise the code behind the seal would not be fuzzed. */
int LLVMFuzzerInitialize(int *argc, char ***argv) {
  const uint8_t frame[] = {0x11, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  (void)argc, (void)argv;
  require(open_payloads(frame, sizeof frame, sizeof frame) == 1);
  return 0;
}

/* The first byte selects where the input is cut into two payloads. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return 0;
  size_t length = size - 1;
  open_payloads(data + 1, length, data[0] < length ? data[0] : length);
  return 0;
}
