/* Coverage-guided fuzzing of everything that reads bytes from the network: headers, frames, packing. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "peel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition) {
  if (!condition) abort();
}

/* The first two bytes choose the width; the rest is the frame, as given and once more properly sealed. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const uint8_t key[16] = {7};
  uint8_t trits[PEEL_MAX_TRIT_BYTES], again[PEEL_MAX_FRAME_BYTES];
  int8_t unpacked[PEEL_MAX_WIDTH];
  peel_header header;
  uint32_t rule;
  if (size < 2) return 0;
  uint32_t width = (uint32_t)data[0] | (uint32_t)(data[1] & 7) << 8;
  data += 2;
  size -= 2;
  uint8_t *exact = malloc(size ? size : 1); /* so that the sanitizer sees a read past the end */
  require(exact != NULL);
  memcpy(exact, data, size);
  if (peel_header_read(&header, exact, size) == 0 && peel_frame_open(&rule, trits, key, width, exact, size) == 0) {
    require(peel_projection_unpack(unpacked, width, trits) == 0);
    if (header.device && header.number && (header.mechanism == PEEL_HARMONY || header.mechanism == PEEL_KRR)) {
      require(peel_frame_seal(again, sizeof again, key, &header, rule, width, trits) == (int)size);
      require(memcmp(again, exact, size) == 0); /* whatever opens is what sealing gives back: one form per report */
    }
  }
  if (size >= PEEL_TRIT_BYTES(width)) (void)peel_projection_unpack(unpacked, width, exact);
  free(exact);
  return 0;
}
