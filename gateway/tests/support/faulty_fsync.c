// SPDX-License-Identifier: MIT
// Preloaded into a process: makes fsync and fdatasync fail with EIO, now and then, while the file $FAULTY_FSYNC_WHILE exists.
// $FAULTY_FSYNC_PERCENT of the calls fail. $FAULTY_FSYNC_SEED decides which ones.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

typedef int sync_call(int);

static atomic_uint_fast64_t calls;

// Return the number in an environment variable, 0 without it.
static uint64_t number_in(const char *name) {
  const char *text = getenv(name);
  return text == NULL ? 0 : strtoull(text, NULL, 10);
}

// splitmix64: the n-th call has the same fate in every run.
static uint64_t mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

static int sync_or_fail(const char *name, int file) {
  const char *condition = getenv("FAULTY_FSYNC_WHILE");
  if (condition != NULL && access(condition, F_OK) == 0) {
    uint64_t call = atomic_fetch_add(&calls, 1);
    if (mixed(mixed(number_in("FAULTY_FSYNC_SEED")) + call) % 100 < number_in("FAULTY_FSYNC_PERCENT")) {
      errno = EIO;
      return -1;
    }
  }
  sync_call *real;
  *(void **)&real = dlsym(RTLD_NEXT, name);
  return real(file);
}

int fsync(int file) { return sync_or_fail("fsync", file); }
int fdatasync(int file) { return sync_or_fail("fdatasync", file); }
