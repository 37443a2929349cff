/* SPDX-License-Identifier: MIT */
/* As much of string.h as the core and the vector driver use. */
#ifndef PEEL_ESP32_STRING_H
#define PEEL_ESP32_STRING_H

#include <stddef.h>

void *memcpy(void *target, const void *source, size_t len);
void *memset(void *target, int value, size_t len);
int strcmp(const char *one, const char *other);
char *strchr(const char *text, int character);
size_t strlen(const char *text);
char *strtok(char *text, const char *separators);

#endif
