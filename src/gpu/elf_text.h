/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_GPU_ELF_TEXT_H
#define CKPT_GPU_ELF_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Look for a string that begins with START among the constants (.rodata) of the 64-bit library in
 * the file PATH, of which nothing else is read. The first one, cut to SIZE, in OUT; false if there
 * is none.
 */
bool ckpt_elf_find_text(const char *path, const char *start, char *out, size_t size);

#endif
