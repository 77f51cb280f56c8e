/* SPDX-License-Identifier: MIT */
/* quern/export.h - attributes that the other public headers use. */
#ifndef QUERN_EXPORT_H
#define QUERN_EXPORT_H

#define QUERN_API __attribute__((__visibility__("default")))
#define QUERN_NODISCARD __attribute__((__warn_unused_result__))
#define QUERN_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))

#endif
