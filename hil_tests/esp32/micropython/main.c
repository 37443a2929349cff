/* SPDX-License-Identifier: MIT */
/* MicroPython's core as a program under qemu-xtensa: a raw REPL on standard input and output, and import from the current folder. It is
 * there to load the ESP32's native module the way the ESP32 does. */
#include <stdarg.h>
#include <string.h>

#include "missing_instructions.h"
#include "py/builtin.h"
#include "py/compile.h"
#include "py/gc.h"
#include "py/lexer.h"
#include "py/mperrno.h"
#include "py/mphal.h"
#include "py/objexcept.h"
#include "py/pystack.h"
#include "py/reader.h"
#include "py/runtime.h"
#include "py/stackctrl.h"
#include "system.h"

static char heap[4 << 20] __attribute__((aligned(16)));
static char python_stack[64 << 10] __attribute__((aligned(16)));
static const char *stack_top;

enum { SAVED_BELOW_FRAME = 16 }; /* bytes, with registers of the caller: see windows.s */

/* ---- What the core asks of a port ---- */

void gc_collect(void) {
  spill_windows();
  const char *stack = (const char *)__builtin_frame_address(0) - SAVED_BELOW_FRAME;
  gc_collect_start();
  gc_collect_root((void **)stack, (size_t)(stack_top - stack) / sizeof(void *));
  gc_collect_end();
}

void nlr_jump_fail(void *value) {
  (void)value;
  system_exit(70);
}

mp_uint_t mp_hal_stdout_tx_strn(const char *text, size_t len) { return (mp_uint_t)system_write(1, text, len); }

void mp_hal_stdout_tx_strn_cooked(const char *text, size_t len) { mp_hal_stdout_tx_strn(text, len); }

/* ---- Files ---- */

mp_import_stat_t mp_import_stat(const char *path) {
  long file = system_open(path, 0, 0);
  if (file < 0) return MP_IMPORT_STAT_NO_EXIST;
  char byte;
  bool readable = system_read((int)file, &byte, 1) >= 0; /* a folder is not */
  system_close((int)file);
  return readable ? MP_IMPORT_STAT_FILE : MP_IMPORT_STAT_DIR;
}

static mp_uint_t read_byte(void *file) {
  uint8_t byte;
  return system_read((int)file, &byte, 1) == 1 ? byte : MP_READER_EOF;
}

static void close_file(void *file) { system_close((int)file); }

void mp_reader_new_file(mp_reader_t *reader, qstr name) {
  long file = system_open(qstr_str(name), 0, 0);
  if (file < 0) mp_raise_OSError(MP_ENOENT);
  reader->data = (void *)file;
  reader->readbyte = read_byte;
  reader->close = close_file;
}

mp_lexer_t *mp_lexer_new_from_file(qstr name) {
  mp_reader_t reader;
  mp_reader_new_file(&reader, name);
  return mp_lexer_new(name, reader);
}

/* ---- The workers of variadic.s ---- */

int print_words(const unsigned *words) { return mp_vprintf((const mp_print_t *)words[0], (const char *)words[1], words + 2); }

int print_to_console_words(const unsigned *words) { return mp_vprintf(&mp_plat_print, (const char *)words[0], words + 1); }

void vstr_print_words(const unsigned *words) { vstr_vprintf((vstr_t *)words[0], (const char *)words[1], words + 2); }

mp_obj_t exception_words(const unsigned *words) {
  return mp_obj_new_exception_msg_vlist((const mp_obj_type_t *)words[0], (mp_rom_error_text_t)words[1], words + 2);
}

NORETURN void raise_words(const unsigned *words) { nlr_raise(exception_words(words)); }

/* ---- The raw REPL: code up to Ctrl-D, then OK, output, Ctrl-D, traceback, Ctrl-D, > ---- */

enum { CTRL_A = 1, CTRL_C = 3, CTRL_D = 4 };

static void say(const char *text) { mp_hal_stdout_tx_strn(text, strlen(text)); }

static void run(const vstr_t *code) {
  nlr_buf_t nlr;
  say("OK");
  if (nlr_push(&nlr) == 0) {
    mp_lexer_t *lexer = mp_lexer_new_from_str_len(MP_QSTR__lt_stdin_gt_, code->buf, code->len, 0);
    mp_parse_tree_t tree = mp_parse(lexer, MP_PARSE_FILE_INPUT);
    mp_call_function_0(mp_compile(&tree, MP_QSTR__lt_stdin_gt_, false));
    nlr_pop();
    say("\x04");
  } else {
    say("\x04");
    mp_obj_print_exception(&mp_plat_print, MP_OBJ_FROM_PTR(nlr.ret_val));
  }
  say("\x04>");
}

/* Not inlined: main's own frame is above stack_top, where the garbage collector does not look. */
static MP_NOINLINE void serve(void) {
  vstr_t code;
  vstr_init(&code, 4096);
  for (mp_uint_t byte; (byte = read_byte(0)) != MP_READER_EOF;) {
    if (byte == CTRL_A) {
      say("raw REPL; CTRL-B to exit\r\n>");
      vstr_reset(&code);
    } else if (byte == CTRL_D) {
      run(&code);
      vstr_reset(&code);
    } else if (byte != CTRL_C) {
      vstr_add_byte(&code, (uint8_t)byte);
    }
  }
}

int main(void) {
  stack_top = __builtin_frame_address(0);
  emulate_missing_instructions();
  mp_stack_ctrl_init();
  mp_stack_set_limit(1 << 20);
  mp_pystack_init(python_stack, python_stack + sizeof python_stack);
  gc_init(heap, heap + sizeof heap);
  mp_init();
  serve();
  return 0;
}
