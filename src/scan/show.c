/* SPDX-License-Identifier: Apache-2.0 */
#include "scan/walk.h"

#include "base/double.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_ARGS = 6, SHOWN = 72 };

static void show_one(const struct ckpt_value *v, char *buf, size_t size)
{
	char text[SHOWN];

	switch (v->kind) {
	case CKPT_STR:
	case CKPT_PY2_STR:
	case CKPT_BYTES:
	case CKPT_BYTEARRAY:
		snprintf(buf, size, "%s'%s'", v->kind >= CKPT_BYTES ? "b" : "",
			 ckpt_escape(text, sizeof(text), v->u.bytes.ptr, v->u.bytes.len));
		break;
	case CKPT_INT: snprintf(buf, size, "%" PRId64, v->u.integer); break;
	case CKPT_FLOAT: ckpt_double_format(buf, size, 6, v->u.real); break;
	case CKPT_BOOL: snprintf(buf, size, "%s", v->u.integer ? "True" : "False"); break;
	case CKPT_NONE: snprintf(buf, size, "None"); break;
	case CKPT_GLOBAL: ckpt_scan_show_global(v->u.global, buf, size); break;
	default: snprintf(buf, size, "%s ...", ckpt_value_kind_name(v)); break;
	}
}

const char *ckpt_scan_show_args(const struct ckpt_value *args, char *buf, size_t size)
{
	size_t used = 0;
	char one[SHOWN + 8];

	if (args->kind != CKPT_TUPLE) {
		snprintf(buf, size, "(*%s)", ckpt_value_kind_name(args));
		return buf;
	}
	used += (size_t)snprintf(buf, size, "(");
	for (uint32_t i = 0; i < args->u.seq.count; i++) {
		show_one(args->u.seq.items[i], one, sizeof(one));
		if (i == MOST_ARGS || used + strlen(one) + 8 > size) {
			used += (size_t)snprintf(buf + used, size - used, "%s...", i ? ", " : "");
			break;
		}
		used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? ", " : "", one);
	}
	snprintf(buf + used, size - used, ")");
	return buf;
}
