/* SPDX-License-Identifier: MIT */
/* Payloads of any bytes, split and opened with any keyring of two profiles of WIDTH, with and without verified coins. One payload is a
 * frame and a rest, one is too short for a frame, one is empty. */
#include "batch.h"
#include "unknown.h"

#define SEALED PEEL_FRAME_BYTES(WIDTH)
#define UNSEALED (SEALED - PEEL_TAG_BYTES)
#define OPENING (SEALED - PEEL_MESSAGE_BYTES(0)) /* so that a message is as long as a frame; the other messages do not fit */
#define FIRST (SEALED + 3)
#define PIECES (2 + 1 + 1) /* at most */

static uint8_t data[FIRST + UNSEALED - 1];
static const uint64_t payload_ends[3] = {FIRST, sizeof data, sizeof data};

static peel_batch_profile profiles[2];
static peel_block blocks[2];
static uint32_t devices[3];
static const uint32_t bundle_ends[3] = {1, 3, 4};
static uint64_t first_numbers[4], last_numbers[4];
static int32_t profile_of[4];
static uint8_t seal_keys[4 * 16], index_keys[4 * 16], coin_keys[4 * 16];

static int32_t message[PIECES], offset[PIECES], length[PIECES], profile[PIECES], slot[PIECES], found[2];
static int8_t code[PIECES];
static uint8_t flags[PIECES], type[PIECES], bodies[sizeof data];
static uint32_t device[PIECES], rule[PIECES], unit[PIECES];
static uint64_t number[PIECES];
static uint8_t packed[PIECES * PEEL_TRIT_BYTES(WIDTH)];

int main(void) {
  UNKNOWN(data);
  UNKNOWN(profiles);
  UNKNOWN(blocks);
  UNKNOWN(devices);
  UNKNOWN(first_numbers);
  UNKNOWN(last_numbers);
  UNKNOWN(seal_keys);
  UNKNOWN(index_keys);
  UNKNOWN(coin_keys);
  profiles[0].width = profiles[1].width = WIDTH;
  profiles[0].blocks = profiles[1].blocks = blocks;
  profiles[0].block_count = 1;
  profiles[1].block_count = 2;
  profiles[0].audits = profiles[0].opening = 0;
  profiles[1].audits = 32;
  profiles[1].opening = OPENING;
  profile_of[0] = Frama_C_interval(0, 1);
  profile_of[1] = Frama_C_interval(0, 1);
  profile_of[2] = Frama_C_interval(0, 1);
  profile_of[3] = Frama_C_interval(0, 1);
  const peel_batch_keyring keyring = {
      .profiles = profiles,
      .profile_count = 2,
      .devices = devices,
      .ends = bundle_ends,
      .device_count = 3,
      .first_numbers = first_numbers,
      .last_numbers = last_numbers,
      .profile_of = profile_of,
      .seal_keys = seal_keys,
      .index_keys = index_keys,
      .coin_keys = coin_keys,
      .accept_unsealed = Frama_C_interval(0, 1),
  };
  peel_batch_rows rows = {
      .message = message,
      .offset = offset,
      .length = length,
      .code = code,
      .flags = flags,
      .type = type,
      .device = device,
      .number = number,
      .profile = profile,
      .slot = slot,
      .rule = rule,
      .unit = unit,
      .packed = packed,
      .stride = PEEL_TRIT_BYTES(WIDTH),
      .bodies = bodies,
  };
  peel_batch_find(found, &keyring, devices, first_numbers, 2);
  peel_batch_count(&keyring, data, payload_ends, 3);
  peel_batch_open(&rows, &keyring, data, payload_ends, 3);
  return 0;
}
