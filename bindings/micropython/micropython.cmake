# SPDX-License-Identifier: MIT
# Peel as a user C module for ports built with CMake: -DUSER_C_MODULES=<this repository>/bindings/micropython/micropython.cmake
add_library(usermod_peelcore INTERFACE)
target_sources(usermod_peelcore INTERFACE
    ${CMAKE_CURRENT_LIST_DIR}/peelcore.c
    ${CMAKE_CURRENT_LIST_DIR}/core.c
)
target_include_directories(usermod_peelcore INTERFACE ${CMAKE_CURRENT_LIST_DIR}/../../c_core/include)
target_link_libraries(usermod INTERFACE usermod_peelcore)
