/* SPDX-License-Identifier: MIT */
/* quern/version.h - the version of these headers, and of the library in use. */
#ifndef QUERN_VERSION_H
#define QUERN_VERSION_H

#include "quern/export.h"

#define QUERN_VERSION_MAJOR 0
#define QUERN_VERSION_MINOR 1
#define QUERN_VERSION_PATCH 0
#define QUERN_VERSION "0.1.0"
/* For #if: 1002003 is version 1.2.3. */
#define QUERN_VERSION_NUMBER                                                                       \
    (QUERN_VERSION_MAJOR * 1000000 + QUERN_VERSION_MINOR * 1000 + QUERN_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library in use, which may differ from that of the headers: "0.1.0". A static
 * string. */
QUERN_API const char *quern_version(void);
/* The same as a number that grows with each version, made as QUERN_VERSION_NUMBER is. */
QUERN_API int quern_version_number(void);

#ifdef __cplusplus
}
#endif
#endif
