/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who else uses a file, by /proc. It is a look, no lock: a process may open the file right after
 * it. Files are compared by device and number: of a mapping, the file that its entry in map_files
 * leads to, or where that may not be followed, the numbers in maps.
 */
#include "io/users.h"

#include "base/ascii.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Does an entry of FOLDER, in the folder of a process, lead to the file? */
static bool leads_there(int process, const char *folder, const struct stat *file)
{
	int fd = openat(process, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	struct stat st;
	bool found = false;

	if (!dir && fd >= 0)
		close(fd);
	while (dir && !found && (entry = readdir(dir)))
		found = *entry->d_name != '.' && fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && st.st_dev == file->st_dev && st.st_ino == file->st_ino;
	if (dir)
		closedir(dir);
	return found;
}

/* "7f12...-7f13... r--p 00000000 fe:00 1234   /path" */
static bool is_in_maps(int process, const struct stat *file)
{
	int fd = openat(process, "maps", O_RDONLY | O_CLOEXEC);
	FILE *maps = fd < 0 ? NULL : fdopen(fd, "re");
	char *line = NULL;
	size_t room = 0;
	bool found = false;

	if (!maps && fd >= 0)
		close(fd);
	while (maps && !found && getline(&line, &room, maps) > 0) {
		unsigned high, low;
		unsigned long long number;

		found = sscanf(line, "%*s %*s %*s %x:%x %llu", &high, &low, &number) == 3 && number == file->st_ino && makedev(high, low) == file->st_dev;
	}
	free(line);
	if (maps)
		fclose(maps);
	return found;
}

int ckpt_find_user(int fd)
{
	DIR *proc = opendir("/proc");
	const struct dirent *entry;
	struct stat file;
	int found = 0;

	if (proc && fstat(fd, &file) < 0)
		found = -1;
	while (proc && !found && (entry = readdir(proc))) {
		long pid = ckpt_is_digit((unsigned char)*entry->d_name) ? strtol(entry->d_name, NULL, 10) : 0;
		int process;

		if (pid <= 0 || pid == (long)getpid())
			continue;
		process = openat(dirfd(proc), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (process < 0)
			continue;
		if (leads_there(process, "fd", &file) || leads_there(process, "map_files", &file) || is_in_maps(process, &file))
			found = (int)pid;
		close(process);
	}
	if (proc)
		closedir(proc);
	return found > 0 ? found : 0;
}
