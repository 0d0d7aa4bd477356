/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_RECORDS_H
#define CKPT_TOOLS_RECORDS_H

#include <ckpt/ckpt.h>

#include <jansson.h>
#include <stdbool.h>

/* List the records of the archive at PATH that match one of the patterns. Returns the exit code. */
int list_records(const struct ckpt_model *model, const char *path,
		 struct ckpt_pattern *const *patterns, size_t pattern_count, bool exact_bytes,
		 const char *json);

/* Print lines of 'info' about what the archive holds beside the checkpoint: code, extra files. */
int print_record_kinds(const struct ckpt_model *model, struct ckpt_error *err);

/* For each kind that occurs: how many records, and their bytes. *OUT is the caller's reference. */
int record_kinds_json(const struct ckpt_model *model, json_t **out, struct ckpt_error *err);

#endif
