/* SPDX-License-Identifier: MIT */
/* Runs the core on lines of text, so that any machine with a C library can check it against the vectors:
 *
 *   seal KEY NONCE AD TEXT            -> CIPHERTEXT TAG
 *   open KEY NONCE AD TEXT TAG        -> PLAINTEXT or a code
 *   stream KEY NONCE LENGTH           -> OUTPUT
 *   xof MESSAGE LENGTH                -> OUTPUT
 *   new                               -> ok             a new generator
 *   seed ENTROPY                      -> ok or a code
 *   bytes LENGTH                      -> OUTPUT or a code
 *   perturb WIDTH BLOCK,... WORD WORD READING,...           -> INDEX MINUS or a code
 *   unit KEY HEADER BLOCK,...         -> WORD WORD UNIT
 *   codeword SEED WIDTH INDEX MINUS CACHED                  -> TRITS or a code
 *   device FLAGS PROFILE DEVICE WIDTH SEED SEAL_KEY INDEX_KEY BLOCK,...                 -> ok or a code
 *   encode NUMBER READING,... SECRET  -> FRAME or a code; with the secret of a batch (or "-") a verified one
 *   name NUMBER                       -> NAME or a code; the coin of a number of the device
 *   frame WIDTH KEY FRAME             -> RULE TRITS or a code; without a key ("-") an unsealed frame
 *   receipt KEY DEVICE NUMBERS        -> RECEIPT or a code; numbers as in it, six bytes each
 *   read KEY DEVICE RECEIPT           -> NUMBERS or a code
 *   table SECRET NAME ANSWER          -> SEED MASKED ROOT or a code
 *   coin PROFILE DEVICE NUMBER KEEP CHANGE SYMBOLS          -> NAME or a code
 *   reveal NAME SEED INDEX            -> ROOT OPENING or a code
 *   verify NAME ROOT INDEX OPENING    -> OUTCOME or a code
 *   mirror NAME SEED INDEX            -> OUTCOME or a code; the opening of a table's outcome, verified
 *   challenge SEED NUMBER SIZE        -> INDEX
 *   message KEY TYPE PROFILE DEVICE NUMBER BODY             -> FRAME or a code
 *   body KEY SIZE FRAME               -> TYPE BODY or a code
 *   inform KEY DEVICE NUMBERS FIELDS SEED NUMBERS           -> RECEIPT or a code; fields as in it, then a challenge or "- -"
 *   informed KEY DEVICE RECEIPT       -> NUMBERS FIELDS SEED NUMBERS or a code
 *
 * Bytes are hexadecimal, "-" when empty; numbers are decimal. A block is FORM:WEIGHT:QUESTIONS:SYMBOLS:DOMAIN:KEEP:CHANGE. A code is
 * printed as a negative number.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peel.h"

#define LINE_BYTES 65536
#define FIELDS 16

static peel_drbg drbg;
static peel_encoder device;
static peel_block device_blocks[PEEL_MAX_BLOCKS + 8];
static uint32_t row_cache[PEEL_MAX_WIDTH];

typedef struct {
  uint8_t data[4096];
  size_t len;
} bytes;

static bytes from_hex(const char *text) {
  bytes b = {{0}, 0};
  if (strcmp(text, "-") == 0) return b;
  for (; text[0] && text[1] && b.len < sizeof b.data; text += 2) {
    char pair[3] = {text[0], text[1], 0};
    b.data[b.len++] = (uint8_t)strtoul(pair, NULL, 16);
  }
  return b;
}

static void print_hex(const uint8_t *data, size_t len, char end) {
  if (len == 0) putchar('-');
  for (size_t i = 0; i < len; i++) printf("%02x", data[i]);
  putchar(end);
}

static void print_code(int code) { code < 0 ? printf("%d\n", code) : printf("ok\n"); }

static uint32_t number32(const char *text) { return (uint32_t)strtoul(text, NULL, 10); }

static size_t readings_from(int32_t out[PEEL_MAX_WIDTH + 8], char *text) {
  size_t count = 0;
  if (strcmp(text, "-") == 0) return 0;
  for (char *item = text; item && count < PEEL_MAX_WIDTH + 8; count++) {
    char *comma = strchr(item, ',');
    if (comma) *comma++ = 0;
    out[count] = (int32_t)strtol(item, NULL, 10);
    item = comma;
  }
  return count;
}

static size_t blocks_from(peel_block out[PEEL_MAX_BLOCKS + 8], char *text) {
  size_t count = 0;
  if (strcmp(text, "-") == 0) return 0;
  for (char *item = text; item && count < PEEL_MAX_BLOCKS + 8; count++) {
    uint32_t numbers[7] = {0};
    char *comma = strchr(item, ',');
    if (comma) *comma++ = 0;
    for (int i = 0; i < 7 && item; i++) {
      numbers[i] = number32(item);
      item = strchr(item, ':');
      if (item) item++;
    }
    out[count] = (peel_block){(uint8_t)numbers[0],  (uint8_t)numbers[1], (uint16_t)numbers[2], (uint16_t)numbers[3],
                              (uint16_t)numbers[4], (uint8_t)numbers[5], (uint8_t)numbers[6]};
    item = comma;
  }
  return count;
}

static void run_ascon(char **f) {
  bytes key = from_hex(f[1]), nonce = from_hex(f[2]), ad = from_hex(f[3]), text = from_hex(f[4]);
  uint8_t tag[16];
  if (strcmp(f[0], "seal") == 0) {
    peel_ascon_seal(text.data, tag, key.data, nonce.data, ad.data, ad.len, text.data, text.len);
    print_hex(text.data, text.len, ' ');
    print_hex(tag, sizeof tag, '\n');
  } else {
    bytes expected = from_hex(f[5]);
    int code = peel_ascon_open(text.data, key.data, nonce.data, ad.data, ad.len, text.data, text.len, expected.data, expected.len);
    code ? print_code(code) : print_hex(text.data, text.len, '\n');
  }
}

static void run_stream(char **f) {
  bytes key = from_hex(f[1]), nonce = from_hex(f[2]), out = {{0}, number32(f[3])};
  peel_ascon_stream(out.data, out.len, key.data, nonce.data);
  print_hex(out.data, out.len, '\n');
}

static void run_xof(char **f) {
  bytes message = from_hex(f[1]), out = {{0}, number32(f[2])};
  peel_xof xof;
  peel_xof_init(&xof);
  peel_xof_absorb(&xof, message.data, message.len / 3); /* in two parts each: splitting must not matter */
  peel_xof_absorb(&xof, message.data + message.len / 3, message.len - message.len / 3);
  peel_xof_squeeze(&xof, out.data, out.len / 2);
  peel_xof_squeeze(&xof, out.data + out.len / 2, out.len - out.len / 2);
  print_hex(out.data, out.len, '\n');
}

static void run_bytes(char **f) {
  bytes out = {{0}, number32(f[1])};
  int code = peel_drbg_bytes(&drbg, out.data, out.len);
  code ? print_code(code) : print_hex(out.data, out.len, '\n');
}

static void run_perturb(char **f) {
  int32_t readings[PEEL_MAX_WIDTH + 8] = {0};
  peel_block blocks[PEEL_MAX_BLOCKS + 8];
  peel_symbol symbol;
  size_t block_count = blocks_from(blocks, f[2]), count = readings_from(readings, f[5]);
  uint32_t words[2] = {number32(f[3]), number32(f[4])};
  int code = peel_perturb(&symbol, blocks, block_count, number32(f[1]), words, readings, count, &drbg);
  code ? print_code(code) : (void)printf("%lu %lu\n", (unsigned long)symbol.index, (unsigned long)symbol.minus);
}

static void run_unit(char **f) {
  peel_block blocks[PEEL_MAX_BLOCKS + 8];
  size_t count = blocks_from(blocks, f[3]);
  uint32_t words[2];
  peel_index_words(words, from_hex(f[1]).data, from_hex(f[2]).data);
  printf("%lu %lu ", (unsigned long)words[0], (unsigned long)words[1]);
  printf("%lu\n", (unsigned long)peel_unit(blocks, count, words));
}

static void run_codeword(char **f) {
  uint8_t trits[PEEL_MAX_TRIT_BYTES];
  uint32_t seed = number32(f[1]), width = number32(f[2]);
  peel_symbol symbol = {number32(f[3]), number32(f[4])};
  int cached = number32(f[5]) && peel_projection_rows(row_cache, seed, width) == PEEL_OK;
  int size = peel_projection_encode(trits, seed, width, cached ? row_cache : NULL, symbol);
  size < 0 ? print_code(size) : print_hex(trits, (size_t)size, '\n');
}

static void run_device(char **f) {
  bytes seal_key = from_hex(f[6]), index_key = from_hex(f[7]);
  memset(&device, 0, sizeof device);
  device.flags = (uint8_t)number32(f[1]);
  device.profile = number32(f[2]);
  device.device = number32(f[3]);
  device.width = number32(f[4]);
  device.seed = number32(f[5]);
  device.block_count = (uint8_t)blocks_from(device_blocks, f[8]);
  device.blocks = device_blocks;
  memcpy(device.seal_key, seal_key.data, 16);
  memcpy(device.index_key, index_key.data, 16);
  print_code(peel_encoder_check(&device));
}

static void run_encode(char **f) {
  uint8_t frame[PEEL_MAX_FRAME_BYTES];
  int32_t readings[PEEL_MAX_WIDTH + 8] = {0};
  uint64_t number = strtoull(f[1], NULL, 10);
  size_t count = readings_from(readings, f[2]);
  bytes secret = from_hex(f[3]);
  uint8_t seed[16] = {0};
  if (secret.len) peel_coin_seed(seed, secret.data, number);
  device.coin_seed = secret.len ? seed : NULL;
  int size = peel_encode(frame, sizeof frame, &device, number, readings, count, &drbg);
  size < 0 ? print_code(size) : print_hex(frame, (size_t)size, '\n');
}

static void run_frame(char **f) {
  uint8_t trits[PEEL_MAX_TRIT_BYTES];
  uint32_t rule, width = number32(f[1]);
  bytes key = from_hex(f[2]), frame = from_hex(f[3]);
  int code = key.len ? peel_frame_open(&rule, trits, key.data, width, frame.data, frame.len)
                     : peel_frame_open_unsealed(&rule, trits, width, frame.data, frame.len);
  if (code) {
    print_code(code);
    return;
  }
  printf("%lu ", (unsigned long)rule);
  print_hex(trits, PEEL_TRIT_BYTES(width), '\n');
}

static uint64_t number48(const uint8_t *data) {
  uint64_t number = 0;
  for (int i = 5; i >= 0; i--) number = number << 8 | data[i];
  return number;
}

static void print_number48(uint64_t number, char end) {
  uint8_t data[6];
  for (int i = 0; i < 6; i++) data[i] = (uint8_t)(number >> 8 * i);
  for (int i = 0; i < 6; i++) printf("%02x", data[i]);
  if (end) putchar(end);
}

static void run_receipt(char **f) {
  uint8_t receipt[PEEL_MAX_RECEIPT_BYTES];
  peel_run runs[PEEL_MAX_RECEIPT_RUNS + 1];
  bytes key = from_hex(f[1]), numbers = from_hex(f[3]);
  size_t count = 0;
  for (size_t at = 6; at + 12 <= numbers.len && count <= PEEL_MAX_RECEIPT_RUNS; at += 12, count++) {
    runs[count].first = number48(numbers.data + at);
    runs[count].last = number48(numbers.data + at + 6);
  }
  int size = peel_receipt_write(receipt, sizeof receipt, key.data, number32(f[2]), number48(numbers.data), runs, count);
  size < 0 ? print_code(size) : print_hex(receipt, (size_t)size, '\n');
}

static void run_read(char **f) {
  uint64_t upto;
  peel_run runs[PEEL_MAX_RECEIPT_RUNS];
  bytes key = from_hex(f[1]), receipt = from_hex(f[3]);
  int count = peel_receipt_read(&upto, runs, key.data, number32(f[2]), receipt.data, receipt.len);
  if (count < 0) {
    print_code(count);
    return;
  }
  print_number48(upto, count ? 0 : '\n');
  for (int i = 0; i < count; i++) {
    print_number48(runs[i].first, 0);
    print_number48(runs[i].last, i + 1 < count ? 0 : '\n');
  }
}

/* ---- Verified coins ---- */

static void run_coin(char **f) {
  uint8_t name[PEEL_COIN_NAME_BYTES];
  peel_header header = {0, number32(f[1]), number32(f[2]), strtoull(f[3], NULL, 10)};
  int code = peel_coin_name(name, &header, number32(f[4]), number32(f[5]), number32(f[6]));
  code ? print_code(code) : print_hex(name, sizeof name, '\n');
}

static void run_name(char **f) {
  uint8_t name[PEEL_COIN_NAME_BYTES];
  int code = peel_encoder_coin(name, &device, strtoull(f[1], NULL, 10));
  code ? print_code(code) : print_hex(name, sizeof name, '\n');
}

static void run_table(char **f) {
  uint8_t seed[16], root[16];
  bytes secret = from_hex(f[1]), name = from_hex(f[2]);
  uint64_t number = 0;
  for (int i = 5; i >= 0; i--) number = number << 8 | name.data[8 + i];
  peel_coin_seed(seed, secret.data, number);
  int masked = peel_coin_mask(seed, name.data[16], number32(f[3])), code = peel_coin_root(root, name.data, seed);
  if (code || masked < 0) {
    print_code(code ? code : masked);
    return;
  }
  print_hex(seed, sizeof seed, ' ');
  printf("%d ", masked);
  print_hex(root, sizeof root, '\n');
}

static void run_reveal(char **f) {
  uint8_t root[16], opening[PEEL_MAX_OPENING_BYTES];
  int size = peel_coin_open(opening, sizeof opening, root, from_hex(f[1]).data, from_hex(f[2]).data, number32(f[3]));
  if (size < 0) {
    print_code(size);
    return;
  }
  print_hex(root, sizeof root, ' ');
  print_hex(opening, (size_t)size, '\n');
}

static void run_verify(char **f) {
  bytes opening = from_hex(f[4]);
  printf("%d\n", peel_coin_verify(from_hex(f[2]).data, from_hex(f[1]).data, number32(f[3]), opening.data, opening.len));
}

static void run_mirror(char **f) {
  uint8_t root[16], opening[PEEL_MAX_OPENING_BYTES];
  bytes name = from_hex(f[1]);
  int size = peel_coin_open(opening, sizeof opening, root, name.data, from_hex(f[2]).data, number32(f[3]));
  printf("%d\n", size < 0 ? size : peel_coin_verify(root, name.data, number32(f[3]), opening, (size_t)size));
}

static void run_challenge(char **f) {
  printf("%lu\n", (unsigned long)peel_coin_index(from_hex(f[1]).data, strtoull(f[2], NULL, 10), number32(f[3])));
}

static void run_message(char **f) {
  uint8_t frame[PEEL_MESSAGE_BYTES(PEEL_MAX_MESSAGE_BODY_BYTES)];
  bytes key = from_hex(f[1]), body = from_hex(f[6]);
  peel_header header = {0, number32(f[3]), number32(f[4]), strtoull(f[5], NULL, 10)};
  int size = peel_message_seal(frame, sizeof frame, key.data, (uint8_t)number32(f[2]), &header, body.data, body.len);
  size < 0 ? print_code(size) : print_hex(frame, (size_t)size, '\n');
}

static void run_body(char **f) {
  uint8_t body[PEEL_MAX_MESSAGE_BODY_BYTES];
  bytes key = from_hex(f[1]), frame = from_hex(f[3]);
  size_t size = number32(f[2]);
  int type = peel_message_open(body, size, key.data, frame.data, frame.len);
  if (type < 0) {
    print_code(type);
    return;
  }
  printf("%d ", type);
  print_hex(body, size, '\n');
}

static size_t runs_from(peel_run *runs, size_t most, const uint8_t *data, size_t len) {
  size_t count = 0;
  for (size_t at = 0; at + 12 <= len && count < most; at += 12, count++) {
    runs[count].first = number48(data + at);
    runs[count].last = number48(data + at + 6);
  }
  return count;
}

static void print_runs(const peel_run *runs, int count) {
  for (int i = 0; i < count; i++) {
    print_number48(runs[i].first, 0);
    print_number48(runs[i].last, 0);
  }
}

static uint32_t word32(const uint8_t *data) {
  return (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
}

static void run_inform(char **f) {
  uint8_t receipt[PEEL_MAX_COIN_RECEIPT_BYTES];
  peel_run runs[PEEL_MAX_RECEIPT_RUNS + 1], challenge[PEEL_MAX_CHALLENGE_RUNS + 1];
  peel_coin_fields fields = {{0}, 0, 0, 0, 0, 0, {0}};
  bytes key = from_hex(f[1]), numbers = from_hex(f[3]), given = from_hex(f[4]), seed = from_hex(f[5]), asked = from_hex(f[6]);
  size_t count = runs_from(runs, PEEL_MAX_RECEIPT_RUNS + 1, numbers.data + 6, numbers.len - 6);
  memcpy(fields.era, given.data, 8);
  fields.approved = number48(given.data + 8);
  fields.audit_first = number48(given.data + 14);
  fields.audit = word32(given.data + 20);
  fields.opened = word32(given.data + 24);
  memcpy(fields.challenge_seed, seed.data, 16);
  fields.challenge_runs = (uint32_t)runs_from(challenge, PEEL_MAX_CHALLENGE_RUNS + 1, asked.data, asked.len);
  int size =
      peel_coin_receipt_write(receipt, sizeof receipt, key.data, number32(f[2]), number48(numbers.data), runs, count, &fields, challenge);
  size < 0 ? print_code(size) : print_hex(receipt, (size_t)size, '\n');
}

static void run_informed(char **f) {
  uint64_t upto;
  peel_run runs[PEEL_MAX_RECEIPT_RUNS], challenge[PEEL_MAX_CHALLENGE_RUNS];
  peel_coin_fields fields;
  bytes key = from_hex(f[1]), receipt = from_hex(f[3]);
  int count = peel_coin_receipt_read(&upto, runs, &fields, challenge, key.data, number32(f[2]), receipt.data, receipt.len);
  if (count < 0) {
    print_code(count);
    return;
  }
  print_number48(upto, 0);
  print_runs(runs, count);
  putchar(' ');
  for (int i = 0; i < 8; i++) printf("%02x", fields.era[i]);
  print_number48(fields.approved, 0);
  print_number48(fields.audit_first, 0);
  for (int i = 0; i < 4; i++) printf("%02x", (unsigned)(fields.audit >> 8 * i & 255));
  for (int i = 0; i < 4; i++) printf("%02x", (unsigned)(fields.opened >> 8 * i & 255));
  if (fields.challenge_runs == 0) {
    printf(" - -\n");
    return;
  }
  putchar(' ');
  print_hex(fields.challenge_seed, 16, ' ');
  print_runs(challenge, (int)fields.challenge_runs);
  putchar('\n');
}

static const struct {
  const char *name;
  void (*run)(char **fields);
} coin_commands[] = {
    {"name", run_name},     {"coin", run_coin},     {"table", run_table},         {"reveal", run_reveal},
    {"verify", run_verify}, {"mirror", run_mirror}, {"challenge", run_challenge}, {"message", run_message},
    {"body", run_body},     {"inform", run_inform}, {"informed", run_informed},
};

static int run_coins(char **f) {
  for (size_t i = 0; i < sizeof coin_commands / sizeof coin_commands[0]; i++) {
    if (strcmp(f[0], coin_commands[i].name) == 0) {
      coin_commands[i].run(f);
      return 0;
    }
  }
  return -1;
}

static int run(char **f) {
  if (strcmp(f[0], "seal") == 0 || strcmp(f[0], "open") == 0) {
    run_ascon(f);
  } else if (strcmp(f[0], "stream") == 0) {
    run_stream(f);
  } else if (strcmp(f[0], "xof") == 0) {
    run_xof(f);
  } else if (strcmp(f[0], "new") == 0) {
    memset(&drbg, 0, sizeof drbg);
    print_code(0);
  } else if (strcmp(f[0], "seed") == 0) {
    bytes entropy = from_hex(f[1]);
    print_code(peel_drbg_seed(&drbg, entropy.data, entropy.len));
  } else if (strcmp(f[0], "bytes") == 0) {
    run_bytes(f);
  } else if (strcmp(f[0], "perturb") == 0) {
    run_perturb(f);
  } else if (strcmp(f[0], "unit") == 0) {
    run_unit(f);
  } else if (strcmp(f[0], "codeword") == 0) {
    run_codeword(f);
  } else if (strcmp(f[0], "device") == 0) {
    run_device(f);
  } else if (strcmp(f[0], "encode") == 0) {
    run_encode(f);
  } else if (strcmp(f[0], "frame") == 0) {
    run_frame(f);
  } else if (strcmp(f[0], "receipt") == 0) {
    run_receipt(f);
  } else if (strcmp(f[0], "read") == 0) {
    run_read(f);
  } else {
    return run_coins(f);
  }
  return 0;
}

int main(void) {
  static char line[LINE_BYTES];
  while (fgets(line, sizeof line, stdin)) {
    char *fields[FIELDS] = {0};
    int count = 0;
    for (char *field = strtok(line, " \n"); field && count < FIELDS; field = strtok(NULL, " \n")) fields[count++] = field;
    if (count == 0) continue;
    for (int i = count; i < FIELDS; i++) fields[i] = line + strlen(line); /* empty strings, so that a short line is harmless */
    if (run(fields) < 0) {
      fprintf(stderr, "driver: unknown command %s\n", fields[0]);
      return 1;
    }
  }
  return 0;
}
