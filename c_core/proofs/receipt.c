/* SPDX-License-Identifier: MIT */
/* Any receipts of SIZE bytes read; receipts with RUNS runs of any numbers written. */
#include "peel.h"
#include "unknown.h"

#define RUNS (SIZE % (PEEL_MAX_RECEIPT_RUNS + 1))

BYTES(receipt, SIZE);
static peel_run runs[PEEL_MAX_RECEIPT_RUNS], given[RUNS + 1];
static uint8_t out[PEEL_RECEIPT_BYTES(RUNS)], key[16];

int main(void) {
  uint64_t upto;
  UNKNOWN(receipt_and_end);
  UNKNOWN(given);
  UNKNOWN(key);
  peel_receipt_read(&upto, runs, key, ANY_U32(), receipt, SIZE);
  peel_receipt_write(out, ANY_SIZE(sizeof out), key, ANY_U32(), ANY_U64(), given + 1, RUNS);
  return peel_receipt_write(NULL, SIZE_MAX, key, ANY_U32(), ANY_U64(), NULL, Frama_C_size_t_interval(PEEL_MAX_RECEIPT_RUNS + 1, SIZE_MAX));
}
