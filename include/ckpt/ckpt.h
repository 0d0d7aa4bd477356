/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libckpt: PyTorch checkpoints without Python. Start with ckpt_open() in model.h.
 *
 * Threads
 *
 * Any number of threads may use the library at the same time. What several may do with one object is
 * said with it; with a model all but close it.
 *
 * Some calls start threads, which take no signals and end before the call does. `threads` in a struct
 * of options says how many work at once, the caller's among them: 1 starts none; 0 is as many as there
 * are processors that the process may use, at most 4; more than 64 are 64. What is written and found
 * does not depend on it. `progress` is called by the thread that made the call, other callbacks too
 * unless they say something else.
 *
 * `cancel` in a struct of options points to an int of the caller's, NULL where there is none. Another
 * thread or a signal handler may set it at any time; a call that finds it not 0 stops soon, leaves
 * nothing behind and returns CKPT_E_CANCELLED. The library reads it as an atomic number and never
 * writes to it. It has to be there until the call returns.
 *
 * Structs and versions
 *
 * A struct that begins with `size_t size` may grow at its end; initialize it with its CKPT_..._INIT, or
 * with sizeof() where there is none. So a program may be older or newer than the library that it runs with:
 *
 *   - An older program has a shorter struct. Options that it does not have are at their defaults, and of
 *     a report it gets what it has room for.
 *   - A newer program has a longer struct. The library takes options whose unknown end is all 0, which
 *     is the default of every new member; anything else is CKPT_E_ARG. The unknown end of a report
 *     becomes 0. So do `reserved` members, which have to be 0 in options.
 *   - A flag that the library does not know is CKPT_E_ARG.
 *   - Of a struct that the library gives to a callback, `size` says what it has.
 *
 * Members keep their place and meaning. New ones come last, or take bytes of `reserved`: there is no
 * padding at the end of such a struct, which an older program would leave undefined. Other structs,
 * struct ckpt_error among them, do not change any more, and enums only get new values.
 *
 * Manners
 *
 * The library prints nothing, ends nothing and starts no program. It does not touch the environment,
 * the locale, the umask, the working folder, signals and random numbers of the process. It reads the
 * environment for broadcasts, GPUs and plug-ins alone. Numbers and messages are the same in every
 * locale. The one exception: CKPT_BROADCAST_MAY_EXIT.
 */
#ifndef CKPT_CKPT_H
#define CKPT_CKPT_H

#include <ckpt/broadcast.h>
#include <ckpt/container.h>
#include <ckpt/dcp.h>
#include <ckpt/diff.h>
#include <ckpt/dis.h>
#include <ckpt/edit.h>
#include <ckpt/error.h>
#include <ckpt/gpu.h>
#include <ckpt/model.h>
#include <ckpt/read.h>
#include <ckpt/repair.h>
#include <ckpt/save.h>
#include <ckpt/scan.h>
#include <ckpt/stat.h>
#include <ckpt/text.h>
#include <ckpt/verify.h>
#include <ckpt/version.h>
#include <ckpt/why.h>

#endif
