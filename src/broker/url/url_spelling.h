/* SPDX-License-Identifier: MIT */
/* url_spelling.h - broker URLs as other libraries write them. */
#ifndef QN_BROKER_URL_URL_SPELLING_H
#define QN_BROKER_URL_URL_SPELLING_H

#include <stdbool.h>

#include "base/text/url.h"

/* Where redis-py, Kombu or Valkey have another word for a scheme or a parameter and mean the same,
 * puts ours in its place. */
void qn_url_spelling_resolve(struct qn_url *url);
/* Whether the text begins with a scheme of a server, ours or theirs. */
bool qn_url_spelling_is_server(const char *text);

#endif
