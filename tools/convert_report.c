/* SPDX-License-Identifier: Apache-2.0 */
#include "convert.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* ---- what cannot be written ---- */

void convert_note_unfit(void *ctx, const char *name, const char *why)
{
	struct convert_unfit *u = ctx;

	if (u->count < CONVERT_MOST_LISTED &&
	    asprintf(&u->lines[u->count], "  '%s' %s", name, why) < 0)
		u->lines[u->count] = NULL;
	u->count++;
}

void convert_clear_unfit(struct convert_unfit *u)
{
	for (uint64_t i = 0; i < CONVERT_MOST_LISTED; i++)
		free(u->lines[i]);
}

int convert_print_unfit(const struct convert_unfit *u, const char *in, const char *to)
{
	char count[32], file[320];
	bool narrow = false;

	complain("%s: %s %s cannot be written as %s:",
		 ckpt_escape(file, sizeof(file), in, strlen(in)), grouped(u->count, count),
		 u->count == 1 ? "entry" : "entries",
		 strcmp(to, "torch") ? to : "tensors of a set");
	for (uint64_t i = 0; i < u->count && i < CONVERT_MOST_LISTED; i++) {
		fprintf(stderr, "%s\n", u->lines[i] ? u->lines[i] : "");
		narrow |= u->lines[i] && strstr(u->lines[i], "float") &&
			  ends_with(u->lines[i], ", which numpy does not have");
	}
	if (u->count > CONVERT_MOST_LISTED)
		fprintf(stderr, "  and %s more\n", grouped(u->count - CONVERT_MOST_LISTED, count));
	if (narrow)
		hint("--cast-all f32 makes float32 of them first");
	hint("--drop-others leaves them out");
	return EXIT_ERROR;
}

/* ---- what was done ---- */

static void print_taken(const struct ckpt_edit_report *did)
{
	char count[32];

	printf("%s tensor%s of the state dict, ", grouped(did->tensors_taken, count),
	       plural(did->tensors_taken));
	if (did->modules_guessed)
		printf("of %s module%s without source all tensors were taken, ",
		       grouped(did->modules_guessed, count), plural(did->modules_guessed));
}

void convert_print_weights(const struct ckpt_edit_report *did)
{
	const char *name = did->place_count ? did->places[0].name : "";
	char shown[160], count[32];

	ckpt_escape(shown, sizeof(shown), name, strlen(name));
	if (*name || did->state_dicts > 1)
		printf(*name ? "'%s', " : "the root, ", shown);
	if (did->state_dicts > 1)
		printf("the largest of %s mappings with tensors, ", grouped(did->state_dicts, count));
	if (did->tensors_dropped)
		printf("%s tensor%s beside it left behind, ", grouped(did->tensors_dropped, count),
		       plural(did->tensors_dropped));
}

static void print_count(uint64_t count, const char *one, const char *more)
{
	char text[32];

	if (count)
		printf("%s %s, ", grouped(count, text), count == 1 ? one : more);
}

void convert_print_summary(const struct convert_summary *s, const struct ckpt_save_report *report,
			   bool dry_run, double start)
{
	char size[16], time[32];

	if (s->taken.extracted)
		print_taken(&s->taken);
	for (size_t i = 0; i < s->step_count; i++)
		list_replacements(&s->reports[i]);
	if (s->weights.extracted && !s->weights.state_dicts)
		print_taken(&s->weights);
	else
		convert_print_weights(&s->weights);
	print_all_changes(s->reports, s->step_count, true);
	print_count(report->arrays, "array", "arrays");
	print_count(report->others, "other entry left out", "other entries left out");
	print_count(report->cloned, "tensor no longer shares its bytes",
		    "tensors no longer share their bytes");
	print_count(report->aliased, "tensor is an alias of another",
		    "tensors are aliases of others");
	if (!s->step_count)
		print_count(report->dropped, "unused record left out", "unused records left out");
	print_count(report->shards, "file", "files");
	if (dry_run)
		printf("%s would be written (dry run)\n", size_phrase(report->nbytes, size));
	else
		printf("%s written in %s\n", size_phrase(report->nbytes, size),
		       seconds_phrase(seconds() - start, time));
	if (*convert_left_behind())
		printf("left behind: %s\n", convert_left_behind());
}

static bool is_weights_name(const char *name)
{
	return ends_with(name, ".safetensors") || ends_with(name, ".bin") ||
	       strstr(name, ".index.") || *name == '.';
}

void convert_note_left_files(const char *in)
{
	DIR *dir = opendir(in);
	bool config = false;
	unsigned others = 0;

	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (!strcmp(entry->d_name, "config.json"))
			config = true;
		else if (!is_weights_name(entry->d_name))
			others++;
	if (dir)
		closedir(dir);
	if (config && others)
		fprintf(stderr, "ckpt: note: config.json and %u more beside it were not copied\n",
			others);
	else if (config)
		fprintf(stderr, "ckpt: note: config.json was not copied\n");
}
