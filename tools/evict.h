/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_EVICT_H
#define CKPT_TOOLS_EVICT_H

#include "command.h"

/* 'ckpt broadcast --evict', whose options are texts as they were given, or NULL. */
struct evict_wish {
	const char *older_than, *keep_free, *json;
	bool dry_run;
};

/* Returns the exit code: 0 done, 1 not as much is free as --keep-free wants, 2 something could not be looked at or removed. */
int run_evict(const struct evict_wish *wish, char *const *folders, int count);

#endif
