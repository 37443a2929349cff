/* SPDX-License-Identifier: MIT */
/* MicroPython's core for a program under qemu-xtensa: compiler, garbage collector, import of files, native code of the ESP32. */
#include <stdint.h>

#define MICROPY_CONFIG_ROM_LEVEL (MICROPY_CONFIG_ROM_LEVEL_CORE_FEATURES)

#define MICROPY_ENABLE_COMPILER (1)
#define MICROPY_ENABLE_GC (1)
#define MICROPY_ENABLE_PYSTACK (1) /* instead of alloca */
#define MICROPY_NLR_SETJMP (1)
#define MICROPY_HAS_FILE_READER (1)
#define MICROPY_PERSISTENT_CODE_LOAD (1)
#define MICROPY_EMIT_XTENSAWIN (1)
#define MICROPY_LONGINT_IMPL (MICROPY_LONGINT_IMPL_MPZ)
#define MICROPY_FLOAT_IMPL (MICROPY_FLOAT_IMPL_NONE)
#define MICROPY_OPT_COMPUTED_GOTO (0)
#define MICROPY_ALLOC_PATH_MAX (256)
#define MICROPY_PY_BINASCII (1)
#define MICROPY_PY_BUILTINS_BYTES_HEX (1)
#define MICROPY_PY_IO (0)
#define MICROPY_PY_SYS_PLATFORM "qemu-xtensa"

typedef intptr_t mp_int_t;
typedef uintptr_t mp_uint_t;
typedef long mp_off_t;

#define MP_STATE_PORT MP_STATE_VM

/* Variadic functions: what MicroPython defines is miscompiled, so the definitions in variadic.s take its place (see stdarg.h). */
#pragma weak mp_printf
#pragma weak mp_obj_new_exception_msg_varg
#pragma weak mp_raise_msg_varg
#pragma weak vstr_printf
