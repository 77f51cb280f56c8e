/* SPDX-License-Identifier: MIT */
/* script.h - a Lua script for EVALSHA and EVAL. */
#ifndef QN_REDIS_SCRIPT_H
#define QN_REDIS_SCRIPT_H

#include <stddef.h>

/* scripts/embed_lua makes qn_lua_<file name> of a .lua file. */
struct qn_script {
    const char *name;
    const char *text;
    size_t size;
    char sha1[41];
};

#endif
