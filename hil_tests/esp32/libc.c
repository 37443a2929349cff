/* SPDX-License-Identifier: MIT */
/* The C library of the vector driver on the ESP32's instruction set: what it calls, and no more. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* start.s */
long system_read(int file, void *data, size_t len);
long system_write(int file, const void *data, size_t len);

/* ---- Memory and strings ---- */

void *memcpy(void *target, const void *source, size_t len) {
  uint8_t *to = target;
  const uint8_t *from = source;
  while (len--) *to++ = *from++;
  return target;
}

void *memset(void *target, int value, size_t len) {
  uint8_t *to = target;
  while (len--) *to++ = (uint8_t)value;
  return target;
}

int strcmp(const char *one, const char *other) {
  for (; *one && *one == *other; one++) other++;
  return (unsigned char)*one - (unsigned char)*other;
}

size_t strlen(const char *text) {
  size_t length = 0;
  while (text[length]) length++;
  return length;
}

char *strchr(const char *text, int character) {
  for (; *text != (char)character; text++)
    if (!*text) return NULL;
  return (char *)text;
}

char *strtok(char *text, const char *separators) {
  static char *rest;
  if (text) rest = text;
  while (*rest && strchr(separators, *rest)) rest++;
  if (!*rest) return NULL;
  char *token = rest;
  while (*rest && !strchr(separators, *rest)) rest++;
  if (*rest) *rest++ = 0;
  return token;
}

/* ---- Numbers ---- */

static unsigned digit_of(char c) {
  if (c >= '0' && c <= '9') return (unsigned)(c - '0');
  if (c >= 'a' && c <= 'f') return (unsigned)(c - 'a') + 10;
  return 99;
}

unsigned long long strtoull(const char *text, char **end, int base) {
  unsigned long long value = 0;
  (void)end;
  for (; digit_of(*text) < (unsigned)base; text++) value = value * (unsigned)base + digit_of(*text);
  return value;
}

unsigned long strtoul(const char *text, char **end, int base) { return (unsigned long)strtoull(text, end, base); }

long strtol(const char *text, char **end, int base) {
  return *text == '-' ? (long)(0 - strtoul(text + 1, end, base)) : (long)strtoul(text, end, base);
}

/* ---- Files ---- */

static char output[4096];
static size_t pending;

static void flush(void) {
  system_write(1, output, pending);
  pending = 0;
}

int putchar(int character) {
  if (pending == sizeof output) flush();
  output[pending++] = (char)character;
  if (character == '\n') flush();
  return character;
}

static void print_number(unsigned long value, unsigned base, int width) {
  char digits[12];
  int count = 0;
  do digits[count++] = "0123456789abcdef"[value % base];
  while (value /= base);
  while (count < width) digits[count++] = '0';
  while (count) putchar(digits[--count]);
}

/* %d, %lu and %02x, with at most two of them. */
int print_format(const char *format, unsigned long one, unsigned long two) {
  for (; *format; format++) {
    if (*format != '%') {
      putchar(*format);
      continue;
    }
    while (*++format == '0' || *format == '2' || *format == 'l') continue;
    if (*format == 'd' && (long)one < 0) {
      putchar('-');
      one = 0 - one;
    }
    print_number(one, *format == 'x' ? 16 : 10, *format == 'x' ? 2 : 1);
    one = two;
  }
  return 0;
}

char *fgets(char *line, int size, int stream) {
  static char input[4096];
  static long have, at;
  int length = 0;
  while (length < size - 1) {
    if (at == have) {
      have = system_read(stream, input, sizeof input);
      at = 0;
      if (have <= 0) break;
    }
    line[length++] = input[at++];
    if (line[length - 1] == '\n') break;
  }
  line[length] = 0;
  return length ? line : NULL;
}
