/* SPDX-License-Identifier: MIT */
/* The module `rivals`, in a firmware for the benchmark only: one multiplication on the curve P-256, the unit in which signatures,
 * commitments and zero-knowledge proofs are paid for. MicroPython has no way to ask Mbed TLS for it. */
#include "mbedtls/bignum.h"
#include "mbedtls/ecp.h"
#include "py/runtime.h"

/* Blinding wants random numbers; for a count of cycles any will do, and the same ones in every run are best. */
static int fixed_random(void *state, unsigned char *out, size_t len) {
  uint32_t *x = state;
  while (len--) {
    *x = *x * 1664525u + 1013904223u;
    *out++ = (unsigned char)(*x >> 24);
  }
  return 0;
}

static mp_obj_t rivals_p256(void) {
  uint32_t state = 1;
  mbedtls_ecp_group group;
  mbedtls_ecp_point result;
  mbedtls_mpi scalar;
  mbedtls_ecp_group_init(&group);
  mbedtls_ecp_point_init(&result);
  mbedtls_mpi_init(&scalar);
  int error = mbedtls_ecp_group_load(&group, MBEDTLS_ECP_DP_SECP256R1);
  if (!error) error = mbedtls_mpi_fill_random(&scalar, 31, fixed_random, &state);
  if (!error) error = mbedtls_ecp_mul(&group, &result, &scalar, &group.G, fixed_random, &state);
  if (!error) error = mbedtls_ecp_check_pubkey(&group, &result);
  mbedtls_mpi_free(&scalar);
  mbedtls_ecp_point_free(&result);
  mbedtls_ecp_group_free(&group);
  return MP_OBJ_NEW_SMALL_INT(error);
}
static MP_DEFINE_CONST_FUN_OBJ_0(rivals_p256_obj, rivals_p256);

static const mp_rom_map_elem_t rivals_globals_table[] = {
    {MP_ROM_QSTR(MP_QSTR___name__), MP_ROM_QSTR(MP_QSTR_rivals)},
    {MP_ROM_QSTR(MP_QSTR_p256), MP_ROM_PTR(&rivals_p256_obj)},
};
static MP_DEFINE_CONST_DICT(rivals_globals, rivals_globals_table);

const mp_obj_module_t rivals_user_cmodule = {
    .base = {&mp_type_module},
    .globals = (mp_obj_dict_t *)&rivals_globals,
};
MP_REGISTER_MODULE(MP_QSTR_rivals, rivals_user_cmodule);
