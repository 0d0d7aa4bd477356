/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_DIS_H
#define CKPT_DIS_H

#include <ckpt/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Disassemble the pickle in RECORD (NULL: data.pkl) of the archive at PATH, or PATH itself if it is
 * a bare pickle. If the record is an archive itself, as in torch.export programs, it is the
 * data.pkl in that; in a tar archive of torch 0.1, it is all pickles of the member RECORD (NULL:
 * pickle), one after the other. EMIT gets one line per opcode, without the newline: offset, name,
 * operand; strings are escaped. It may return a negative status to stop.
 *
 * Works on damaged pickles up to the damage. Returns 0, what EMIT returned, or as ckpt_open().
 */
CKPT_API int ckpt_disassemble(const char *path, const char *record,
			      int (*emit)(void *ctx, const char *line), void *ctx,
			      struct ckpt_error *err);

#ifdef __cplusplus
}
#endif
#endif
