/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_STREAM_H
#define CKPT_IO_STREAM_H

#include "base/error.h"

/*
 * Bytes that are read front to back; how many there are is known beforehand. READ fills BUF with
 * exactly LEN bytes or fails. All reads but the last are of a multiple of 8 bytes. For one
 * thread at a time.
 */
struct ckpt_stream {
	int (*read)(struct ckpt_stream *stream, void *buf, size_t len, struct ckpt_error *err);
	void (*close)(struct ckpt_stream *stream);
	/*
	 * Go on at byte OFF, where an item of the stream begins. What is read after that is not
	 * compared with any checksum. NULL: the stream only goes forward.
	 */
	int (*seek)(struct ckpt_stream *stream, uint64_t off, struct ckpt_error *err);
};

#endif
