/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_JOB_PMIX_PLUGIN_H
#define CKPT_JOB_PMIX_PLUGIN_H

#include "job/rendezvous.h"

/*
 * libpmix is not everywhere: what talks to it is a library of its own, ckpt-pmix.so. This is all
 * that it has.
 */
enum { CKPT_PMIX_PLUGIN_VERSION = 2 };

/* VERSION: the one above, of who calls. */
typedef int ckpt_pmix_open(int version, const struct ckpt_world *world,
			   struct ckpt_rendezvous **out, struct ckpt_error *err);
#define CKPT_PMIX_OPEN_NAME "ckpt_pmix_open"

#endif
