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
 *   encode NUMBER READING,...         -> FRAME or a code
 *   frame WIDTH KEY FRAME             -> RULE TRITS or a code; without a key ("-") an unsealed frame
 *   receipt KEY DEVICE NUMBERS        -> RECEIPT or a code; numbers as in it, six bytes each
 *   read KEY DEVICE RECEIPT           -> NUMBERS or a code
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
    return -1;
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
