/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes files of numpy.savez(): one archive, whose members are .npy files. It is, byte for byte,
 * what numpy.savez(OUT, **arrays) writes of C-contiguous arrays.
 *
 * Where everything goes is computed first (lay_out()). A member's checksum is in the header in
 * front of it: where it is not recorded, the header is written again behind the member (put_crc()),
 * which must not change its length.
 */
#include "format/output.h"
#include "numpy/members.h"
#include "numpy/names.h"
#include "numpy/numpy.h"
#include "zipfmt/python_zip.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

struct npz {
	struct ckpt_numpy_members members;
	struct ckpt_python_zip_member *zip; /* malloc, by member */
	uint64_t directory_off, directory_size, size;
	struct ckpt_buf buf;
};

/* ---- where everything goes ---- */

/* numpy takes "x.npy" for the member of "x". */
static int check_suffix(const struct ckpt_numpy_members *m, const char *name,
			struct ckpt_error *err)
{
	size_t len = strlen(name);
	char shown[160];

	if (len < 4 || strcmp(name + len - 4, ".npy") != 0 ||
	    !ckpt_strmap_find(&m->by_name, name, len - 4))
		return 0;
	return ckpt_fail(
		err, CKPT_E_CLASH,
		"'%s' and the same without '.npy' are both there, and numpy would find one "
		"under both names",
		ckpt_escape(shown, sizeof(shown), name, len));
}

static int name_member(struct npz *z, uint32_t i, struct ckpt_error *err)
{
	const char *name = z->members.items[i].name;
	size_t len = strlen(name);
	char *full = ckpt_arena_alloc(z->members.arena, len + 5);

	if (!full)
		return ckpt_fail_nomem(err);
	memcpy(full, name, len);
	memcpy(full + len, ".npy", 5);
	z->zip[i] =
		(struct ckpt_python_zip_member){ .name = full, .size = z->members.items[i].size };
	return check_suffix(&z->members, name, err);
}

static int lay_out(struct npz *z, struct ckpt_error *err)
{
	uint64_t at = 0;

	z->zip = calloc(z->members.count, sizeof(*z->zip));
	if (!z->zip)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < z->members.count; i++) {
		int rc = name_member(z, i, err);

		if (rc < 0)
			return rc;
		z->zip[i].header_off = at;
		at += ckpt_python_zip_local_size(&z->zip[i]);
		if (__builtin_add_overflow(at, z->zip[i].size, &at) || at > INT64_MAX / 2)
			return ckpt_fail(err, CKPT_E_LIMIT,
					 "the output would be larger than 4 EiB");
		z->directory_size += ckpt_python_zip_entry_size(&z->zip[i]);
	}
	z->directory_off = at;
	z->size = at + z->directory_size +
		  ckpt_python_zip_ends_size(z->members.count, at, z->directory_size);
	return 0;
}

/* ---- writing ---- */

static int flush_buf(struct npz *z, struct ckpt_mover *mover, struct ckpt_error *err)
{
	int rc = z->buf.bad ? ckpt_fail_nomem(err)
			    : ckpt_mover_put(mover, z->buf.data, z->buf.len, err);

	z->buf.len = 0;
	return rc;
}

/* Writes the header again, with the checksum. */
static int put_crc(struct npz *z, uint32_t i, struct ckpt_mover *mover, struct ckpt_error *err)
{
	int rc;

	ckpt_python_zip_put_local(&z->zip[i], &z->buf);
	rc = z->buf.bad
		     ? ckpt_fail_nomem(err)
		     : ckpt_mover_patch(mover, z->zip[i].header_off, z->buf.data, z->buf.len, err);
	z->buf.len = 0;
	return rc;
}

static int move_member(struct npz *z, uint32_t i, const struct ckpt_npy *npy,
		       struct ckpt_mover *mover, struct ckpt_error *err)
{
	bool known = npy->items.has_crc;
	struct ckpt_moved moved = { .want_crc = !known }; /* verify reads no such file: compared */
	int rc;

	if (known)
		z->zip[i].crc32 = ckpt_npy_crc(npy, npy->items.crc32);
	ckpt_python_zip_put_local(&z->zip[i], &z->buf);
	rc = flush_buf(z, mover, err);
	if (rc == 0)
		rc = ckpt_npy_move(npy, mover, &moved, err);
	if (rc < 0 || known)
		return rc;
	z->zip[i].crc32 = ckpt_npy_crc(npy, moved.crc32);
	return put_crc(z, i, mover, err);
}

static int put_member(struct npz *z, uint32_t i, struct ckpt_mover *mover, struct ckpt_error *err)
{
	const struct ckpt_numpy_member *m = &z->members.items[i];
	struct ckpt_array *array;
	struct ckpt_npy npy;
	int rc = ckpt_numpy_member_open(&z->members, m, &array, &npy, err);

	if (rc == 0) {
		rc = move_member(z, i, &npy, mover, err);
		if (rc != CKPT_E_CANCELLED)
			rc = ckpt_error_at(err, rc, NULL, m->name, CKPT_NO_OFFSET);
	}
	ckpt_npy_close(&npy);
	ckpt_array_close(array);
	return rc;
}

static int put_archive(void *ctx, struct ckpt_mover *mover, struct ckpt_error *err)
{
	struct npz *z = ctx;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < z->members.count; i++)
		rc = put_member(z, i, mover, err);
	for (uint32_t i = 0; rc == 0 && i < z->members.count; i++) {
		ckpt_python_zip_put_entry(&z->zip[i], &z->buf);
		rc = flush_buf(z, mover, err);
	}
	if (rc < 0)
		return rc;
	ckpt_python_zip_put_ends(z->members.count, z->directory_off, z->directory_size, &z->buf);
	return flush_buf(z, mover, err);
}

static int save(const struct ckpt_model *model, const char *path,
		const struct ckpt_save_options *options, struct ckpt_save_report *report,
		struct ckpt_error *err)
{
	struct npz z = { .buf = { 0 } };
	struct ckpt_output output = {
		.model = model, .options = options, .put = put_archive, .ctx = &z
	};
	bool dry = options->flags & CKPT_SAVE_DRY_RUN;
	int rc = ckpt_output_check(&output, path, err);

	if (rc == 0)
		rc = ckpt_numpy_members_list(model, options, ckpt_npz_check_name, &z.members, err);
	if (rc == 0)
		rc = ckpt_error_at(err, lay_out(&z, err), ckpt_document_path(model->doc), NULL,
				   CKPT_NO_OFFSET);
	output.size = z.size;
	if (rc == 0 && !dry)
		rc = ckpt_output_write(&output, path, err);
	report->nbytes = z.size;
	report->written = z.size;
	report->arrays = z.members.count;
	report->others = z.members.others;
	ckpt_numpy_members_clear(&z.members);
	ckpt_buf_clear(&z.buf);
	free(z.zip);
	return rc;
}

const struct ckpt_format ckpt_format_npz = {
	.name = "npz",
	.code = CKPT_FORMAT_NPZ,
	.save = save,
};
