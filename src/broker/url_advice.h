/* SPDX-License-Identifier: MIT */
/* url_advice.h - broker URLs that are refused with the right way to write them. */
#ifndef QN_BROKER_URL_ADVICE_H
#define QN_BROKER_URL_ADVICE_H

#include "base/text/url.h"

/* QUERN_E_INVALID, QUERN_E_UNSUPPORTED: it means something else than it says; the text tells what
 * to write, and shows no password. A scheme that nobody knows is the caller's business. */
QUERN_NODISCARD quern_status qn_url_advice(const struct qn_url *url, quern_error *err);

#endif
