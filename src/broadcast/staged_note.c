/* SPDX-License-Identifier: Apache-2.0 */
#include "broadcast/staged_note.h"

#include "base/grow.h"
#include "io/fault.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* staged.c writes it: a first line, one for each file, and perhaps one for each checksum. */
static const char FIRST[] = CKPT_STAGED_FIRST_LINE;

enum { MOST_NOTE = 64 << 20 }; /* bytes: half a million files */

static char *read_text(int fd, uint64_t size, size_t *len)
{
	char *text = malloc((size_t)size + 1);

	for (*len = 0; text && *len < size;) {
		ssize_t n = ckpt_io_pread(fd, text + *len, (size_t)size - *len, (off_t)*len);

		if (n == 0 || (n < 0 && errno != EINTR))
			break;
		*len += n > 0 ? (size_t)n : 0;
	}
	if (text)
		text[*len] = '\0';
	return text;
}

void ckpt_staged_name_add(struct ckpt_buf *out, const char *name)
{
	for (; *name; name++) {
		if (*name == '\n' || *name == '\\')
			ckpt_buf_add_u8(out, '\\');
		ckpt_buf_add_u8(out, *name == '\n' ? 'n' : (uint8_t)*name);
	}
}

/* In its place. */
static void read_name(char *name)
{
	char *to = name;

	for (; *name; name++) {
		bool is_escaped = *name == '\\' && name[1];

		name += is_escaped;
		*to++ = is_escaped && *name == 'n' ? '\n' : *name;
	}
	*to = '\0';
}

/* "SIZE INODE MTIME CTIME -> INODE MTIME NAME" */
static bool parse_line(char *line, struct ckpt_staged_file *out)
{
	int name = 0;
	bool is_one = sscanf(line, "%" SCNu64 " %*u %*d.%*u %*d.%*u -> %" SCNu64 " %" SCNd64 ".%" SCNu32 "%n", &out->size, &out->ino,
		      &out->mtime_sec, &out->mtime_nsec, &name) == 4 &&
		      line[name] == ' ' && *(out->name = line + name + 1);

	if (is_one)
		read_name(line + name + 1);
	return is_one;
}

int ckpt_staged_files_read(int fd, uint64_t size, struct ckpt_staged_files *out)
{
	size_t len;
	char *line, *end;
	int rc = 1;

	*out = (struct ckpt_staged_files){ 0 };
	if (size < sizeof(FIRST) || size > MOST_NOTE)
		return 0;
	out->text = read_text(fd, size, &len);
	if (!out->text)
		return -1;
	if (len != size || strncmp(out->text, FIRST, sizeof(FIRST) - 1) != 0 || strlen(out->text) != len)
		rc = 0;
	line = out->text + (rc ? sizeof(FIRST) - 1 : 0);
	for (; rc > 0 && *line && strncmp(line, "crc32 ", 6) != 0; line = end + 1) {
		struct ckpt_staged_file *grown = ckpt_grow(out->files, out->count, &out->cap, sizeof(*grown));

		end = strchr(line, '\n');
		if (!grown || !end) {
			rc = grown ? 0 : -1;
			break;
		}
		out->files = grown;
		*end = '\0';
		rc = parse_line(line, &grown[out->count++]);
	}
	if (rc > 0 && out->count)
		return 1;
	ckpt_staged_files_clear(out);
	return rc < 0 ? rc : 0;
}

void ckpt_staged_files_clear(struct ckpt_staged_files *f)
{
	free(f->files);
	free(f->text);
	*f = (struct ckpt_staged_files){ 0 };
}
