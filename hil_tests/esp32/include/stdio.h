/* SPDX-License-Identifier: MIT */
/* As much of stdio.h as the vector driver uses. printf is a macro over a function of fixed arguments, because LLVM's Xtensa back end
 * does not compile variadic functions correctly. */
#ifndef PEEL_ESP32_STDIO_H
#define PEEL_ESP32_STDIO_H

#include <stddef.h>

#define stdin 0
#define stderr 2

int print_format(const char *format, unsigned long one, unsigned long two);
int putchar(int character);
char *fgets(char *line, int size, int stream);

#define printf(...) PRINT_FORMAT(__VA_ARGS__, 0, 0, 0)
#define PRINT_FORMAT(format, one, two, ...) print_format(format, (unsigned long)(one), (unsigned long)(two))
#define fprintf(stream, ...) ((void)(stream), printf("the driver does not know a command\n"))

#endif
