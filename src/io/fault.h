/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_FAULT_H
#define CKPT_IO_FAULT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The system calls that touch files, use the network or start a thread, behind one hook, so that tests can make
 * any of them fail or end the process there. Without a hook they are the plain calls.
 */
enum ckpt_io_op {
	CKPT_IO_READ,
	CKPT_IO_WRITE,
	CKPT_IO_COPY,
	CKPT_IO_CLONE,
	CKPT_IO_TRUNCATE,
	CKPT_IO_SYNC,
	CKPT_IO_LINK,
	CKPT_IO_RENAME,
	CKPT_IO_SYNC_DIR,
	CKPT_IO_THREAD,
	CKPT_IO_PUNCH,
	CKPT_IO_SOCKET,
	CKPT_IO_BIND,
	CKPT_IO_LISTEN,
	CKPT_IO_ACCEPT,
	CKPT_IO_CONNECT,
	CKPT_IO_SEND,
	CKPT_IO_RECV,
	CKPT_IO_POLL,
	CKPT_IO_RESERVE,
};

/*
 * Returns 0 to go on, or an errno to fail with. Several threads may call it at once. Set it
 * before other threads use the library.
 */
typedef int ckpt_io_hook(void *ctx, enum ckpt_io_op op);
void ckpt_io_set_hook(ckpt_io_hook *hook, void *ctx);
/* For the calls in network.h: true if the hook wants OP to fail; errno is set. */
bool ckpt_io_fails(enum ckpt_io_op op);

/*
 * Called after every write (BYTES at OFF), hole (LEN bytes at OFF), truncation (to OFF bytes) and
 * sync; for tests of crashes.
 */
typedef void ckpt_io_log(void *ctx, enum ckpt_io_op op, uint64_t off, const void *bytes,
			 size_t len);
void ckpt_io_set_log(ckpt_io_log *log, void *ctx);

ssize_t ckpt_io_pread(int fd, void *buf, size_t len, off_t off);
ssize_t ckpt_io_pwrite(int fd, const void *buf, size_t len, off_t off);
/*
 * The same for a file of tmpfs of which MAP is a map: the file gets its pages first, so that no page
 * is missing when the bytes are copied to it, and the map does not keep them. No bytes, or all: 0 or -1.
 */
int ckpt_io_write_mapped(int fd, uint8_t *map, const void *bytes, size_t len, off_t off);
ssize_t ckpt_io_copy_range(int in, off_t in_off, int out, off_t out_off, size_t len);
int ckpt_io_clone(int in, int out);
int ckpt_io_truncate(int fd, off_t size);
int ckpt_io_punch(int fd, off_t off, off_t len);
int ckpt_io_reserve(int fd, off_t off, off_t len); /* blocks on the disk; the size stays */
int ckpt_io_sync(int fd);
int ckpt_io_sync_dir(int fd);
int ckpt_io_linkat(int old_dir, const char *old_path, int new_dir, const char *new_path, int flags);
int ckpt_io_rename(const char *from, const char *to, bool replace);
int ckpt_io_exchange(const char *a, const char *b);

/*
 * Start a thread with a small stack. It takes no signals, which are for the threads of the
 * program that uses the library. Returns 0, or an errno.
 */
int ckpt_io_thread(pthread_t *thread, void *(*run)(void *), void *arg);

#endif
