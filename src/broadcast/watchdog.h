/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_WATCHDOG_H
#define CKPT_BROADCAST_WATCHDOG_H

#include <stdint.h>

/*
 * For calls of libraries that may wait for a lost rank forever, as MPI_Init and MPI_Finalize do: if
 * they do not come back in time, TEXT goes to standard error and the process ends with CODE. NULL,
 * which may be stopped, if no thread could be started.
 */
struct ckpt_watchdog;

struct ckpt_watchdog *ckpt_watchdog_start(uint64_t nsec, int code, const char *text);
void ckpt_watchdog_stop(struct ckpt_watchdog *watchdog);

#endif
