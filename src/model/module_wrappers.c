/* SPDX-License-Identifier: Apache-2.0 */
#include "model/module_wrappers.h"

#include <string.h>

enum { MODULE }; /* the number of "module." */

const struct ckpt_module_wrapper ckpt_module_wrappers[CKPT_MODULE_WRAPPERS] = {
	[MODULE] = { "module.", "DistributedDataParallel or DataParallel" },
	{ "_orig_mod.", "torch.compile" },
	{ "_forward_module.", "Lightning's Fabric or its strategies" },
	{ "_fsdp_wrapped_module.", "FSDP" },
	{ "_checkpoint_wrapped_module.", "activation checkpointing" },
};

int ckpt_module_wrapper_at(const char *text, size_t len)
{
	for (int i = 0; i < CKPT_MODULE_WRAPPERS; i++) {
		size_t n = strlen(ckpt_module_wrappers[i].prefix);

		if (len >= n && !memcmp(text, ckpt_module_wrappers[i].prefix, n))
			return i;
	}
	return -1;
}

/* The wrappers that stand in a row at *AT, which goes behind them. */
static unsigned take_row(const char *name, size_t len, size_t *at, bool *again)
{
	unsigned row = 0;

	for (;;) {
		int i = ckpt_module_wrapper_at(name + *at, len - *at);

		if (i < 0)
			return row;
		*again |= (row & 1U << i) != 0;
		row |= 1U << i;
		*at += strlen(ckpt_module_wrappers[i].prefix);
	}
}

void ckpt_wrapper_marks_of(const char *name, size_t len, struct ckpt_wrapper_marks *out)
{
	size_t at = 0;
	const char *dot;

	*out = (struct ckpt_wrapper_marks){ .first = ckpt_module_wrapper_at(name, len) };
	out->front = take_row(name, len, &at, &out->again);
	out->front_len = at;
	while ((dot = memchr(name + at, '.', len - at))) {
		bool again = false;
		unsigned row;

		at = (size_t)(dot - name) + 1;
		row = take_row(name, len, &at, &again);
		if (row == 1U << MODULE) {
			out->own = true;
			continue;
		}
		out->inside |= row;
		out->again |= again;
	}
}

/* Is the component [AT, END) of NAME, behind which a dot may stand, a wrapper's? */
static bool is_wrapper(const char *name, size_t at, size_t end)
{
	for (int i = 0; i < CKPT_MODULE_WRAPPERS; i++) {
		size_t n = strlen(ckpt_module_wrappers[i].prefix) - 1;

		if (end - at == n && !memcmp(name + at, ckpt_module_wrappers[i].prefix, n))
			return true;
	}
	return false;
}

bool ckpt_wrappers_strip(const char *name, size_t len, bool module, struct ckpt_buf *out)
{
	size_t before = out->len, at = 0;
	bool changed = false, any = false;

	for (;;) {
		const char *dot = memchr(name + at, '.', len - at);
		size_t end = dot ? (size_t)(dot - name) : len;

		if ((dot || module) && is_wrapper(name, at, end)) {
			changed = true;
		} else {
			if (any)
				ckpt_buf_add_u8(out, '.');
			ckpt_buf_add(out, name + at, end - at);
			any = true;
		}
		if (!dot)
			break;
		at = end + 1;
	}
	if (out->len == before && !module)
		return false; /* "module.": nothing would be left of it */
	return changed;
}
