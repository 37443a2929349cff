/* SPDX-License-Identifier: MIT */
/* Coverage-guided fuzzing of the core's parsers: headers, frames, packing. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "peel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t key[16] = {7};

static void require(int condition) {
  if (!condition) abort();
}

static int writable(const peel_header *header) { return header->device && header->number; }

/* A frame that opens must equal the sealed one: one form per report. */
static void check_opened(const peel_header *header, uint32_t rule, uint32_t width, const uint8_t *trits, const uint8_t *frame,
                         size_t size) {
  uint8_t again[PEEL_MAX_FRAME_BYTES];
  int8_t unpacked[PEEL_MAX_WIDTH];
  require(peel_projection_unpack(unpacked, width, trits) == 0);
  if (!writable(header)) return;
  require(peel_frame_seal(again, sizeof again, key, header, rule, width, trits) == (int)size);
  require(memcmp(again, frame, size) == 0);
}

/* Read like a reader that accepts both kinds: the frame says which it is. */
static int open_either(uint32_t *rule, uint8_t *trits, uint32_t width, const peel_header *header, const uint8_t *frame, size_t size) {
  int sealed = peel_frame_open(rule, trits, key, width, frame, size);
  int unsealed = peel_frame_open_unsealed(rule, trits, width, frame, size);
  require(sealed < 0 || unsealed < 0);
  return header->flags & PEEL_FLAG_UNSEALED ? unsealed : peel_frame_open(rule, trits, key, width, frame, size);
}

static void open_as_given(uint32_t width, const uint8_t *frame, size_t size) {
  uint8_t trits[PEEL_MAX_TRIT_BYTES];
  peel_header header;
  uint32_t rule;
  if (peel_header_read(&header, frame, size) == 0 && open_either(&rule, trits, width, &header, frame, size) == 0) {
    check_opened(&header, rule, width, trits, frame, size);
  }
}

/* A fuzzer cannot guess a tag, so seal its input: then only the packing decides. */
static void open_sealed(uint32_t width, const uint8_t *frame, size_t size) {
  uint8_t sealed[PEEL_MAX_FRAME_BYTES], trits[PEEL_MAX_TRIT_BYTES];
  int8_t unpacked[PEEL_MAX_WIDTH];
  peel_header header;
  uint32_t rule;
  if (width < 2 || width > PEEL_MAX_WIDTH || size < PEEL_HEADER_BYTES + PEEL_TRIT_BYTES(width)) return;
  if (peel_header_read(&header, frame, size) != 0 || !writable(&header)) return;
  const uint8_t *packed = frame + PEEL_HEADER_BYTES;
  int length = peel_frame_seal(sealed, sizeof sealed, key, &header, 5, width, packed);
  require(length == peel_frame_bytes(width, header.flags));
  int code = open_either(&rule, trits, width, &header, sealed, (size_t)length);
  require(code == peel_projection_unpack(unpacked, width, packed));
  if (code == 0) check_opened(&header, rule, width, trits, sealed, (size_t)length);
}

/* The first two bytes choose the width; the rest is the frame. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  uint32_t width = (uint32_t)data[0] | (uint32_t)(data[1] & 7) << 8;
  size -= 2;
  uint8_t *exact = malloc(size ? size : 1); /* so that the sanitizer sees a read past the end */
  require(exact != NULL);
  memcpy(exact, data + 2, size);
  open_as_given(width, exact, size);
  open_sealed(width, exact, size);
  free(exact);
  return 0;
}
