/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_TC_PATH_H
#define CKPT_SET_TC_PATH_H

#include "pickle/value.h"

/*
 * One step on the way to a value: a dict's key, or a number: of a list's item, or a dict's key,
 * too.
 */
struct ckpt_tc_step {
	const char *key; /* UTF-8, lone surrogates allowed; NULL: a number */
	size_t len;
	int64_t number;
};

/*
 * '["state",0,"exp_avg"]', a list of strings and integers in JSON, as Python's json.dumps() writes
 * it. The steps are in ARENA. Returns 0; CKPT_E_FORMAT, with what was found; CKPT_E_LIMIT,
 * CKPT_E_NOMEM.
 */
int ckpt_tc_path_parse(const struct ckpt_value *text, struct ckpt_arena *arena,
		       const struct ckpt_tc_step **steps, uint32_t *count, struct ckpt_error *err);

#endif
