/* SPDX-License-Identifier: MIT */
/* As much of stdlib.h as the vector driver uses. */
#ifndef PEEL_ESP32_STDLIB_H
#define PEEL_ESP32_STDLIB_H

#include <stddef.h>

long strtol(const char *text, char **end, int base);
unsigned long strtoul(const char *text, char **end, int base);
unsigned long long strtoull(const char *text, char **end, int base);

#endif
