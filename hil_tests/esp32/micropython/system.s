# SPDX-License-Identifier: MIT
# The system calls of this program beyond those in ../start.s, which explains the registers.

	.text
	.macro	SYSTEM_CALL name, number
	.global	\name
	.p2align 2
\name:
	entry	a1, 32
	or	a6, a2, a2
	movi	a2, \number
	syscall
	retw
	.endm

	SYSTEM_CALL system_open, 8
	SYSTEM_CALL system_close, 9
	SYSTEM_CALL system_exit, 118
	SYSTEM_CALL system_sigaction, 226
