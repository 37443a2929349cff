# SPDX-License-Identifier: MIT
# Variadic functions, which LLVM's Xtensa back end does not compile correctly. Each lays its arguments out as a row of words - six came
# in registers, the others lie on the caller's stack - and hands a pointer to the C function that does the work (see main.c).

	.macro	VARIADIC name, worker
	.literal .L\name, \worker
	.global	\name
	.p2align 2
\name:
	entry	a1, 96			# 14 words, and the 32 bytes where a window overflow saves registers
	s32i	a2, a1, 0
	s32i	a3, a1, 4
	s32i	a4, a1, 8
	s32i	a5, a1, 12
	s32i	a6, a1, 16
	s32i	a7, a1, 20
	addi	a8, a1, 96		# the caller's stack
	addi	a9, a1, 24
	.irp	offset, 0, 4, 8, 12, 16, 20, 24, 28
	l32i	a10, a8, \offset
	s32i	a10, a9, \offset
	.endr
	or	a10, a1, a1
	l32r	a8, .L\name
	callx8	a8
	or	a2, a10, a10
	retw
	.endm

	.text
	.literal_position
	VARIADIC mp_printf, print_words
	VARIADIC vstr_printf, vstr_print_words
	VARIADIC mp_obj_new_exception_msg_varg, exception_words
	VARIADIC mp_raise_msg_varg, raise_words
	VARIADIC printf, print_to_console_words
