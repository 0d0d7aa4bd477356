/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/elf_text.h"

#include "io/fault.h"

#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_SECTIONS = 1000, MOST_TEXT = 64 << 20 };

static bool read_at(int fd, void *to, size_t len, uint64_t off)
{
	return off <= INT64_MAX && ckpt_io_pread(fd, to, len, (off_t)off) == (ssize_t)len;
}

/* LEN bytes from OFF and a NUL, to be freed. */
static char *read_block(int fd, uint64_t off, uint64_t len)
{
	char *block = len <= MOST_TEXT ? calloc(1, (size_t)len + 1) : NULL;

	if (block && read_at(fd, block, (size_t)len, off))
		return block;
	free(block);
	return NULL;
}

static bool is_rodata(const Elf64_Shdr *section, const char *names, uint64_t names_len)
{
	return section->sh_name < names_len && section->sh_type == SHT_PROGBITS &&
	       strcmp(names + section->sh_name, ".rodata") == 0;
}

static char *read_rodata(int fd, uint64_t *len)
{
	Elf64_Ehdr head;
	Elf64_Shdr *sections;
	char *names = NULL, *found = NULL;

	if (!read_at(fd, &head, sizeof(head), 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_shentsize != sizeof(Elf64_Shdr) ||
	    head.e_shnum > MOST_SECTIONS || head.e_shstrndx >= head.e_shnum)
		return NULL;
	sections = (Elf64_Shdr *)read_block(fd, head.e_shoff, head.e_shnum * sizeof(*sections));
	if (sections)
		names = read_block(fd, sections[head.e_shstrndx].sh_offset,
				   sections[head.e_shstrndx].sh_size);
	for (unsigned i = 0; names && !found && i < head.e_shnum; i++)
		if (is_rodata(&sections[i], names, sections[head.e_shstrndx].sh_size)) {
			*len = sections[i].sh_size;
			found = read_block(fd, sections[i].sh_offset, *len);
		}
	free(names);
	free(sections);
	return found;
}

bool ckpt_elf_find_text(const char *path, const char *start, char *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t len = 0;
	char *text = fd < 0 ? NULL : read_rodata(fd, &len), *at = NULL;

	if (text)
		at = memmem(text, (size_t)len, start, strlen(start));
	if (at)
		snprintf(out, size, "%s", at);
	free(text);
	if (fd >= 0)
		close(fd);
	return at != NULL;
}
