/* SPDX-License-Identifier: MIT */
/* Coverage-guided fuzzing of packed states: whatever a damaged database holds is refused or is a record, and every record comes back. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "packing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition) {
  if (!condition) abort();
}

/* Memory of exactly so many bytes, so that the sanitizer sees the first one beyond them. */
static uint8_t *room(size_t bytes, const uint8_t *content, size_t size) {
  uint8_t *made = calloc(1, bytes ? bytes : 1);
  require(made != NULL);
  if (size) memcpy(made, content, size);
  return made;
}

static void comes_back(const uint8_t *record, size_t bytes) {
  const uint64_t place = 0;
  uint64_t end = 0;
  uint8_t *packed = room(bytes, NULL, 0), *again = room(bytes, NULL, 0);
  peel_pack(packed, &end, record, &place, 1, bytes);
  require(end <= bytes);
  uint8_t *exact = room(end, packed, end);
  require(peel_unpack(again, &place, exact, &end, 1, bytes) == 1);
  require(memcmp(again, record, bytes) == 0);
  free(packed);
  free(again);
  free(exact);
}

/* The first byte says how many words a record has; the rest is a packed one. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size) return 0;
  size_t bytes = 8 * (size_t)data[0];
  const uint64_t place = 0, end = size - 1;
  uint8_t *record = room(bytes, NULL, 0), *packed = room(size - 1, data + 1, size - 1);
  peel_unpack(record, &place, packed, &end, 1, bytes);
  comes_back(record, bytes);
  free(record);
  free(packed);
  return 0;
}
