/* SPDX-License-Identifier: MIT */
/* hint.h - the verb of quern for a word that other programs have. */
#ifndef QN_CLI_HINT_H
#define QN_CLI_HINT_H

/* The correct word in place of `word` after `noun` ("": as the first word); NULL: not known. */
const char *qn_hint_find(const char *noun, const char *word);

#endif
