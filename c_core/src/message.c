/* SPDX-License-Identifier: MIT */
/* The messages of verified coins: commitments, audit answers and openings in sealed frames (SPEC section 13.3). */
#include <string.h>

#include "peel.h"

#define TYPE_AT 1

static int is_type(uint8_t type) { return type >= PEEL_COMMITMENT && type <= PEEL_OPENING; }

int peel_message_seal(uint8_t *out, size_t capacity, const uint8_t coin_key[16], uint8_t type, const peel_header *header,
                      const uint8_t *body, size_t len) {
  uint8_t tag[16];
  if (!is_type(type) || header->flags) return PEEL_E_FLAGS;
  if (len > PEEL_MAX_MESSAGE_BODY_BYTES || capacity < PEEL_MESSAGE_BYTES(len)) return PEEL_E_LENGTH;
  int error = peel_header_write(out, header);
  if (error) return error;
  out[TYPE_AT] = type;
  peel_ascon_seal(out + PEEL_HEADER_BYTES, tag, coin_key, out, NULL, 0, body, len);
  memcpy(out + PEEL_HEADER_BYTES + len, tag, PEEL_TAG_BYTES);
  return (int)PEEL_MESSAGE_BYTES(len);
}

int peel_message_read(peel_header *header, const uint8_t *data, size_t len) {
  uint8_t plain[PEEL_HEADER_BYTES];
  peel_header found;
  if (len < sizeof plain) return PEEL_E_LENGTH;
  memcpy(plain, data, sizeof plain);
  plain[TYPE_AT] = 0;
  int error = peel_header_read(&found, plain, sizeof plain);
  if (error) return error;
  if (found.flags || !is_type(data[TYPE_AT])) return PEEL_E_FLAGS;
  *header = found;
  return data[TYPE_AT];
}

int peel_message_open(uint8_t *body, size_t size, const uint8_t coin_key[16], const uint8_t *frame, size_t len) {
  peel_header header;
  int type = peel_message_read(&header, frame, len);
  if (type < 0) return type;
  if (size > PEEL_MAX_MESSAGE_BODY_BYTES || len != PEEL_MESSAGE_BYTES(size)) return PEEL_E_LENGTH;
  if (header.device == 0) return PEEL_E_DEVICE;
  if (header.number == 0) return PEEL_E_NUMBER;
  const uint8_t *text = frame + PEEL_HEADER_BYTES;
  int error = peel_ascon_open(body, coin_key, frame, NULL, 0, text, size, text + size, PEEL_TAG_BYTES);
  return error ? error : type;
}
