/* SPDX-License-Identifier: MIT */
/* certificates.h - other certificates for a worker that runs. */
#ifndef QN_WORKER_LINK_CERTIFICATES_H
#define QN_WORKER_LINK_CERTIFICATES_H

#include "quern/worker.h"

/* As qn_reload_certificates, for the broker of a worker; QUERN_E_STATE: the worker does not run. */
QUERN_NODISCARD quern_status qn_certificates_renew(quern_worker *worker, quern_error *err);

#endif
