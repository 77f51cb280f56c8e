/* SPDX-License-Identifier: MIT */
/* url_advice.h - broker URLs that are refused with the right way to write them. */
#ifndef QN_BROKER_URL_URL_ADVICE_H
#define QN_BROKER_URL_URL_ADVICE_H

#include "base/text/url.h"

/* QUERN_E_INVALID, QUERN_E_UNSUPPORTED: it is a likely mistake; the error shows the right spelling,
 * and no password. Unknown schemes are left to the caller. */
QUERN_NODISCARD quern_status qn_url_advice(const struct qn_url *url, quern_error *err);

#endif
