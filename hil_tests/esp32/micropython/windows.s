# SPDX-License-Identifier: MIT
# Register windows: writing them all to the stack, and non-local jumps.
#
# A function called by call8 keeps its caller's registers in the window before its own. When windows run out, a caller's a0-a3 go to the
# 16 bytes below its callee's stack pointer, and its a4-a7 to the 16 bytes below those under the stack pointer of its own caller.

	.text

# void spill_windows(void): after it, the registers of every caller are on the stack.
	.global	spill_windows
	.p2align 2
spill_windows:
.Lspill:
	entry	a1, 32
	movi	a10, 10			# windows of 8: more than any core has
	call8	descend
	retw

	.p2align 2
descend:
	entry	a1, 32
	beqz	a2, .Lbottom
	addi	a10, a2, -1
	call8	descend
.Lbottom:
	retw

# int setjmp(jmp_buf): the return address, the stack pointer, and the caller's a0-a7 from where the overflow has written them.
	.global	setjmp
	.p2align 2
setjmp:
	entry	a1, 32
	call8	.Lspill
	s32i	a0, a2, 0
	s32i	a1, a2, 4
	addi	a3, a1, -16
	l32i	a4, a3, 4		# the caller's stack pointer
	addi	a4, a4, -12
	l32i	a4, a4, 0		# its caller's
	addi	a4, a4, -32
	addi	a6, a2, 8
	addi	a7, a2, 24
	.irp	offset, 0, 4, 8, 12
	l32i	a5, a3, \offset
	s32i	a5, a6, \offset
	l32i	a5, a4, \offset
	s32i	a5, a7, \offset
	.endr
	movi	a2, 0
	retw

# void longjmp(jmp_buf, int): put them back there, take the place of setjmp's frame, and return: the underflow loads them.
	.global	longjmp
	.p2align 2
longjmp:
	entry	a1, 32
	call8	.Lspill
	l32i	a0, a2, 0
	l32i	a1, a2, 4
	addi	a7, a1, -16
	l32i	a4, a2, 12		# the stack pointer of setjmp's caller
	addi	a4, a4, -12
	l32i	a4, a4, 0
	addi	a4, a4, -32
	addi	a6, a2, 8
	addi	a2, a2, 24
	.irp	offset, 0, 4, 8, 12
	l32i	a5, a6, \offset
	s32i	a5, a7, \offset
	l32i	a5, a2, \offset
	s32i	a5, a4, \offset
	.endr
	or	a2, a3, a3
	retw
