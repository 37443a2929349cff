/* SPDX-License-Identifier: MIT */
/* Readings in, sealed frame out. */
#include "mechanism.h"
#include "peel.h"

int peel_encoder_check(const peel_encoder *encoder) {
  if (encoder->flags & ~PEEL_FLAG_UNSEALED) return PEEL_E_FLAGS;
  if (encoder->device == 0) return PEEL_E_DEVICE;
  int error = peel_mechanism_check(encoder->mechanism, encoder->k, encoder->domain, encoder->width);
  if (error) return error;
  if (encoder->rule == 0 || encoder->rule >= PEEL_RULE_ONE) return PEEL_E_RULE;
  return PEEL_OK;
}

int peel_encode(uint8_t *out, size_t capacity, const peel_encoder *encoder, uint64_t number, const int32_t *readings, size_t count,
                peel_drbg *drbg) {
  peel_symbol symbol;
  const peel_header header = {encoder->flags, encoder->mechanism, encoder->profile, encoder->device, number};
  int error = peel_encoder_check(encoder);
  if (error) return error;
  if (capacity < (size_t)peel_frame_bytes(encoder->width, encoder->flags)) return PEEL_E_LENGTH;
  error = peel_header_write(out, &header);
  if (error) return error;
  uint32_t word = peel_mechanism_assigns(encoder->mechanism) ? peel_index_word(encoder->index_key, out) : 0;
  error = peel_perturb(&symbol, encoder->mechanism, encoder->rule, encoder->k, encoder->domain, word, readings, count, drbg);
  if (error) return error;
  uint8_t *trits = out + PEEL_HEADER_BYTES + PEEL_RULE_BYTES;
  peel_projection_encode(trits, encoder->seed, encoder->width, encoder->rows, symbol);
  return peel_frame_seal(out, capacity, encoder->seal_key, &header, encoder->rule, encoder->width, trits);
}
