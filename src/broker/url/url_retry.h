/* SPDX-License-Identifier: MIT */
/* url_retry.h - what a broker's URL says about trying again while the broker is absent. */
#ifndef QN_BROKER_URL_URL_RETRY_H
#define QN_BROKER_URL_URL_RETRY_H

#include "base/pace.h"

/* All zero: it says nothing, or is wrong, which opening it reports. */
struct qn_pace qn_url_retry(const char *url);

#endif
