/* SPDX-License-Identifier: MIT */
/* quern/version.h - the version of these headers, and of the library in use. */
#ifndef QUERN_VERSION_H
#define QUERN_VERSION_H

#include "quern/export.h"

#define QUERN_VERSION_MAJOR 0
#define QUERN_VERSION_MINOR 1
#define QUERN_VERSION_PATCH 0
#define QUERN_VERSION "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that was linked, for example "0.1.0". A static string. */
QUERN_API const char *quern_version(void);

#ifdef __cplusplus
}
#endif
#endif
