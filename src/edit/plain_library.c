/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "edit/plain.h"
#include "model/plain_values.h"

#include <stdio.h>
#include <string.h>

/* Small things of the standard library and of others, as text. */

static const struct ckpt_value *new_text(struct ckpt_model *to, const char *text)
{
	return ckpt_model_new_str(to, text, strlen(text));
}

/* PosixPath('/', 'a', 'b') or ('/a/b',) */
static const struct ckpt_value *from_path(struct ckpt_model *to, const struct ckpt_value *v)
{
	struct ckpt_buf path = { 0 };
	const struct ckpt_value *text = NULL;

	for (uint32_t i = 0; i < ckpt_plain_arg_count(to, v); i++) {
		const struct ckpt_value *part = ckpt_plain_arg(to, v, i);

		if (!part || part->kind != CKPT_STR) {
			ckpt_buf_clear(&path);
			return NULL;
		}
		if (path.len && path.data[path.len - 1] != '/')
			ckpt_buf_add_u8(&path, '/');
		ckpt_buf_add(&path, part->u.bytes.ptr, part->u.bytes.len);
	}
	if (!path.len)
		ckpt_buf_add_u8(&path, '.');
	if (!path.bad)
		text = ckpt_model_new_str(to, (const char *)path.data, path.len);
	ckpt_buf_clear(&path);
	return text;
}

/* As isoformat() writes them; only those without a time zone have one argument. */
static const struct ckpt_value *from_date(struct ckpt_model *to, const struct ckpt_value *v,
					  const char *name)
{
	const struct ckpt_value *data = ckpt_plain_arg(to, v, 0);
	const uint8_t *b;
	unsigned micro;
	char text[40];
	uint64_t len;
	int n = 0;

	if (!data || ckpt_plain_arg_count(to, v) != 1 || !ckpt_plain_bytes(to, data, &b, &len))
		return NULL;
	if (len != (!strcmp(name, "datetime") ? 10u : !strcmp(name, "date") ? 4u : 6u))
		return NULL;
	if (strcmp(name, "time"))
		n = snprintf(text, sizeof(text), "%04u-%02u-%02u", b[0] * 256u + b[1], b[2] & 0x7Fu,
			     b[3]);
	if (!strcmp(name, "date"))
		return new_text(to, text);
	b += !strcmp(name, "datetime") ? 4 : 0;
	micro = b[3] * 65536u + b[4] * 256u + b[5];
	snprintf(text + n, sizeof(text) - (size_t)n,
		 micro ? "%s%02u:%02u:%02u.%06u" : "%s%02u:%02u:%02u", n ? "T" : "", b[0] & 0x7Fu,
		 b[1], b[2], micro);
	return new_text(to, text);
}

/* The first argument, if it is the text that the object stands for. */
static const struct ckpt_value *text_argument(struct ckpt_model *to, const struct ckpt_value *v)
{
	const struct ckpt_value *text = ckpt_plain_arg(to, v, 0);

	return ckpt_plain_arg_count(to, v) == 1 && text && text->kind == CKPT_STR ? text : NULL;
}

const struct ckpt_value *ckpt_plain_from_library(struct ckpt_model *to, const struct ckpt_value *v,
						 const struct ckpt_global *g)
{
	if (!strncmp(g->module, "pathlib", 7) && strstr(g->name, "Path"))
		return from_path(to, v);
	if (!strcmp(g->module, "datetime") &&
	    (!strcmp(g->name, "datetime") || !strcmp(g->name, "date") || !strcmp(g->name, "time")))
		return from_date(to, v, g->name);
	if ((!strcmp(g->module, "decimal") && !strcmp(g->name, "Decimal")) ||
	    !strcmp(g->name, "TorchVersion"))
		return text_argument(to, v);
	if (!strcmp(g->module, "numpy") && !strcmp(g->name, "dtype"))
		return ckpt_plain_arg(to, v, 0);
	return NULL;
}
