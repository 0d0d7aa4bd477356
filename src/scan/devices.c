/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of devices on which torch makes tensors.
 *
 * What must stay true: of a name that is not here torch imports a module, or ends the process.
 */
#include "base/ascii.h"
#include "scan/walk.h"

#include <string.h>

enum { MOST_DEVICE = 12 };

/* "cuda:1", or no number. torch keeps the last eight bits of an index, and of -1 that there is none; 1.7 kept sixteen. */
static bool keeps_index(const struct ckpt_value *name)
{
	bool is_text = name->kind == CKPT_STR || name->kind == CKPT_PY2_STR;
	uint64_t len = is_text ? name->u.bytes.len : 0, start = len;
	int64_t index = 0;

	while (start && ckpt_is_digit((unsigned char)name->u.bytes.ptr[start - 1]))
		start--;
	for (; start < len && index <= INT8_MAX; start++)
		index = index * 10 + (name->u.bytes.ptr[start] - '0');
	return index <= INT8_MAX;
}

bool ckpt_scan_keeps_device(const struct ckpt_value *args)
{
	const struct ckpt_value *name = ckpt_scan_arg(args, 0), *index = ckpt_scan_arg(args, 1);

	return (!name || keeps_index(name)) && (!index || index->kind != CKPT_INT || (index->u.integer >= 0 && index->u.integer <= INT8_MAX));
}

/*
 * "cuda", "cuda:1". torch has names of devices that it was built without: to make a tensor on
 * 'vulkan' or 'metal' ends the process, for others it imports a module of that name.
 */
static bool is_name_of_device(const struct ckpt_value *v)
{
	static const char *const names[] = { "cpu", "cuda", "hip", "ipu", "lazy", "maia", "meta", "mps", "mtia", "ort", "xla", "xpu" };
	const char *text = v->u.bytes.ptr;
	uint64_t len;

	if ((v->kind != CKPT_STR && v->kind != CKPT_PY2_STR) || v->u.bytes.len > MOST_DEVICE || !keeps_index(v))
		return false;
	for (len = v->u.bytes.len; len && ckpt_is_digit((unsigned char)text[len - 1]);)
		len--;
	len = len && len < v->u.bytes.len && text[len - 1] == ':' ? len - 1 : v->u.bytes.len;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i]) == len && !memcmp(names[i], text, len))
			return true;
	return false;
}

bool ckpt_scan_is_on_device(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	if (v->kind == CKPT_CALL && ckpt_scan_type(w, v) == CKPT_TYPE_DEVICE && v->u.call->args->kind == CKPT_TUPLE)
		v = ckpt_scan_arg(v->u.call->args, 0);
	return v && is_name_of_device(v);
}
