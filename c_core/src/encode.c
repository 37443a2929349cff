/* SPDX-License-Identifier: MIT */
/* Readings in, sealed frame out. */
#include "peel.h"
#include "question.h"

static int check(peel_sums *sums, const peel_encoder *encoder) {
  if (encoder->flags & ~PEEL_FLAG_UNSEALED) return PEEL_E_FLAGS;
  if (encoder->device == 0) return PEEL_E_DEVICE;
  return peel_blocks_sum(sums, encoder->blocks, encoder->block_count, encoder->width);
}

int peel_encoder_check(const peel_encoder *encoder) {
  peel_sums sums;
  return check(&sums, encoder);
}

int peel_encode(uint8_t *out, size_t capacity, const peel_encoder *encoder, uint64_t number, const int32_t *readings, size_t count,
                peel_drbg *drbg) {
  peel_symbol symbol;
  peel_sums sums;
  uint32_t words[2], rule;
  const peel_header header = {encoder->flags, encoder->profile, encoder->device, number};
  int error = check(&sums, encoder);
  if (error) return error;
  if (capacity < (size_t)peel_frame_bytes(encoder->width, encoder->flags)) return PEEL_E_LENGTH;
  error = peel_header_write(out, &header);
  if (error) return error;
  peel_index_words(words, encoder->index_key, out);
  error = peel_answer(&symbol, &rule, &sums, encoder->blocks, encoder->block_count, encoder->width, words, readings, count,
                      encoder->coin_seed, drbg);
  if (error) return error;
  uint8_t *trits = out + PEEL_HEADER_BYTES + PEEL_RULE_BYTES;
  peel_projection_encode(trits, encoder->seed, encoder->width, encoder->rows, symbol);
  return peel_frame_seal(out, capacity, encoder->seal_key, &header, rule, encoder->width, trits);
}

int peel_encoder_coin(uint8_t name[PEEL_COIN_NAME_BYTES], const peel_encoder *encoder, uint64_t number) {
  peel_sums sums;
  uint32_t words[2];
  uint8_t bytes[PEEL_HEADER_BYTES];
  const peel_header header = {encoder->flags, encoder->profile, encoder->device, number};
  int error = check(&sums, encoder);
  if (error) return error;
  error = peel_header_write(bytes, &header);
  if (error) return error;
  peel_index_words(words, encoder->index_key, bytes);
  const peel_block *block = peel_assigned_block(&sums, encoder->blocks, encoder->block_count, words);
  return peel_coin_name(name, &header, block->keep, block->change, peel_outcomes(block));
}
