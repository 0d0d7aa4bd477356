/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_DIRECT_H
#define CKPT_IO_DIRECT_H

#include "io/source.h"

/*
 * Files read past the page cache (O_DIRECT): the disk writes into the buffer itself, which takes a tenth of the CPU time, and
 * leaves in the cache what is there. What is cached already, it would fetch again. Source: open(2), mincore(2).
 */

/* A second descriptor of the file behind SRC, to be closed; -1: the file system cannot, or SRC is no file. */
int ckpt_direct_open(const struct ckpt_source *src);

/*
 * Is more than a quarter of the LEN bytes at OFF in the page cache? True if nobody knows: the kernel says so too of files that
 * the caller could not write.
 */
bool ckpt_direct_is_cached(struct ckpt_source *src, uint64_t off, size_t len);

/*
 * As ckpt_source_read(), by FD, of ckpt_direct_open(), where the place in the file and in memory lets it: OFF and BUF are as far
 * from a multiple of 4096. What is left is read as usual.
 */
int ckpt_direct_read(const struct ckpt_source *src, int fd, uint64_t off, void *buf, size_t len, struct ckpt_error *err);

#endif
