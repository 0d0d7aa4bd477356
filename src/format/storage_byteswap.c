/* SPDX-License-Identifier: Apache-2.0 */
#include "format/storage_byteswap.h"

#include "tensor/byteswap.h"

#include <string.h>

static int read_order(const char *option, const char *text, bool *is_big, struct ckpt_error *err)
{
	*is_big = !strcmp(text, "big");
	if (*is_big || !strcmp(text, "little"))
		return 0;
	return ckpt_fail(err, CKPT_E_ARG, "%s '%.40s': wanted 'little' or 'big'", option, text);
}

int ckpt_storage_byteswap_choose(const struct ckpt_save_options *options, const char *found,
				 struct ckpt_storage_byteswap *out, struct ckpt_error *err)
{
	int rc = 0;

	*out = (struct ckpt_storage_byteswap){ .from_big = !strcmp(found, "big") };
	if ((options->byteorder || options->from_byteorder) &&
	    !(options->flags & CKPT_SAVE_CANONICAL))
		return ckpt_fail(err, CKPT_E_ARG,
				 "the byte order of a file is changed by a conversion only");
	if (options->from_byteorder)
		rc = read_order("from_byteorder", options->from_byteorder, &out->from_big, err);
	if (rc == 0 && options->byteorder)
		rc = read_order("byteorder", options->byteorder, &out->to_big, err);
	return rc;
}

int ckpt_storage_byteswap_recipe(struct ckpt_storage_byteswap *swap, const struct ckpt_model *model,
				 const struct ckpt_resaved *resaved, uint32_t number,
				 struct ckpt_recipe *recipe, bool *swapped, struct ckpt_error *err)
{
	const struct ckpt_storage *s = &model->storages[number];
	uint32_t width = resaved->widths[number];
	struct ckpt_byteswap *map;

	*swapped = false;
	if (swap->from_big && s->made &&
	    s->retyped) /* made of numbers in the order of this machine */
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"a big-endian file cannot be cast; 'ckpt convert' turns it around");
	if (!ckpt_storage_byteswap_any(swap) || width < 2)
		return 0;
	if (width == CKPT_WIDTHS_DIFFER)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "tensors see numbers of several widths in storage '%.200s': no "
				 "order of its bytes is the other byte order for all of them",
				 s->key);
	map = ckpt_arena_alloc(resaved->arena, sizeof(*map));
	if (!map)
		return ckpt_fail_nomem(err);
	*map = ckpt_byteswap_of(recipe, width);
	*recipe = ckpt_map_recipe(&map->map);
	swap->not_by_torch += ckpt_byteswap_width(s->dtype) != width;
	*swapped = true;
	return 0;
}
