/* SPDX-License-Identifier: MIT */
/* Frame v1: header, seal, open (SPEC section 9). Lengths are checked before anything is read. */
#include <string.h>

#include "bytes.h"
#include "peel.h"

#define BODY_AT PEEL_HEADER_BYTES
#define TRITS_AT (PEEL_HEADER_BYTES + PEEL_RULE_BYTES)

int peel_header_write(uint8_t out[16], const peel_header *header) {
  if (header->flags & ~PEEL_FLAG_UNSEALED) return PEEL_E_FLAGS;
  if (header->device == 0) return PEEL_E_DEVICE;
  if (header->number == 0 || header->number > PEEL_NUMBER_MAX) return PEEL_E_NUMBER;
  out[0] = (uint8_t)(PEEL_WIRE_VERSION << 4 | header->flags);
  out[1] = 0;
  store32(out + PEEL_PROFILE_AT, header->profile);
  store32(out + PEEL_DEVICE_AT, header->device);
  store32(out + PEEL_NUMBER_AT, (uint32_t)header->number);
  out[PEEL_NUMBER_AT + 4] = (uint8_t)(header->number >> 32);
  out[PEEL_NUMBER_AT + 5] = (uint8_t)(header->number >> 40);
  return PEEL_OK;
}

int peel_header_read(peel_header *header, const uint8_t *data, size_t len) {
  if (len < PEEL_HEADER_BYTES) return PEEL_E_LENGTH;
  if (data[0] >> 4 != PEEL_WIRE_VERSION) return PEEL_E_VERSION;
  if ((data[0] & 0x0f & ~PEEL_FLAG_UNSEALED) || data[1]) return PEEL_E_FLAGS;
  header->flags = data[0] & 0x0f;
  header->profile = load32(data + PEEL_PROFILE_AT);
  header->device = load32(data + PEEL_DEVICE_AT);
  const uint8_t *number = data + PEEL_NUMBER_AT;
  header->number = (uint64_t)load32(number) | (uint64_t)number[4] << 32 | (uint64_t)number[5] << 40;
  return PEEL_OK;
}

int peel_frame_bytes(uint32_t width, uint8_t flags) {
  if (width < 2 || width > PEEL_MAX_WIDTH) return PEEL_E_WIDTH;
  return (int)(TRITS_AT + fifth(width + 3) + (flags & PEEL_FLAG_UNSEALED ? 0 : PEEL_TAG_BYTES));
}

int peel_frame_seal(uint8_t *out, size_t capacity, const uint8_t seal_key[16], const peel_header *header, uint32_t rule, uint32_t width,
                    const uint8_t *trits) {
  uint8_t tag[16];
  int size = peel_frame_bytes(width, header->flags);
  if (size < 0) return size;
  if (capacity < (size_t)size) return PEEL_E_LENGTH;
  int error = peel_header_write(out, header);
  if (error) return error;
  size_t trit_bytes = fifth(width + 3);
  size_t body_bytes = PEEL_RULE_BYTES + trit_bytes;
  store32(out + BODY_AT, rule);
  if (trits != out + TRITS_AT) memcpy(out + TRITS_AT, trits, trit_bytes);
  if (header->flags & PEEL_FLAG_UNSEALED) return size;
  peel_ascon_seal(out + BODY_AT, tag, seal_key, out, NULL, 0, out + BODY_AT, body_bytes);
  memcpy(out + BODY_AT + body_bytes, tag, PEEL_TAG_BYTES);
  return size;
}

/* seal_key is NULL for an unsealed frame. */
static int open_frame(uint32_t *rule, uint8_t *trits, const uint8_t *seal_key, uint32_t width, const uint8_t *frame, size_t len) {
  uint8_t body[PEEL_RULE_BYTES + PEEL_MAX_TRIT_BYTES];
  peel_header header;
  int error = peel_header_read(&header, frame, len);
  if (error) return error;
  int size = peel_frame_bytes(width, header.flags);
  if (size < 0) return size;
  if (len != (size_t)size) return PEEL_E_LENGTH;
  size_t trit_bytes = fifth(width + 3);
  size_t body_bytes = PEEL_RULE_BYTES + trit_bytes;
  if ((header.flags & PEEL_FLAG_UNSEALED) != (seal_key ? 0 : PEEL_FLAG_UNSEALED)) return PEEL_E_UNSEALED;
  if (seal_key) {
    error = peel_ascon_open(body, seal_key, frame, NULL, 0, frame + BODY_AT, body_bytes, frame + BODY_AT + body_bytes, PEEL_TAG_BYTES);
    if (error) return error;
  } else {
    memcpy(body, frame + BODY_AT, body_bytes);
  }
  error = peel_projection_check(width, body + PEEL_RULE_BYTES);
  if (error) return error;
  *rule = load32(body);
  memcpy(trits, body + PEEL_RULE_BYTES, trit_bytes);
  return PEEL_OK;
}

int peel_frame_open(uint32_t *rule, uint8_t *trits, const uint8_t seal_key[16], uint32_t width, const uint8_t *frame, size_t len) {
  return open_frame(rule, trits, seal_key, width, frame, len);
}

int peel_frame_open_unsealed(uint32_t *rule, uint8_t *trits, uint32_t width, const uint8_t *frame, size_t len) {
  return open_frame(rule, trits, NULL, width, frame, len);
}
