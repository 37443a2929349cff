# SPDX-License-Identifier: MIT
# The core's module and the benchmark's.
include(${CMAKE_CURRENT_LIST_DIR}/../../bindings/micropython/micropython.cmake)
add_library(usermod_rivals INTERFACE)
target_sources(usermod_rivals INTERFACE ${CMAKE_CURRENT_LIST_DIR}/rivals.c)
target_link_libraries(usermod INTERFACE usermod_rivals)
