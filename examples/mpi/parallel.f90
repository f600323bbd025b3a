! What the parallel programs in Fortran share: ranks, a verdict over all of them, and checkpoints in each other's memory. The
! same as parallel.h is for C. Of the two modules standfast_group one does nothing: that in unprotected.f90.
module parallel
    use mpi_f08
    use example
    use standfast_group
    implicit none
    private
    public :: start, finish, check_all
    public :: standfast_protect, standfast_protect_all, standfast_restored, standfast_due, standfast_checkpoint

    integer, public, protected :: rank, ranks

contains

    subroutine start()
        call MPI_Init()
        call MPI_Comm_rank(MPI_COMM_WORLD, rank)
        call MPI_Comm_size(MPI_COMM_WORLD, ranks)
        call standfast_start(MPI_COMM_WORLD)
    end subroutine start

    ! The verdict over the largest of what the ranks have found; told by one, heeded by all.
    subroutine check_all(what, found, most)
        character(len=*), intent(in) :: what
        real(real64), intent(in) :: found, most
        real(real64) :: largest
        logical :: holds
        call MPI_Allreduce(found, largest, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD)
        call MPI_Allreduce(found <= most, holds, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD)
        if (rank == 0) call check(what, merge(largest, huge(largest), holds), most)
        if (.not. holds) stop 1
    end subroutine check_all

    subroutine finish(hash)
        integer(int64), intent(in) :: hash
        call standfast_finish()
        if (rank == 0) print '(a, z16.16)', 'checksum ', hash
        call MPI_Finalize()
    end subroutine finish

end module parallel
