/* SPDX-License-Identifier: MIT */
/* Variable arguments as a row of words, all of them 32 bits wide. Calls of variadic functions are compiled correctly by LLVM's Xtensa
 * back end, their definitions are not: variadic.s has those that MicroPython needs, and va_start is never reached. */
#ifndef PEEL_ESP32_STDARG_H
#define PEEL_ESP32_STDARG_H

typedef const unsigned *va_list;

#define va_start(list, last) ((list) = 0)
#define va_arg(list, type) ((type) * (list)++)
#define va_end(list) ((void)(list))

#endif
