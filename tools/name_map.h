/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_NAME_MAP_H
#define CKPT_TOOLS_NAME_MAP_H

#include <ckpt/ckpt.h>

#include <jansson.h>

/* Old and new names of keys, out of a file. */
struct name_map {
	struct ckpt_name_pair *pairs;
	size_t count;
	size_t *lines; /* of each pair; NULL if it was JSON */
	char *text;    /* holds the names, or JSON does */
	json_t *json;
};

/*
 * The map in the file PATH, "-" for standard input: two columns, or a JSON object. No old and no new
 * name is there twice. It is read once, as standard input can be, and stays until the process ends.
 * NULL: ERR has the place of what is wrong.
 */
const struct name_map *name_map_get(const char *path, struct ckpt_error *err);

/*
 * Print the map that undoes MAP, of PATH, in the form that it was read in. CKPT_E_UNSUPPORTED: two
 * columns would not be read as what they are.
 */
int name_map_print_inverse(const char *path, const struct name_map *map, struct ckpt_error *err);

/* Suggest the keys of MODEL that the names may mean which no key has. */
void name_map_hint_absent(const struct name_map *map, const struct ckpt_model *model);

#endif
