/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_DISK_SPACE_H
#define CKPT_BROADCAST_DISK_SPACE_H

#include "broadcast/agree.h"
#include "broadcast/manifest.h"

/*
 * Is there room for everything that this rank will write at PATH? NULL: it writes nothing. All
 * ranks must call it. With TOGETHER, several ranks may write to one disk, or to the memory of one
 * job, which needs room for all of them. BUFFERS: bytes of memory that the work itself takes.
 *
 * Room is what the file system has free, and for a tmpfs the memory that the job's cgroup has left.
 */
int ckpt_disk_space_check(struct ckpt_agreement *agreement, const struct ckpt_manifest *manifest,
			  const char *path, bool together, uint64_t buffers,
			  struct ckpt_error *err);

#endif
