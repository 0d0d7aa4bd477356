/* SPDX-License-Identifier: Apache-2.0 */
#include "why/rules.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

bool ckpt_names_add(struct ckpt_names *names, const char *name)
{
	bool there;
	void *grown = ckpt_grow(names->items, names->count, &names->cap, sizeof(*names->items));

	if (!grown)
		return false;
	names->items = grown;
	if (!ckpt_strmap_insert(&names->by_name, name, strlen(name), names->count, &there))
		return false;
	if (!there)
		names->items[names->count++] = name;
	return true;
}

bool ckpt_names_have(const struct ckpt_names *names, const char *name)
{
	return ckpt_strmap_find(&names->by_name, name, strlen(name)) != NULL;
}

void ckpt_names_clear(struct ckpt_names *names)
{
	free(names->items);
	ckpt_strmap_clear(&names->by_name);
	*names = (struct ckpt_names){ 0 };
}

const char *ckpt_names_show(struct ckpt_why *w, const struct ckpt_names *names)
{
	const char *text = "";

	for (uint32_t i = 0; i < names->count && i < 3; i++)
		text = ckpt_why_print(w, "%s%s'%s'", text, i ? ", " : "",
				      ckpt_why_show(w, names->items[i]));
	return names->count > 3 ? ckpt_why_print(w, "%s and %u more", text, names->count - 3)
				: text;
}
