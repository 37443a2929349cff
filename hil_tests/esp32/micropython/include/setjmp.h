/* SPDX-License-Identifier: MIT */
/* setjmp for windowed calls, in windows.s. */
#ifndef PEEL_ESP32_SETJMP_H
#define PEEL_ESP32_SETJMP_H

typedef unsigned jmp_buf[10];

int setjmp(jmp_buf target) __attribute__((returns_twice));
void longjmp(jmp_buf target, int value) __attribute__((noreturn));

#endif
