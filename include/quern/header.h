/* SPDX-License-Identifier: MIT */
/* quern/header.h - a header of a task: a name and a text that travel with it. */
#ifndef QUERN_HEADER_H
#define QUERN_HEADER_H

#ifdef __cplusplus
extern "C" {
#endif

/* You own arrays of this struct, so it never grows. */
typedef struct quern_header {
    const char *name;  /* a name, see quern_task */
    const char *value; /* valid UTF-8, at most 8 KiB; NULL means empty */
} quern_header;

#ifdef __cplusplus
}
#endif
#endif
