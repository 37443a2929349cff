/* SPDX-License-Identifier: MIT */
/* No names beyond those in the sources. */
