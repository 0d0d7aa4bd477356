/* SPDX-License-Identifier: Apache-2.0 */
#include "job/node_list.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { MOST_DIGITS = 9, MOST_BRACKETS = 8 };

struct search {
	const char *list, *name;
	uint32_t count, index;
	char *first; /* of CKPT_NODE_NAME bytes; or NULL */
	char built[CKPT_NODE_NAME];
	struct ckpt_error *err;
};

static int fail_list(const struct search *s)
{
	return ckpt_fail(s->err, CKPT_E_FORMAT, "'%.200s' is no list of Slurm's nodes", s->list);
}

static int count_node(struct search *s)
{
	if (s->count == CKPT_MOST_NODES)
		return ckpt_fail(s->err, CKPT_E_FORMAT, "a list of more than %d nodes",
				 CKPT_MOST_NODES);
	if (s->count == 0 && s->first)
		strcpy(s->first, s->built);
	if (s->index == UINT32_MAX && !strcmp(s->built, s->name))
		s->index = s->count;
	s->count++;
	return 0;
}

/* *AT is behind the number then. */
static bool read_number(const char **at, uint32_t *out, int *width)
{
	size_t digits = strspn(*at, "0123456789");

	*out = 0;
	for (size_t i = 0; i < digits && digits <= MOST_DIGITS; i++)
		*out = *out * 10 + (uint32_t)((*at)[i] - '0');
	*at += digits;
	*width = (int)digits;
	return digits > 0 && digits <= MOST_DIGITS;
}

static int expand(struct search *s, const char *item, size_t len, size_t built, int brackets);

/* The numbers of a bracket, AT to END, and behind each the REST of the item. */
static int expand_bracket(struct search *s, const char *at, const char *end, const char *rest,
			  size_t rest_len, size_t built, int brackets)
{
	int rc = 0;

	while (rc == 0) {
		uint32_t low, high;
		int width, other;

		if (!read_number(&at, &low, &width))
			return fail_list(s);
		high = low;
		if (*at == '-') {
			at++;
			if (!read_number(&at, &high, &other) || high < low)
				return fail_list(s);
		}
		for (uint64_t n = low; rc == 0 && n <= high; n++) {
			size_t room = sizeof(s->built) - built;
			int put = snprintf(s->built + built, room, "%0*" PRIu64, width, n);

			rc = put < 0 || (size_t)put >= room
				     ? fail_list(s)
				     : expand(s, rest, rest_len, built + (size_t)put, brackets);
		}
		if (rc < 0 || at == end)
			return rc;
		if (*at++ != ',')
			return fail_list(s);
	}
	return rc;
}

/* ITEM behind the BUILT bytes that there are of its name. */
static int expand(struct search *s, const char *item, size_t len, size_t built, int brackets)
{
	const char *open = memchr(item, '[', len);
	size_t plain = open ? (size_t)(open - item) : len;
	const char *close = open ? memchr(open, ']', len - plain) : NULL;

	if (plain >= sizeof(s->built) - built || memchr(item, ']', plain) || (open && !close) ||
	    (open && brackets == MOST_BRACKETS))
		return fail_list(s);
	memcpy(s->built + built, item, plain);
	built += plain;
	s->built[built] = '\0';
	if (open)
		return expand_bracket(s, open + 1, close, close + 1,
				      len - (size_t)(close + 1 - item), built, brackets + 1);
	return built ? count_node(s) : fail_list(s);
}

/* Up to the comma that is in no bracket. */
static size_t item_len(const char *at)
{
	size_t len = 0;

	for (bool inside = false; at[len] && (inside || at[len] != ','); len++)
		inside = at[len] == '[' || (inside && at[len] != ']');
	return len;
}

int ckpt_node_list_find(const char *list, const char *name, uint32_t *index, uint32_t *count,
			char first[CKPT_NODE_NAME], struct ckpt_error *err)
{
	struct search s = {
		.list = list, .name = name, .index = UINT32_MAX, .first = first, .err = err
	};
	int rc = 0;

	for (const char *at = list; rc == 0; at++) {
		size_t len = item_len(at);

		rc = expand(&s, at, len, 0, 0);
		at += len;
		if (!*at)
			break;
	}
	if (rc < 0)
		return rc;
	*count = s.count;
	*index = s.index == UINT32_MAX ? s.count : s.index;
	return 0;
}
