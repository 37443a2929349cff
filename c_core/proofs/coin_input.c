/* SPDX-License-Identifier: MIT */
/* Coins that may be any: names, seeds, masks, indices; openings, messages and receipts of SIZE bytes. */
#include "peel.h"
#include "unknown.h"

#define RUNS (SIZE % (PEEL_MAX_RECEIPT_RUNS + 1))
#define ASKED (SIZE % (PEEL_MAX_CHALLENGE_RUNS + 1))

static uint8_t name[PEEL_COIN_NAME_BYTES], seed[16], secret[16], key[16];
static uint8_t body[SIZE + 1], message[PEEL_MESSAGE_BYTES(SIZE)], out[PEEL_COIN_RECEIPT_BYTES(RUNS, ASKED)];
static peel_run runs[PEEL_MAX_RECEIPT_RUNS], asked[PEEL_MAX_CHALLENGE_RUNS], given[RUNS + 1], challenge[ASKED + 1];
static peel_coin_fields fields, read;
BYTES(data, SIZE);

int main(void) {
  uint64_t upto;
  peel_header header = {ANY_U8(), ANY_U32(), ANY_U32(), ANY_U64()}, found;
  UNKNOWN(seed);
  UNKNOWN(secret);
  UNKNOWN(key);
  UNKNOWN(body);
  UNKNOWN(message);
  UNKNOWN(given);
  UNKNOWN(challenge);
  UNKNOWN(fields);
  UNKNOWN(data_and_end);
  peel_coin_name(name, &header, ANY_U32(), ANY_U32(), ANY_U32());
  peel_coin_seed(seed, secret, ANY_U64());
  peel_coin_mask(seed, ANY_U32(), ANY_U32());
  peel_coin_index(seed, ANY_U64(), ANY_U32());
  peel_coin_opening_bytes(ANY_U32(), ANY_U32());
  peel_message_seal(message, ANY_SIZE(sizeof message), key, ANY_U8(), &header, body, SIZE);
  peel_message_read(&found, data, SIZE);
  peel_message_open(body, SIZE, key, message, sizeof message);
  peel_message_open(body, SIZE, key, data, SIZE);
  peel_coin_receipt_read(&upto, runs, &read, asked, key, ANY_U32(), data, SIZE);
  fields.challenge_runs = ASKED;
  return peel_coin_receipt_write(out, ANY_SIZE(sizeof out), key, ANY_U32(), ANY_U64(), given + 1, RUNS, &fields, challenge);
}
