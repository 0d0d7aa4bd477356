/* SPDX-License-Identifier: Apache-2.0 */
#include "scan/walk.h"

#include "base/double.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_ARGS = 6, MOST_DEPTH = 2, SHOWN = 72, SHOWN_INSIDE = 48 };

static size_t show_items(const struct ckpt_value *v, char *buf, size_t size, int depth);

/* Of V, in brackets of its kind; nothing is shown of what is deeper than MOST_DEPTH. */
static void show_container(const struct ckpt_value *v, char *buf, size_t size, int depth)
{
	const char *brackets = v->kind == CKPT_LIST ? "[]" : v->kind == CKPT_TUPLE ? "()" : "{}";
	bool lone = v->kind == CKPT_TUPLE && v->u.seq.count == 1;
	size_t used;

	if (depth >= MOST_DEPTH) {
		snprintf(buf, size, "%c...%c", brackets[0], brackets[1]);
		return;
	}
	buf[0] = brackets[0];
	used = 1 + show_items(v, buf + 1, size - 4, depth + 1);
	snprintf(buf + used, size - used, "%s%c", lone ? "," : "", brackets[1]);
}

static void show_one(const struct ckpt_value *v, char *buf, size_t size, int depth)
{
	char text[SHOWN];

	switch (v->kind) {
	case CKPT_STR:
	case CKPT_PY2_STR:
	case CKPT_BYTES:
	case CKPT_BYTEARRAY:
		snprintf(buf, size, "%s'%s'", v->kind >= CKPT_BYTES ? "b" : "",
			 ckpt_escape(text, depth ? SHOWN_INSIDE : SHOWN, v->u.bytes.ptr,
				     v->u.bytes.len));
		break;
	case CKPT_INT: snprintf(buf, size, "%" PRId64, v->u.integer); break;
	case CKPT_FLOAT: ckpt_double_format(buf, size, 6, v->u.real); break;
	case CKPT_BOOL: snprintf(buf, size, "%s", v->u.integer ? "True" : "False"); break;
	case CKPT_NONE: snprintf(buf, size, "None"); break;
	case CKPT_GLOBAL: ckpt_scan_show_global(v->u.global, buf, size); break;
	case CKPT_TUPLE:
	case CKPT_LIST:
	case CKPT_DICT: show_container(v, buf, size, depth); break;
	default: snprintf(buf, size, "%s ...", ckpt_value_kind_name(v)); break;
	}
}

/* The items of V between commas, as many as SIZE holds. Returns how many bytes they are. */
static size_t show_items(const struct ckpt_value *v, char *buf, size_t size, int depth)
{
	char one[SHOWN + 8];
	size_t used = 0;

	buf[0] = '\0';
	for (uint32_t i = 0; i < v->u.seq.count; i++) {
		bool is_value = v->kind == CKPT_DICT && i % 2;

		show_one(v->u.seq.items[i], one, sizeof(one), depth);
		if (i == MOST_ARGS || used + strlen(one) + 8 > size) {
			used += (size_t)snprintf(buf + used, size - used, "%s...",
						 is_value ? ": "
						 : i	  ? ", "
							  : "");
			break;
		}
		used += (size_t)snprintf(buf + used, size - used, "%s%s",
					 is_value ? ": "
					 : i	  ? ", "
						  : "",
					 one);
	}
	return used;
}

const char *ckpt_scan_show_args(const struct ckpt_value *args, char *buf, size_t size)
{
	size_t used;

	if (args->kind != CKPT_TUPLE) {
		snprintf(buf, size, "(*%s)", ckpt_value_kind_name(args));
		return buf;
	}
	buf[0] = '(';
	used = 1 + show_items(args, buf + 1, size - 2, 0);
	snprintf(buf + used, size - used, ")");
	return buf;
}
