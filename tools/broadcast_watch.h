/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_BROADCAST_WATCH_H
#define CKPT_TOOLS_BROADCAST_WATCH_H

#include "command.h"

/* What operators of a cluster watch: progress as lines of JSON on standard error, and a text file for Prometheus. */

/* For ckpt_broadcast_options.progress, with AS_JSON; else show_progress() shows it. Both note how many bytes have arrived. */
void watch_progress(void *ctx, uint64_t done, uint64_t total);
void watch_as_json(void);

/* The last line of progress, if lines of JSON are wanted: how it ended. On rank 0. */
void watch_end(const struct ckpt_broadcast_report *report, const struct ckpt_error *err);

/* Write PATH, which is replaced as a whole. Returns the exit code. */
int write_metrics(const char *path, const struct ckpt_broadcast_report *report);

#endif
