/* A call of the library that must succeed, or all processes end. To be included after standfast_mpi.h. */
#include <stdio.h>

static int must(int result, const char *what) {
    if (result >= 0) return result;
    fprintf(stderr, "%s: %s\n", what, standfast_group_error());
    MPI_Abort(MPI_COMM_WORLD, 3);
    return result;
}
