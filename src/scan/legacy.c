/* SPDX-License-Identifier: Apache-2.0 */
#include "scan/scanner.h"

#include "format/pickle_stream.h"

/* The stream that torch.save wrote until 1.5: five pickles, then the storages. */
void ckpt_scan_legacy(struct ckpt_scanner *s, struct ckpt_source *source, unsigned flags)
{
	struct ckpt_pickle_stream stream;
	struct ckpt_pickle_extent at;
	bool weights = s->weights;

	if (flags & CKPT_SCAN_TOP) {
		s->file.is_torch = true;
		s->weights = true;
	}
	ckpt_pickle_stream_open(&stream, source);
	for (int i = 0; i < 5 && s->rc == 0; i++) {
		struct ckpt_error err = CKPT_ERROR_INIT;
		struct ckpt_scan_pickle p = { .flags = CKPT_SCAN_STORAGES };
		uint64_t start = stream.at;
		int rc = ckpt_pickle_stream_next(&stream, &at, &err);

		if (rc == CKPT_E_FORMAT) /* what there is of it may have run */
			at = (struct ckpt_pickle_extent){ start, stream.len - start };
		else if (rc < 0)
			ckpt_scan_failed(s, rc, &err);
		if (rc < 0 && rc != CKPT_E_FORMAT)
			break;
		p.bytes = stream.bytes + at.off;
		p.len = (size_t)at.len;
		p.base = at.off;
		ckpt_scan_one_pickle(s, &p);
		if (i == 3) { /* magic number, protocol, system, the object, keys of storages */
			s->result = p.result;
			s->result_nbytes = p.result_nbytes;
			s->result_item = p.result_item;
		}
		if (rc < 0 || !p.stopped)
			break;
	}
	ckpt_pickle_stream_clear(&stream);
	s->weights = weights;
}
