/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_UCX_ABORT_GUARD_H
#define CKPT_BROADCAST_UCX_ABORT_GUARD_H

#include <stdbool.h>

/*
 * UCX answers some failures of the other side by an assertion, and that by abort(). In a guarded call this comes back to
 * the caller, who must leave alone all that was called: its locks may be held.
 *
 * SIGABRT is taken while anybody has the guard, and whoever had it before gets what is none of the guard's.
 */
void ckpt_ucx_guard_take(void);
void ckpt_ucx_guard_give_back(void); /* once for each take */

/* False: CALL has come to abort(). */
bool ckpt_ucx_guard_run(void (*call)(void *), void *ctx);

#endif
