/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libckpt: PyTorch checkpoints without Python. Start with ckpt_open() in model.h.
 *
 * Threads
 *
 * Any number of threads may use the library at the same time. Each object says what several threads
 * may do with it; with a model, everything except closing it.
 *
 * Some calls start threads, which take no signals and end before the call does. `threads` in a
 * struct of options says how many work at once, including the caller's: 1 starts none; 0 is as many
 * as the process may use processors, at most 4; more than 64 counts as 64. What is written and
 * found does not depend on it. The thread that made the call calls `progress`, and all other
 * callbacks that do not say something else.
 *
 * `cancel` in a struct of options is NULL or points to an int of the caller's. Another thread or a
 * signal handler may set it at any time; a call that finds it not 0 stops soon, leaves nothing
 * behind and returns CKPT_E_CANCELLED. The library reads it as an atomic number and never writes to
 * it. It must exist until the call returns.
 *
 * Structs and versions
 *
 * A struct that begins with `size_t size` may grow at its end; initialize it with its
 * CKPT_..._INIT, or with sizeof() if there is none. So a program may be older or newer than the
 * library that it runs with:
 *
 *   - An older program has a shorter struct. Options that it lacks have their defaults, and it gets
 *     as much of a report as it has room for.
 *   - A newer program has a longer struct. The library accepts options whose unknown end is all 0,
 *     which is the default of every new member; anything else is CKPT_E_ARG. The unknown end of a
 *     report becomes 0. So do `reserved` members, which must be 0 in options.
 *   - A flag that the library does not know is CKPT_E_ARG.
 *   - In a struct that the library gives to a callback, `size` says how much of it there is.
 *
 * Members keep their place and meaning. New ones come last, or take bytes of `reserved`: such a
 * struct has no padding at its end, which an older program would leave undefined. Other structs,
 * among them struct ckpt_error, do not change any more, and enums only get new values.
 *
 * Manners
 *
 * The library prints nothing, never ends the process and starts no program. It does not touch the
 * environment, locale, umask, working folder, signals or random numbers of the process. It reads
 * the environment only for broadcasts, GPUs and plug-ins. Numbers and messages are the same in
 * every locale. The one exception: CKPT_BROADCAST_MAY_EXIT.
 */
#ifndef CKPT_CKPT_H
#define CKPT_CKPT_H

#include <ckpt/broadcast.h>
#include <ckpt/build.h>
#include <ckpt/container.h>
#include <ckpt/dcp.h>
#include <ckpt/diff.h>
#include <ckpt/dis.h>
#include <ckpt/edit.h>
#include <ckpt/error.h>
#include <ckpt/find.h>
#include <ckpt/gpu.h>
#include <ckpt/model.h>
#include <ckpt/node.h>
#include <ckpt/parts.h>
#include <ckpt/quant.h>
#include <ckpt/read.h>
#include <ckpt/repair.h>
#include <ckpt/save.h>
#include <ckpt/scan.h>
#include <ckpt/stat.h>
#include <ckpt/storage.h>
#include <ckpt/text.h>
#include <ckpt/verify.h>
#include <ckpt/version.h>
#include <ckpt/why.h>

#endif
