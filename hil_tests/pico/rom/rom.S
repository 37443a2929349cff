/* SPDX-License-Identifier: MIT */
@ A boot ROM for the emulated RP2040: what the pico-sdk expects of one, and no more.
@
@ The first words are the vector table; at 0x10 the SDK finds a magic number and the addresses of two tables and of the function that
@ searches them (RP2040 datasheet, section 2.8.3). Functions in those tables are 16-bit addresses with the Thumb bit set, which
@ rom.ld computes (the names ending in _entry).

    .syntax unified
    .cpu cortex-m0plus
    .thumb

    .section .vectors, "ax"
    .word 0x20041f00                @ stack, below the place where boot2 is copied to
    .word rom_reset
    .word rom_fault                 @ NMI
    .word rom_fault                 @ HardFault
    .byte 'M', 'u', 1, 3            @ magic, and the version of a B2 chip
    .hword rom_functions
    .hword rom_data
    .hword rom_lookup_entry
    .hword 0

    .text

@ Copy the second-stage boot loader from flash to RAM and call it with a return address of 0: it then starts the image by its vectors.
    .thumb_func
    .global rom_reset
rom_reset:
    ldr r0, =0x20041f00
    ldr r1, =0x10000000
    movs r2, #0
copy:
    ldr r3, [r1, r2]
    str r3, [r0, r2]
    adds r2, #4
    cmp r2, #252
    bls copy
    movs r3, #0
    mov lr, r3
    adds r0, #1
    bx r0
    .pool

@ The emulator stops at a breakpoint and says where. 0xf0: a fault; 0xf1: a ROM function that is not here.
    .thumb_func
    .global rom_fault
rom_fault:
    bkpt #0xf0
    b rom_fault

    .thumb_func
    .global rom_missing
rom_missing:
    bkpt #0xf1
    b rom_missing

@ void *lookup(uint16_t *table, uint32_t code): pairs of code and address, ended by a 0.
    .thumb_func
    .global rom_lookup
rom_lookup:
    ldrh r2, [r0]
    cmp r2, #0
    beq absent
    cmp r2, r1
    beq present
    adds r0, #4
    b rom_lookup
present:
    ldrh r0, [r0, #2]
    bx lr
absent:
    movs r0, #0
    bx lr

@ Bit functions. In assembly because the SDK's float code keeps its return address in r12 across the call of clz32.
    .thumb_func
    .global rom_clz32
rom_clz32:
    movs r1, #32
    b 2f
1:  subs r1, #1
    lsrs r0, #1
2:  cmp r0, #0
    bne 1b
    mov r0, r1
    bx lr

    .thumb_func
    .global rom_ctz32
rom_ctz32:
    movs r1, #32
    b 2f
1:  subs r1, #1
    lsls r0, #1
2:  cmp r0, #0
    bne 1b
    mov r0, r1
    bx lr

    .thumb_func
    .global rom_popcount32
rom_popcount32:
    movs r1, #0
    movs r2, #0
1:  lsrs r0, #1
    adcs r1, r2
    cmp r0, #0
    bne 1b
    mov r0, r1
    bx lr

    .thumb_func
    .global rom_reverse32
rom_reverse32:
    movs r1, #0
    movs r2, #32
1:  lsrs r0, #1
    adcs r1, r1
    subs r2, #1
    bne 1b
    mov r0, r1
    bx lr

    .thumb_func
    .global rom_nothing
rom_nothing:
    bx lr

    .macro entry first, second, address
    .byte \first, \second
    .hword \address
    .endm

    .section .tables, "a"
    .align 2
    .global rom_functions
rom_functions:
    entry 'P', '3', rom_popcount32_entry
    entry 'R', '3', rom_reverse32_entry
    entry 'L', '3', rom_clz32_entry
    entry 'T', '3', rom_ctz32_entry
    entry 'M', 'S', rom_memset_entry
    entry 'S', '4', rom_memset_entry
    entry 'M', 'C', rom_memcpy_entry
    entry 'C', '4', rom_memcpy_entry
    entry 'U', 'B', rom_missing_entry       @ reset into USB boot
    entry 'I', 'F', rom_nothing_entry       @ connect the flash
    entry 'E', 'X', rom_nothing_entry       @ leave execute-in-place
    entry 'R', 'E', rom_flash_erase_entry
    entry 'R', 'P', rom_flash_program_entry
    entry 'F', 'C', rom_nothing_entry       @ flush the flash cache
    entry 'C', 'X', rom_nothing_entry       @ enter execute-in-place
    .word 0
    .global rom_data
rom_data:
    entry 'S', 'F', rom_float_table
    entry 'S', 'D', rom_double_table
    .word 0
