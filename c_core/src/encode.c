/* SPDX-License-Identifier: MIT */
/* Readings in, sealed frame out. */
#include "peel.h"

int peel_encoder_check(const peel_encoder *encoder) {
  if (encoder->flags & ~PEEL_FLAG_UNSEALED) return PEEL_E_FLAGS;
  if (encoder->mechanism != PEEL_HARMONY && encoder->mechanism != PEEL_KRR) return PEEL_E_MECHANISM;
  if (encoder->device == 0) return PEEL_E_DEVICE;
  if (encoder->k < 2 || encoder->width < encoder->k || encoder->width > PEEL_MAX_WIDTH) return PEEL_E_WIDTH;
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
  uint32_t assigned = encoder->mechanism == PEEL_HARMONY ? peel_index(encoder->index_key, out, encoder->k) : 0;
  error = peel_perturb(&symbol, encoder->mechanism, encoder->rule, encoder->k, assigned, readings, count, drbg);
  if (error) return error;
  uint8_t *trits = out + PEEL_HEADER_BYTES + PEEL_RULE_BYTES;
  peel_projection_encode(trits, encoder->seed, encoder->width, encoder->rows, symbol);
  return peel_frame_seal(out, capacity, encoder->seal_key, &header, encoder->rule, encoder->width, trits);
}
