/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_USERS_H
#define CKPT_IO_USERS_H

/*
 * Another process of this machine that has the file of FD open or mapped, as far as this one may
 * look: its number, or 0. Those of other users and of other machines are not seen.
 */
int ckpt_find_user(int fd);

#endif
