/* SPDX-License-Identifier: MIT */
/* Two reports of WIDTH made at once from any input; two coins, codewords, assignments, bundles' keys and receipts. */
#include "batch.h"
#include "unknown.h"

static uint8_t frames[2 * PEEL_FRAME_BYTES(WIDTH)];
static peel_encoder encoder;
static peel_drbg drbg;
static peel_block blocks[2];
static uint32_t devices[2], indices[2], units[2], words[2 * 2], rows[WIDTH - 1];
static uint8_t seal_keys[2 * 16], index_keys[2 * 16], receipt_keys[2 * 16], coin_keys[2 * 16], salts[2 * 16], minus[2], master[32],
    fleet[255];
static uint64_t numbers[2];
static int32_t readings[2 * WIDTH], symbols[2];
static int8_t trits[2 * (WIDTH - 1)], signs[2];
static peel_run runs[PEEL_MAX_RECEIPT_RUNS + 1];
static const uint64_t run_ends[2] = {PEEL_MAX_RECEIPT_RUNS, PEEL_MAX_RECEIPT_RUNS + 1};
static peel_run asked[PEEL_MAX_CHALLENGE_RUNS];
static const uint64_t asked_ends[2] = {PEEL_MAX_CHALLENGE_RUNS, PEEL_MAX_CHALLENGE_RUNS};
static peel_coin_fields fields[2];
static uint8_t coin_receipts[PEEL_MAX_COIN_RECEIPT_BYTES + PEEL_COIN_RECEIPT_BYTES(1, 0)];
static uint8_t receipts[PEEL_RECEIPT_BYTES(PEEL_MAX_RECEIPT_RUNS) + PEEL_RECEIPT_BYTES(1)];

int main(void) {
  size_t failed;
  UNKNOWN(encoder);
  UNKNOWN(blocks);
  UNKNOWN(drbg);
  UNKNOWN(devices);
  UNKNOWN(indices);
  UNKNOWN(words);
  UNKNOWN(rows);
  UNKNOWN(seal_keys);
  UNKNOWN(index_keys);
  UNKNOWN(receipt_keys);
  UNKNOWN(salts);
  UNKNOWN(minus);
  UNKNOWN(master);
  UNKNOWN(fleet);
  UNKNOWN(numbers);
  UNKNOWN(readings);
  UNKNOWN(runs);
  UNKNOWN(asked);
  UNKNOWN(fields);
  fields[0].challenge_runs = PEEL_MAX_CHALLENGE_RUNS;
  fields[1].challenge_runs = 0;
  encoder.rows = EITHER(rows, NULL);
  encoder.coin_seed = EITHER(salts, NULL);
  encoder.blocks = blocks;
  encoder.block_count = Frama_C_unsigned_char_interval(0, 2);
  encoder.width = BAD_WIDTH();
  peel_batch_encode(NULL, &failed, &encoder, devices, seal_keys, index_keys, numbers, readings, WIDTH, 2, &drbg);
  encoder.width = WIDTH;
  peel_batch_encode(frames, &failed, &encoder, devices, seal_keys, index_keys, numbers, readings, WIDTH, 2, &drbg);
  peel_batch_encode(frames, &failed, &encoder, devices, seal_keys, index_keys, numbers, readings, 1, 2, &drbg);
  for (int few = 0; few < 2; few++) {
    peel_batch_perturb(symbols, signs, &failed, blocks, ANY_SIZE(2), ANY_U32(), words, readings, few ? 1 : WIDTH, 2, &drbg);
  }
  peel_batch_project(trits, WIDTH, rows, indices, minus, 2);
  peel_batch_index(units, ANY_U8(), ANY_U32(), blocks, Frama_C_size_t_interval(1, 2), devices, index_keys, numbers, 2);
  peel_batch_receipts(receipts, &failed, devices, receipt_keys, numbers, runs, run_ends, 2);
  peel_batch_coin_receipts(coin_receipts, &failed, devices, receipt_keys, numbers, runs, run_ends, fields, asked, asked_ends, 2);
  peel_batch_derive(seal_keys, index_keys, receipt_keys, coin_keys, master, fleet, ANY_SIZE(sizeof fleet), devices, numbers, salts, 2);
  return 0;
}
