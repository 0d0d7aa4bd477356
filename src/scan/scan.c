/* SPDX-License-Identifier: Apache-2.0 */
#include "scan/scanner.h"

#include "base/sized.h"
#include "format/container.h"

#include <string.h>

const char *ckpt_scan_verdict_name(enum ckpt_scan_verdict verdict)
{
	static const char *const names[] = { "plain", "needs-objects", "unreadable", "inconsistent",
					     "dangerous" };

	return names[verdict];
}

const char *ckpt_scan_torch_name(enum ckpt_scan_torch torch)
{
	static const char *const names[] = { "1.13", "2.6", "2.14" };

	return names[torch];
}

const char *ckpt_scan_kind_name(enum ckpt_scan_kind kind)
{
	static const char *const names[] = { "data", "object", "code" };

	return names[kind];
}

/* One file. What cannot be read is an error, or a finding if it is FOUND in a folder. */
static int scan_one(struct ckpt_scanner *s, const char *path, struct ckpt_error *err)
{
	struct ckpt_source *source;
	bool inside;
	int rc = ckpt_container_open(path, &source, &inside, err);

	if (rc < 0)
		return rc;
	s->file.bytes = ckpt_source_size(source);
	ckpt_scan_source(s, source, CKPT_SCAN_TOP);
	ckpt_source_unref(source);
	if (s->rc == 0 && s->no_memory)
		s->rc = CKPT_E_NOMEM;
	if (s->rc < 0)
		return ckpt_error_at(err, ckpt_fail(err, s->rc, "scanning it was broken off"), path,
				     NULL, CKPT_NO_OFFSET);
	ckpt_scanner_finish(s);
	return 0;
}

int ckpt_scan(const char *path, const struct ckpt_scan_options *options,
	      int (*file)(void *ctx, const struct ckpt_scan_file *file), void *ctx,
	      struct ckpt_scan_report *report, struct ckpt_error *err)
{
	struct ckpt_scan_options o = CKPT_SCAN_OPTIONS_INIT;
	struct ckpt_scan_report r = CKPT_SCAN_REPORT_INIT;
	struct ckpt_scanner s;
	int rc = ckpt_sized_take(&o, sizeof(o), options, err);

	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(r), err);
	if (rc < 0)
		return rc;
	if (ckpt_scanner_init(&s, path) < 0)
		return ckpt_fail_nomem(err);
	s.cancel = o.cancel;
	rc = scan_one(&s, path, err);
	if (rc == 0) {
		r.files++;
		r.bytes += s.file.bytes;
		r.verdicts[s.file.verdict]++;
		if (file)
			rc = file(ctx, &s.file);
	}
	ckpt_scanner_clear(&s);
	ckpt_sized_give(report, &r);
	return rc;
}

int ckpt_scan_weights_only(const char *path, bool *accepts,
			   int (*refused)(void *ctx, const struct ckpt_scan_refusal *refusal),
			   void *ctx, struct ckpt_error *err)
{
	struct ckpt_scanner s;
	int rc = ckpt_scanner_init(&s, path);

	if (rc < 0)
		return ckpt_fail_nomem(err);
	rc = scan_one(&s, path, err);
	if (rc == 0 && !s.file.is_torch)
		rc = ckpt_error_at(err,
				   ckpt_fail(err, CKPT_E_UNSUPPORTED,
					     "has no form that torch.load reads"),
				   path, NULL, CKPT_NO_OFFSET);
	for (int i = 0; rc == 0 && i < CKPT_SCAN_TORCH_COUNT; i++)
		accepts[i] = s.file.weights_only[i];
	for (uint32_t i = 0; rc == 0 && refused && i < s.refusal_count; i++)
		rc = refused(ctx, &s.refusals[i]);
	ckpt_scanner_clear(&s);
	return rc;
}
