/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TESTS_FUZZ_H
#define CKPT_TESTS_FUZZ_H

#include <ckpt/model.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* What every target defines. A target is done with the bytes when it returns; it returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A property that must hold whatever the input is. Aborts, which the fuzzer records as a crash. */
#define REQUIRE(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #what); \
			abort(); \
		} \
	} while (0)

/* A call failed with RC: the error must say so, in printable text with an end. */
void fuzz_check_error(int rc, const struct ckpt_error *err);

/*
 * Everything that the public functions can do with a file: list, walk, edit, save. The bytes are
 * those of a whole file, which may be anything.
 */
void fuzz_exercise_file(const uint8_t *data, size_t size);

/* The same with an open checkpoint of any format. REALLY: write files, too, each one torch.save file. */
void fuzz_exercise_model(const struct ckpt_model *model, bool really);

/* Read the values of tensors and arrays (arrays.c). */
void fuzz_read_arrays(const struct ckpt_model *model);

/* Look at values object by object, and read storages (nodes.c). */
void fuzz_walk_nodes(const struct ckpt_model *model);

/* ---- directories (folder.c) ---- */

enum { FUZZ_MOST_PATH = 600 };

/* The directory of the input, which the target makes, and what is made of it, alone in a folder. */
extern char fuzz_in[FUZZ_MOST_PATH], fuzz_out[FUZZ_MOST_PATH];

/* Make that folder, which is removed at the end of the process. False: it is there. */
bool fuzz_make_base(void);

/* What is not there is no error. */
void fuzz_remove_tree(const char *path);
void fuzz_write_input(const char *name, const uint8_t *bytes, size_t len);

/* NULL: it cannot be opened, and the error was in order. */
struct ckpt_model *fuzz_open_directory(const char *path);

/* Write fuzz_out. Returns what ckpt_save() returned. */
int fuzz_save_directory(const struct ckpt_model *model, const char *format, uint32_t ranks,
			unsigned flags);

/* What was written there opens, holds as many tensors, and can be merged if MODEL can; it is removed. */
void fuzz_check_directory(const struct ckpt_model *model);

/* Both, for one rank and for two, as a DCP directory and as safetensors. */
void fuzz_split(const struct ckpt_model *model);

#endif
