/* SPDX-License-Identifier: MIT */
/* Coverage-guided fuzzing of openings, messages and receipts with coin fields. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "peel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t key[16] = {7};

static void require(int condition) {
  if (!condition) abort();
}

/* The size of a coin's table, as far as the name says. */
static uint32_t table_size(const uint8_t *name) { return name[14] + (name[16] - 1u) * name[15]; }

/* Nobody guesses an opening: what is given must be refused, for the first fault in the order of the specification. */
static void verify_as_given(const uint8_t *name, uint32_t index, const uint8_t *opening, size_t size) {
  static const uint8_t root[16] = {1};
  int code = peel_coin_verify(root, name, index, opening, size);
  int expected = peel_coin_opening_bytes(table_size(name), index);
  require(code == PEEL_E_COIN || code == PEEL_E_LENGTH || code == PEEL_E_OUTCOME || code == PEEL_E_ROOT);
  if (expected < 0) require(code == PEEL_E_COIN);
  if (code == PEEL_E_LENGTH) require(size != (size_t)expected);
  if (code == PEEL_E_OUTCOME) require(size == (size_t)expected && opening[0] >= name[16]);
}

/* An honest opening verifies, and no longer does so with any byte changed. The seed is the front of the input. */
static void verify_honest(const uint8_t *name, uint32_t index, const uint8_t *seed, size_t size) {
  uint8_t root[16], again[16], opening[PEEL_MAX_OPENING_BYTES];
  int length = peel_coin_open(opening, sizeof opening, root, name, seed, index);
  if (length < 0) {
    require(length == PEEL_E_COIN);
    return;
  }
  require(peel_coin_root(again, name, seed) == 0 && memcmp(root, again, sizeof root) == 0);
  require(peel_coin_verify(root, name, index, opening, (size_t)length) == opening[0]);
  opening[size % (size_t)length] ^= (uint8_t)(seed[15] | 1);
  require(peel_coin_verify(root, name, index, opening, (size_t)length) < 0);
}

static void open_message(const uint8_t *data, size_t size) {
  uint8_t body[PEEL_MAX_MESSAGE_BODY_BYTES], frame[PEEL_MESSAGE_BYTES(PEEL_MAX_MESSAGE_BODY_BYTES)];
  peel_header header, again;
  int type = peel_message_read(&header, data, size);
  require(peel_message_open(body, size < 24 ? 0 : size - 24, key, data, size) < 0); /* nobody guesses a tag */
  if (type < 0 || !header.device || !header.number || size > 24 + sizeof body || size < 24) return;
  size_t len = size - 24;
  int sealed = peel_message_seal(frame, sizeof frame, key, (uint8_t)type, &header, data + 16, len);
  require(sealed == (int)size && peel_message_read(&again, frame, size) == type && again.number == header.number);
  require(peel_message_open(body, len, key, frame, size) == type && memcmp(body, data + 16, len) == 0);
}

/* A fuzzer cannot guess a tag, so tag its input. A receipt that a gateway could have written has one form. */
static void read_receipt(const uint8_t *data, size_t size) {
  uint8_t receipt[PEEL_MAX_COIN_RECEIPT_BYTES], again[PEEL_MAX_COIN_RECEIPT_BYTES];
  peel_run runs[PEEL_MAX_RECEIPT_RUNS], challenge[PEEL_MAX_CHALLENGE_RUNS];
  peel_coin_fields fields;
  peel_xof xof;
  uint64_t upto;
  require(peel_coin_receipt_read(&upto, runs, &fields, challenge, key, 1, data, size) < 0);
  if (size < 8 || size > sizeof receipt) return;
  memcpy(receipt, data, size - 8);
  peel_hash_init(&xof, "peel/1 receipt");
  peel_xof_absorb(&xof, key, 16);
  peel_xof_absorb(&xof, receipt, size - 8);
  peel_xof_squeeze(&xof, receipt + size - 8, 8);
  int count = peel_coin_receipt_read(&upto, runs, &fields, challenge, key, 1, receipt, size);
  if (count < 0) return;
  int written = peel_coin_receipt_write(again, sizeof again, key, 1, upto, runs, (size_t)count, &fields, challenge);
  require(written == PEEL_E_NUMBER || written == (int)size);
  if (written < 0) return;
  int first_distance = fields.challenge_runs ? receipt[63 + 12 * count] | receipt[64 + 12 * count] : 0;
  require(first_distance != 0 || memcmp(again, receipt, size) == 0);
}

/* 20 bytes of name, an index, then an opening, a message or a receipt. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 37) return 0;
  uint8_t name[20];
  uint32_t index = data[20];
  memcpy(name, data, sizeof name);
  size -= 21;
  uint8_t *exact = malloc(size); /* so that the sanitizer sees a read past the end */
  require(exact != NULL);
  memcpy(exact, data + 21, size);
  verify_as_given(name, index, exact, size);
  verify_honest(name, index, exact, size);
  open_message(exact, size);
  read_receipt(exact, size);
  free(exact);
  return 0;
}
