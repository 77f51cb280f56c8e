/* SPDX-License-Identifier: MIT */
/* second_pump.h - the thread of the second pump, for brokers that take two exchanges at a time. */
#ifndef QN_WORKER_FETCH_SECOND_PUMP_H
#define QN_WORKER_FETCH_SECOND_PUMP_H

void *qn_second_pump_main(void *worker);

#endif
