/* SPDX-License-Identifier: MIT */
/* options.h - the options of a worker, checked and copied. */
#ifndef QN_WORKER_OPTIONS_H
#define QN_WORKER_OPTIONS_H

#include "quern/worker.h"

QUERN_NODISCARD quern_status qn_options_read(struct quern_worker *worker, const char *url,
                                             const quern_worker_options *options,
                                             size_t options_size, quern_error *err);
/* Also where read failed. */
void qn_options_finish(struct quern_worker *worker);

#endif
