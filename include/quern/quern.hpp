/* SPDX-License-Identifier: MIT */
/* quern/quern.hpp - the same for C++17 and later: nothing but inline code over the C headers.
 *
 *   Objects     own what they open, and free it. They can be moved, not copied. get() gives the C
 *               object for what is not here (say, quern_client_enqueue_tx).
 *   Errors      A call throws quern::error, which has a status and a text. Each has a form that
 *               does not: it takes a quern_error & last and returns the quern_status.
 *   Handlers    are whatever can be called, lambdas with captures too, with (run &, const task_view
 *               &) or with less. They return an outcome, or nothing: done. An exception that leaves
 *               one becomes a retry with what() as its text; none ever crosses C.
 *   Times       are std::chrono's; zero is the default, as in C.
 *
 * Threads and lifetimes are as in the C headers. */
#ifndef QUERN_QUERN_HPP
#define QUERN_QUERN_HPP

#include "quern/client.hpp"
#include "quern/inspector.hpp"
#include "quern/mux.hpp"
#include "quern/quern.h"
#include "quern/task.hpp"
#include "quern/worker.hpp"

#endif
