/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SCAN_KINDS_H
#define CKPT_SCAN_KINDS_H

#include "scan/scanner.h"

/* What the bytes of a file that is no archive of torch's say it is. HEAD: its first LEN bytes. */

/*
 * A header of a tar archive as Python's tarfile, which torch.load asks first, takes one: by its
 * checksum alone.
 */
bool ckpt_scan_is_tar(const uint8_t *head, size_t len);

/* numbers in numpy's format, or objects, which are a pickle (loaders/npy.c) */
bool ckpt_scan_is_npy(const uint8_t *head, size_t len);

/* safetensors: a length, JSON, numbers */
bool ckpt_scan_is_safetensors(struct ckpt_source *source, const uint8_t *head, size_t len);

/* ELF, Windows, macOS */
bool ckpt_scan_is_program(const uint8_t *head, size_t len);

bool ckpt_scan_is_text(const uint8_t *head, size_t len);

/* Compressed, or an archive of a kind that is not looked into: "gzip"; NULL: none. */
const char *ckpt_scan_packed_by(const uint8_t *head, size_t len);

/* Is the name one of those that loaders are given? One that says nothing (ckpt_is_descriptor()) may be. */
bool ckpt_scan_is_named_as_checkpoint(const char *path);

/* Does the name of a file in something, of this system or Windows, lead out of that, or nowhere? */
bool ckpt_scan_leads_out(const char *name, size_t len);

#endif
