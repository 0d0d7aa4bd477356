/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What MPI itself does: mpi_bcast BYTES CHUNK broadcasts so many bytes, all of which rank 0 has in memory, into a few
 * buffers of CHUNK bytes on the others; prints the seconds.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFERS = 4 }; /* as many as ckpt has */

int main(int argc, char **argv)
{
	size_t total, chunk, room;
	double start;
	char *buffer;
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	total = argc > 2 ? strtoull(argv[1], NULL, 10) : 0;
	chunk = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	room = rank == 0 ? total : BUFFERS * chunk;
	buffer = malloc(room + chunk);
	if (!buffer)
		return 1;
	memset(buffer, rank, room + chunk);
	MPI_Barrier(MPI_COMM_WORLD);
	start = MPI_Wtime();
	for (size_t done = 0; done < total; done += chunk)
		MPI_Bcast(buffer + done % room, (int)(total - done < chunk ? total - done : chunk),
			  MPI_BYTE, 0, MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("%.6f\n", MPI_Wtime() - start);
	free(buffer);
	MPI_Finalize();
	return 0;
}
