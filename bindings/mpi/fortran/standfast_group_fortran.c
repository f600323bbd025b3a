/*
 * The C half of the Fortran interface of libstandfast_group. Compiled by the program's own mpicc, as standfast_group.f90 is by
 * its mpifort. A program has one group. A call that fails says why and ends all processes.
 */
#include <ISO_Fortran_binding.h>

#define STANDFAST_MPI_IMPLEMENTATION
#include <standfast_mpi.h>

enum { STANDFAST_FAILED = 70 };

static standfast_group *standfast_the_group;

static int standfast_checked(const char *call, int result) {
    if (result >= 0) return result;
    fprintf(stderr, "%s: %s\n", call, standfast_group_error());
    MPI_Abort(MPI_COMM_WORLD, STANDFAST_FAILED);
    return result;
}

int standfast_fortran_join(MPI_Fint comm) {
    return standfast_checked("standfast_join", standfast_mpi_join(MPI_Comm_f2c(comm), NULL, &standfast_the_group));
}

/* Whatever it is: its address, elements and their size are in the descriptor. */
void standfast_fortran_protect(int64_t id, const CFI_cdesc_t *region) {
    size_t count = 1;
    if (region->rank > 0 && !CFI_is_contiguous(region)) {
        fprintf(stderr, "standfast_protect: region %lld is not contiguous\n", (long long)id);
        MPI_Abort(MPI_COMM_WORLD, STANDFAST_FAILED);
    }
    for (int at = 0; at < region->rank; at++) count *= (size_t)region->dim[at].extent;
    standfast_checked("standfast_protect", standfast_group_protect(standfast_the_group, id, region->base_addr, count,
                                                                   region->elem_len));
}

void standfast_fortran_unprotect(int64_t id) {
    standfast_checked("standfast_unprotect", standfast_group_unprotect(standfast_the_group, id));
}

int64_t standfast_fortran_recorded(int64_t id) {
    return standfast_group_recorded(standfast_the_group, id);
}

void standfast_fortran_restore(void) {
    standfast_checked("standfast_restore", standfast_group_restore(standfast_the_group));
}

/* A negative number stands for what was asked for on the command line, which process 0 has. */
int standfast_fortran_due(double seconds) {
    const char *asked = getenv("STANDFAST_GROUP_INTERVAL");
    if (seconds < 0) seconds = asked != NULL ? strtod(asked, NULL) : 60;
    return standfast_checked("standfast_due", standfast_group_due(standfast_the_group, seconds));
}

int standfast_fortran_checkpoint(void) {
    return standfast_checked("standfast_checkpoint", standfast_group_checkpoint(standfast_the_group));
}

void standfast_fortran_finish(void) {
    standfast_checked("standfast_finish", standfast_group_finish(standfast_the_group));
}
