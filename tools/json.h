/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_JSON_H
#define CKPT_TOOLS_JSON_H

#include <ckpt/ckpt.h>

#include <jansson.h>
#include <stdio.h>

/* The shape of every --json document; a change that breaks readers raises it. */
enum { JSON_VERSION = 1 };

/*
 * TARGET: "" or NULL for standard output, else a file that is not there yet, a pipe or a device.
 * NULL if it cannot be opened (says so).
 */
FILE *json_open(const char *target);

/* WORD failed as an operand: hint that it may be meant as the file of a bare --json. */
void hint_json(const char *json, const char *word);

/*
 * Close OUT, and remove a document that is not WHOLE or could not be written. Returns the exit
 * code.
 */
int json_close(FILE *out, bool whole);

/* Write one small value, on one line; takes the reference. */
void json_put(FILE *out, json_t *value);

/* The same of an object's members, without its braces. */
void json_put_members(FILE *out, json_t *object);

/*
 * Call this once, before anything else: from then on jansson ends the command if there is no
 * memory.
 */
void json_begin(void);

/*
 * Call this before json_open(): whoever may not read the inputs among ARGV may not read its file.
 */
void json_limit_mode(int argc, char *const *argv);

/* Says so, and ends the command. */
void no_memory(void) __attribute__((noreturn));

/*
 * Set KEY to NAME, which is bytes: where they are not UTF-8, KEY has U+FFFD, and "KEY_hex" all
 * bytes.
 */
void json_set_name(json_t *object, const char *key, const char *name);

/* Integers beyond int64 become strings. */
json_t *json_u64(uint64_t v);

/* An array of COUNT of them. */
json_t *json_dims(const uint64_t *dims, uint32_t count);

#endif
