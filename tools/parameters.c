/* SPDX-License-Identifier: Apache-2.0 */
#include "parameters.h"

#include "grow.h"
#include "json.h"

#include <stdlib.h>
#include <string.h>

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int parameter_names_add(struct parameter_names *names, const struct ckpt_model *model, struct ckpt_error *err)
{
	struct ckpt_parts *parts;
	int rc = ckpt_parts_new(model, &parts, err);

	if (rc < 0)
		return rc;
	for (uint64_t i = 0; i < ckpt_tensor_count(model); i++) {
		struct ckpt_tensor_info t = CKPT_TENSOR_INFO_INIT;
		const char **grown;

		if (ckpt_parts_of(parts, i) != CKPT_PART_PARAMETER)
			continue;
		grown = grow_array(names->names, names->count, &names->cap, sizeof(*grown));
		if (!grown)
			no_memory();
		names->names = grown;
		ckpt_tensor_get(model, i, &t);
		names->names[names->count++] = t.name;
	}
	ckpt_parts_free(parts);
	if (names->count)
		qsort(names->names, names->count, sizeof(*names->names), by_text);
	return 0;
}

bool takes_parameter(void *ctx, const char *name)
{
	const struct parameter_names *names = ctx;

	return names->count && bsearch(&name, names->names, names->count, sizeof(*names->names), by_text);
}

void parameter_names_clear(struct parameter_names *names)
{
	free(names->names);
	*names = (struct parameter_names){ 0 };
}
