# SPDX-License-Identifier: MIT
# Start and system calls for a stand-alone program under qemu-xtensa (Linux user mode), windowed calls.
# System calls take their number in a2 and arguments in a6, a3, a4; the result comes back in a2.

	.text
	.literal_position
	.literal .Lmain, main

	.global	_start
	.p2align 2
_start:
	movi	a0, 0			# no caller
	movi	a9, -16
	and	a9, a1, a9		# align the stack, and leave room for a frame with its save area
	addi	a8, a9, -128
	addi	a10, a8, -12
	s32i	a9, a10, 0		# the stack pointer of the frame above, where a window overflow looks for it
	or	a1, a8, a8
	l32r	a8, .Lmain
	callx8	a8
	or	a6, a10, a10		# exit status
	movi	a2, 118			# exit
	syscall

	.global	system_read
	.p2align 2
system_read:
	entry	a1, 32
	or	a6, a2, a2
	movi	a2, 12			# read
	syscall
	retw

	.global	system_write
	.p2align 2
system_write:
	entry	a1, 32
	or	a6, a2, a2
	movi	a2, 13			# write
	syscall
	retw
