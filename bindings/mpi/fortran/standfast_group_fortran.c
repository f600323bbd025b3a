/*
 * The C half of the Fortran interface of libstandfast_group. The program's own mpicc compiles it, as its mpifort compiles
 * standfast_group.f90. A program has one group, that of standfast_program.h. A call that fails prints the reason and ends
 * all processes.
 */
#include <ISO_Fortran_binding.h>

#include <standfast_program.h>

int standfast_fortran_join(MPI_Fint comm) {
    return standfast_start(MPI_Comm_f2c(comm));
}

/* Registers data of any type and rank: the descriptor holds the address, the number of elements and their size. */
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

/* A negative number stands for the interval on the command line. */
int standfast_fortran_due(double seconds) {
    if (seconds < 0) return standfast_due();
    return standfast_checked("standfast_due", standfast_group_due(standfast_the_group, seconds));
}

int standfast_fortran_checkpoint(void) {
    return standfast_checkpoint() ? 0 : 1;
}

void standfast_fortran_finish(void) {
    standfast_finish();
}
