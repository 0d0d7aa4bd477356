/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What 'ckpt info' says of parameters, buffers and optimizers, and of what makes a file larger than the
 * model in it. A command in a line is whole but for IN and OUT; names that a shell would not leave alone
 * are in none.
 */
#include "parts.h"

#include "command.h"
#include "json.h"

#include <string.h>

enum { SHOWN_PLACES = 3, SHOWN_EXTRAS = 6 };

static struct ckpt_part_size size_of(const struct ckpt_parts *parts, enum ckpt_part part)
{
	struct ckpt_part_size size = CKPT_PART_SIZE_INIT;

	ckpt_parts_get(parts, part, &size);
	return size;
}

/* ---- page ---- */

/* " ('model', 'ema' and 3 more)"; nothing for the root alone. */
static void print_places(const struct ckpt_parts *parts, enum ckpt_part part)
{
	uint64_t all = ckpt_part_place_count(parts), count = 0;
	char shown[100];

	for (uint64_t i = 0; i < all; i++) {
		struct ckpt_part_place place = CKPT_PART_PLACE_INIT;

		ckpt_part_place_get(parts, i, &place);
		if (place.part != part || (!*place.name && !count))
			continue;
		if (count < SHOWN_PLACES)
			printf("%s'%s'", count ? ", " : " (",
			       ckpt_escape(shown, sizeof(shown), place.name, strlen(place.name)));
		count++;
	}
	if (count > SHOWN_PLACES)
		printf(" and %s more", grouped(count - SHOWN_PLACES, shown));
	if (count)
		putchar(')');
}

static void print_told_by(unsigned told_by)
{
	static const char *const words[] = { "Parameter objects", "the program",
					     "the optimizer's count and shapes", "names" };
	const char *before = "; told by ";

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!(told_by >> i & 1))
			continue;
		printf("%s%s", before, words[i]);
		before = " and ";
	}
}

static void print_counts(const struct ckpt_parts *parts)
{
	static const char *const words[] = { "parameters", "buffers", "optimizer", "copies",
					     "others" };
	unsigned told_by = ckpt_parts_told_by(parts);
	bool any = false;

	for (int part = 0; part < CKPT_PARTS; part++) {
		struct ckpt_part_size size = size_of(parts, (enum ckpt_part)part);
		bool of_model = part == CKPT_PART_PARAMETER || part == CKPT_PART_BUFFER;
		char count[32];

		if (!size.tensors && !(of_model && told_by))
			continue;
		if (!any)
			printf("%-12s%s", words[part], grouped(size.elements, count));
		else
			printf(", %s %s", words[part], grouped(size.elements, count));
		any = true;
		if (part == CKPT_PART_PARAMETER || part == CKPT_PART_COPY)
			print_places(parts, (enum ckpt_part)part);
	}
	if (any) {
		print_told_by(told_by);
		putchar('\n');
	}
}

/* "; 'ckpt select --drop optimizer' leaves it out" */
static void print_drop(const char *name)
{
	static const char harmless[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	const char *rest = !strncmp(name, "*.", 2) ? name + 2 : name;

	if (!*name || *name == '-' || rest[strspn(rest, harmless)])
		return;
	if (rest != name)
		printf("; \"ckpt select --drop '%s'\" leaves it out", name);
	else
		printf("; 'ckpt select --drop %s' leaves it out", name);
}

static void print_extra(const struct ckpt_extra *e)
{
	char size[24], place[100] = "", same[100] = "";

	if (e->place)
		ckpt_escape(place, sizeof(place), e->place, strlen(e->place));
	if (e->same_as)
		ckpt_escape(same, sizeof(same), e->same_as, strlen(e->same_as));
	printf("%s ", human_size(e->nbytes, size));
	switch (e->kind) {
	case CKPT_EXTRA_UNSEEN:
		if (e->tensors == 1)
			printf("that no tensor shows: '%s' shows a part of its storage; 'ckpt compact' leaves it out", place);
		else
			printf("that no tensor shows: %s tensors show a part of a storage, '%s' above all; 'ckpt compact' leaves it out",
			       grouped(e->tensors, size), place);
		break;
	case CKPT_EXTRA_OPTIMIZER:
		printf("of the optimizer");
		print_drop(e->place);
		break;
	case CKPT_EXTRA_COPY:
		printf("of '%s', a copy of '%s' by its name and shapes", place, same);
		print_drop(e->place);
		break;
	case CKPT_EXTRA_TWIN:
		printf("of '%s', which has the names and shapes of '%s': a copy, or a second model",
		       place, same);
		print_drop(e->place);
		break;
	case CKPT_EXTRA_UNUSED:
		printf("of storages that no tensor mentions; 'ckpt convert' leaves it out");
		break;
	case CKPT_EXTRA_HEADERS: printf("of headers, padding, and what is not shown as a tensor here"); break;
	case CKPT_EXTRA_DEAD: break; /* has a line of its own */
	}
	putchar('\n');
}

/* What is an eighth of the model, or more; all sizes are small beside a model. */
static void print_extras(const struct ckpt_parts *parts)
{
	uint64_t count = ckpt_extra_count(parts), shown = 0;
	uint64_t model = sum(size_of(parts, CKPT_PART_PARAMETER).nbytes,
			     size_of(parts, CKPT_PART_BUFFER).nbytes);

	for (uint64_t i = 0; i < count && shown < SHOWN_EXTRAS; i++) {
		struct ckpt_extra extra = CKPT_EXTRA_INIT;

		ckpt_extra_get(parts, i, &extra);
		if (extra.nbytes < model / (extra.kind == CKPT_EXTRA_HEADERS ? 2 : 8) ||
		    extra.kind == CKPT_EXTRA_DEAD ||
		    (!model && extra.kind != CKPT_EXTRA_UNSEEN && extra.kind != CKPT_EXTRA_UNUSED))
			continue;
		printf("%-12s", shown++ ? "" : "larger by");
		print_extra(&extra);
	}
}

void print_parts(const struct ckpt_parts *parts)
{
	print_counts(parts);
	print_extras(parts);
}

/* ---- JSON ---- */

static json_t *told_by_json(unsigned told_by)
{
	static const char *const words[] = { "parameters", "program", "optimizer", "names" };
	json_t *list = json_array();

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (told_by >> i & 1)
			json_array_append_new(list, json_string(words[i]));
	return list;
}

static void add_sizes(json_t *o, uint64_t tensors, uint64_t elements, uint64_t nbytes)
{
	json_object_set_new(o, "tensors", json_u64(tensors));
	json_object_set_new(o, "elements", json_u64(elements));
	json_object_set_new(o, "nbytes", json_u64(nbytes));
}

static void set_name_or_null(json_t *o, const char *key, const char *name)
{
	if (name)
		json_set_name(o, key, name);
	else
		json_object_set_new(o, key, json_null());
}

static const char *const part_words[] = { "parameters", "buffers", "optimizer", "copies",
					  "others" };

static json_t *place_json(const struct ckpt_parts *parts, uint64_t i)
{
	static const char *const words[] = { "model", "", "optimizer", "copy", "" };
	struct ckpt_part_place place = CKPT_PART_PLACE_INIT;
	json_t *o = json_object();

	ckpt_part_place_get(parts, i, &place);
	json_set_name(o, "name", place.name);
	json_object_set_new(o, "kind", json_string(words[place.part]));
	add_sizes(o, place.tensors, place.elements, place.nbytes);
	set_name_or_null(o, "same_as", place.same_as);
	return o;
}

static json_t *extra_json(const struct ckpt_parts *parts, uint64_t i)
{
	static const char *const words[] = { "unseen", "optimizer", "copy",   "twin",
					     "dead",   "unused",    "headers" };
	struct ckpt_extra extra = CKPT_EXTRA_INIT;
	json_t *o = json_object();

	ckpt_extra_get(parts, i, &extra);
	json_object_set_new(o, "kind", json_string(words[extra.kind]));
	json_object_set_new(o, "nbytes", json_u64(extra.nbytes));
	set_name_or_null(o, "place", extra.place);
	return o;
}

void print_parts_json(const struct ckpt_parts *parts, FILE *out)
{
	json_t *told_by = told_by_json(ckpt_parts_told_by(parts));

	fputs("{\"told_by\":", out);
	json_put(out, told_by);
	for (int part = 0; part < CKPT_PARTS; part++) {
		struct ckpt_part_size size = size_of(parts, (enum ckpt_part)part);
		json_t *o = json_object();

		add_sizes(o, size.tensors, size.elements, size.nbytes);
		fprintf(out, ",\"%s\":", part_words[part]);
		json_put(out, o);
	}
	fputs(",\"places\":[", out);
	for (uint64_t i = 0; i < ckpt_part_place_count(parts); i++) {
		fputs(i ? ",\n" : "\n", out);
		json_put(out, place_json(parts, i));
	}
	fputs("\n],\"extra\":[", out);
	for (uint64_t i = 0; i < ckpt_extra_count(parts); i++) {
		fputs(i ? ",\n" : "\n", out);
		json_put(out, extra_json(parts, i));
	}
	fputs("\n]}", out);
}
