! In the place of Standfast's module: nothing is registered and no checkpoint is taken. What stands in Standfast's own place is
! ../../bindings/mpi/fortran/standfast_group.f90.
module standfast_group
    use, intrinsic :: iso_fortran_env, only: real64
    use mpi_f08, only: MPI_Comm
    implicit none
    integer, parameter :: STANDFAST_NEW = 0

contains

    integer function standfast_join(comm)
        type(MPI_Comm), intent(in) :: comm
        standfast_join = merge(STANDFAST_NEW, STANDFAST_NEW, comm%mpi_val == 0)
    end function standfast_join

    subroutine standfast_protect(id, region)
        integer, intent(in) :: id
        type(*), dimension(..), intent(in) :: region
        if (id < 0 .and. rank(region) < 0) error stop 'there is no such region'
    end subroutine standfast_protect

    subroutine standfast_restore()
    end subroutine standfast_restore

    logical function standfast_due(seconds)
        real(real64), intent(in) :: seconds
        standfast_due = seconds < 0
    end function standfast_due

    subroutine standfast_checkpoint()
    end subroutine standfast_checkpoint

    subroutine standfast_finish()
    end subroutine standfast_finish

end module standfast_group
