/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_DISK_SPACE_H
#define CKPT_BROADCAST_DISK_SPACE_H

#include "broadcast/agree.h"
#include "broadcast/manifest.h"

/*
 * Is there room for all that this rank is to write at PATH? NULL: it writes nothing. To be called
 * by all ranks. With TOGETHER several ranks may write to one disk, or to the memory of one job, and
 * need room for all of them. BUFFERS: bytes of memory that the work itself takes.
 *
 * What is asked: the file system, and for a tmpfs the memory that the job's cgroup may still take.
 */
int ckpt_disk_space_check(struct ckpt_agreement *agreement, const struct ckpt_manifest *manifest,
			  const char *path, bool together, uint64_t buffers,
			  struct ckpt_error *err);

#endif
